"""Operators that can be raised before and after planning in graph mode.

    python -m benchmarks.layout_graph [--model NAME] [--page FILE]

Each module is legalised and raised as it is, and planned in graph mode for NHWC convolutions and
raised. The exit status is 1 if an operator of some name is raised less often after planning;
what only moves elements does not count. A `matmul` that absorbs a transpose is raised as `einsum`:
that is told apart.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm import relax

from benchmarks.layouts import models
from benchmarks.layouts.page import table
from opinfo.byoc.raise_ops import raise_ops
from opinfo.layout.plan import plan_layout

NHWC = {"nn.conv2d": ["NHWC", "OHWI"]}
MODELS = ("resnet18", "mobilenet_v2", "shufflenet", "unet", "bert", "vit")
#: Those that only change the order or the shape: a plan makes and absorbs them.
MOVES = frozenset({"relax.permute_dims", "relax.reshape", "relax.layout_transform"})

HEAD = """# Operators raised after planning

Written by `python -m benchmarks.layout_graph --page docs/layout-graph.md`.

Calls of PrimFuncs that `RaiseOps` takes back to Relax operators, of the module after `LegalizeOps`
and of its plan in graph mode with NHWC convolutions; those that only move elements do not count.
"""


@dataclass(frozen=True)
class Row:
    """By operator, how often it is raised, and what is less often after planning."""

    model: str
    before: Counter[str]
    after: Counter[str]

    @property
    def contracted(self) -> int:
        """The `matmul` that are `einsum` after planning."""
        lost, new = self.before - self.after, self.after - self.before
        return min(lost["relax.matmul"], new["relax.einsum"])

    @property
    def lost(self) -> Counter[str]:
        return self.before - self.after - Counter({"relax.matmul": self.contracted})


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layout_graph", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("--model", action="append", choices=(*models.NAMES, *models.MORE))
    parser.add_argument("--page", metavar="FILE", type=Path, help="write the table as Markdown")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for name in options.model or MODELS:
        rows.append(row(name, models.module(name)))
        print(told(rows[-1]), flush=True)
    if options.page:
        options.page.write_text(page(rows))
    return 1 if any(r.lost for r in rows) else 0


def row(name: str, mod: Any) -> Row:
    """What is raised of a model before `LegalizeOps`."""
    lowered = relax.transform.LegalizeOps()(mod)
    return Row(name, raised(lowered), raised(plan_layout(lowered, NHWC, mode="graph").module))


def raised(mod: Any) -> Counter[str]:
    """The operators that calls become again, by name."""
    return Counter(s.op for s in raise_ops(mod).raised if s.op not in MOVES)


def told(r: Row) -> str:
    """A row as one line."""
    return (f"{r.model}: {r.before.total()} raised before, {r.after.total()} after, of these "
            f"{r.contracted} matmul as einsum; lost: {lost(r)}")  # fmt: skip


def lost(r: Row) -> str:
    names = (f"{n} {k.removeprefix('relax.')}" for k, n in sorted(r.lost.items()))
    return ", ".join(names) or "none"


def page(rows: Sequence[Row]) -> str:
    head = ("model", "raised before", "raised after", "matmul as einsum", "lost")
    lines = [(r.model, str(r.before.total()), str(r.after.total()), str(r.contracted), lost(r))
             for r in rows]  # fmt: skip
    return f"{HEAD}\n{table(head, lines)}\n"


if __name__ == "__main__":
    sys.exit(main())
