"""Count the operators that can be raised before and after planning in graph mode.

    python -m benchmarks.layout_graph [--model NAME] [--page [FILE]]

Each module is legalised and raised, and also planned in graph mode for NHWC convolutions and
raised. Exits with 1 if some operator is there less often after planning; layout-only operators and
copies do not count. Operators in layouts that TVM cannot lower, such as transposed convolutions in
NHWC, stay PrimFuncs that are recovered, and count. For operators with layouts or axes, the page
lists them before and after.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax

from benchmarks.common import nets
from benchmarks.common.pages import add_page_option, table
from opinfo.analysis import OpInfo, op_info
from opinfo.byoc.prepare.raising.raise_ops import raise_ops
from opinfo.layout.access.copies import copied_param
from opinfo.layout.plan import plan_layout

NHWC = {"nn.conv2d": ["NHWC", "OHWI"]}
MODELS = ("resnet18", "mobilenet_v2", "shufflenet", "convnext", "unet", "mixed", "bert", "vit")
#: Attributes that name dimensions.
LAID = ("data_layout", "kernel_layout", "layout", "axis", "axes")
#: Operators that only change order or shape, which planning adds and removes.
MOVES = frozenset(
    f"relax.{name}"
    for name in ("permute_dims", "reshape", "layout_transform", "expand_dims", "squeeze", "flatten")
)

HEAD = """# Operators raised after planning

Written by `python -m benchmarks.layout_graph --page`.

The number of PrimFunc calls that are Relax operators, after `LegalizeOps` and after planning in
graph mode with NHWC convolutions. `RaiseOps` raises them, except those in layouts that TVM cannot
lower, such as transposed convolutions in NHWC. Layout-only operators and copies do not count. Each
answer has a certificate of at least `proved`.
"""


@dataclass(frozen=True)
class Counts:
    """Numbers of raised calls: by operator, and by operator with its layouts and axes."""

    ops: Counter[str]
    laid: Counter[str]


@dataclass(frozen=True)
class Row:
    """The raised calls of a model, unplanned and planned."""

    model: str
    before: Counts
    after: Counts

    @property
    def lost(self) -> Counter[str]:
        """The operators that are raised less often after planning."""
        return self.before.ops - self.after.ops


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layout_graph", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("--model", action="append", choices=(*nets.NAMES, *nets.MORE))
    add_page_option(parser, "layout-graph.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for name in options.model or MODELS:
        rows.append(row(name, nets.module(name)))
        print(as_line(rows[-1]), flush=True)
    if options.page:
        options.page.write_text(page(rows), encoding="utf-8")
    return 1 if any(r.lost for r in rows) else 0


def row(name: str, mod: Any) -> Row:
    """Legalise a model, and count its raised calls with and without planning."""
    lowered = relax.transform.LegalizeOps()(mod)
    return Row(name, raised(lowered), raised(plan_layout(lowered, NHWC, mode="graph").module))


def raised(mod: Any) -> Counts:
    """Raise a module, and count the raised calls."""
    result = raise_ops(mod)
    copies = [copied_param(func) is not None for func in called(mod)]
    ops = Counter(s.op for s in result.raised if s.op not in MOVES and not copies[s.site])
    for kept in result.kept:
        info = op_info(mod[kept.prim_func])
        if isinstance(info, OpInfo) and info.relaid:
            ops[info.name] += 1
    return Counts(ops, laid(result.module))


def called(mod: Any) -> list[Any]:
    """Return the PrimFunc of each ``call_tir``, in the order of raising."""
    calls: list[Any] = []

    def visit(expr: Any) -> None:
        if isinstance(expr, relax.Call) and str(getattr(expr.op, "name", "")) == "relax.call_tir":
            calls.append(mod[expr.args[0]])

    for _, func in mod.functions_items():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func, visit)
    return calls


def laid(mod: Any) -> Counter[str]:
    """Count the operators that have layouts or axes, by both."""
    out: Counter[str] = Counter()

    def visit(expr: Any) -> None:
        if isinstance(expr, relax.Call) and expr.attrs is not None and expr.op.name not in MOVES:
            attrs = {k: getattr(expr.attrs, k, None) for k in LAID}
            text = " ".join(f"{k}={v}" for k, v in attrs.items() if v is not None)
            if text:
                out[f"{expr.op.name.removeprefix('relax.')} {text}"] += 1

    for _, func in mod.functions_items():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func, visit)
    return out


def as_line(result: Row) -> str:
    """Format a row as one line."""
    return (f"{result.model}: {result.before.ops.total()} raised before, "
            f"{result.after.ops.total()} after; lost: {lost(result)}")  # fmt: skip


def lost(result: Row) -> str:
    names = (f"{n} {k.removeprefix('relax.')}" for k, n in sorted(result.lost.items()))
    return ", ".join(names) or "none"


def page(rows: Sequence[Row]) -> str:
    head = ("model", "raised before", "raised after", "lost")
    lines = [(r.model, str(r.before.ops.total()), str(r.after.ops.total()), lost(r)) for r in rows]
    parts = [f"{HEAD}\n{table(head, lines)}\n", "## Layouts and axes\n"]
    for result in rows:
        ops = sorted(result.before.laid | result.after.laid)
        counts = [
            (f"`{op}`", str(result.before.laid[op]), str(result.after.laid[op])) for op in ops
        ]
        parts.append(f"### {result.model}\n\n{table(('operator', 'before', 'after'), counts)}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
