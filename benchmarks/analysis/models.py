"""Recover and raise the operators of real models, and compare with the original modules.

    python -m benchmarks.models [--run] [--json FILE] [MODEL ...]

For each model the legalised module is stripped of every name, attribute and annotation; then
`RaiseOps` must recover the operators. `same` counts the calls whose PrimFunc, legalised again, is
structurally equal to the original's; `--run` compiles both modules with LLVM and compares the
outputs on seeded inputs.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import tvm
from rich.console import Console
from rich.table import Table
from tvm import relax

from opinfo.analysis.certify.structural_equality import structurally_equal
from opinfo.byoc.prepare.raising.raise_ops import Raised, raise_ops
from opinfo.testing.strip import strip_module
from tests import models
from tests.common.run import run


@dataclass(frozen=True)
class Measured:
    """One row: call sites, how many were raised by certificate kind, and what did not agree."""

    model: str
    sites: int
    raised: int
    certificates: dict[str, int]
    same: int
    different_rebuilt: int
    seconds: float
    kept: dict[str, int] = field(default_factory=dict)
    outputs: str = "not run"

    @property
    def share(self) -> float:
        return self.raised / max(self.sites, 1)


def measure(name: str, execute: bool = False) -> Measured:
    """Strip, raise and legalise again; with ``execute`` also run."""
    lowered = relax.transform.LegalizeOps()(models.module(name))
    stripped = strip_module(lowered)
    start = time.perf_counter()
    result = raise_ops(stripped)
    seconds = time.perf_counter() - start
    lowered_again = relax.transform.LegalizeOps()(result.module)
    same, different = compare(lowered, lowered_again, result)
    return Measured(
        name,
        sites=len(calls(lowered)),
        raised=len(result.raised),
        certificates=dict(Counter(r.certificate for r in result.raised)),
        same=same,
        different_rebuilt=different,
        seconds=seconds,
        kept=dict(Counter(k.reason for k in result.kept)),
        outputs=agreement(name, lowered, result.module) if execute else "not run",
    )


def calls(mod: Any) -> list[Any]:
    """The PrimFunc of each call_tir, in program order."""
    prim_funcs = []
    for _, func in sorted(mod.functions_items(), key=lambda item: item[0].name_hint):
        if isinstance(func, relax.Function):
            for block in func.body.blocks:
                for binding in block.bindings:
                    callee = _callee(binding.value)
                    if callee is not None:
                        prim_funcs.append(mod[callee])
    return prim_funcs


def _callee(value: Any) -> Any:
    if isinstance(value, tvm.ir.Call) and str(getattr(value.op, "name", "")) == "relax.call_tir":
        return value.args[0]
    return None


def compare(lowered: Any, lowered_again: Any, result: Raised) -> tuple[int, int]:
    """Calls whose PrimFunc is structurally the original's; `rebuilt` ones for which it is not."""
    before, after = calls(lowered), calls(lowered_again)
    assert len(before) == len(after), "raising and legalising again changed the number of calls"
    equal = [structurally_equal(a, b) for a, b in zip(before, after, strict=True)]
    rebuilt = {r.site for r in result.raised if r.certificate == "rebuilt"}
    return sum(equal), sum(not equal[site] for site in rebuilt)


def agreement(name: str, original: Any, raised: Any) -> str:
    """The largest difference of the outputs, relative to their largest value."""
    values = [*models.inputs(name), *models.weights(name)]
    worst = 0.0
    for a, b in zip(run(original, values), run(raised, values), strict=True):
        if a.shape != b.shape or not np.isfinite(np.asarray(a, "float64")).all():
            return "not comparable"
        scale = max(float(np.abs(a).max(initial=0)), 1e-30)
        worst = max(worst, float(np.abs(a.astype("float64") - b).max(initial=0)) / scale)
    return "bit-equal" if worst == 0 else f"within {worst:.1e}"


def table(rows: Sequence[Measured]) -> Table:
    out = Table("model", "sites", "raised", "share", "rebuilt", "proved", "same", "s", "outputs")
    for row in rows:
        out.add_row(
            row.model, str(row.sites), str(row.raised), f"{row.share:.1%}",
            str(row.certificates.get("rebuilt", 0)), str(row.certificates.get("proved", 0)),
            str(row.same), f"{row.seconds:.2f}", row.outputs,
        )  # fmt: skip
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(models.NAMES))
    parser.add_argument("--run", action="store_true", help="compile and compare the outputs")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    console = Console(width=120)
    rows = []
    for name in options.models or models.NAMES:
        row = measure(name, options.run)
        rows.append(row)
        console.print(f"{name}: {row.raised}/{row.sites}, {row.outputs}", highlight=False)
        for reason, count in row.kept.items():
            console.print(f"  kept {count}: {reason}", highlight=False)
    console.print(table(rows))
    total, raised = sum(r.sites for r in rows), sum(r.raised for r in rows)
    console.print(f"{raised} of {total} call sites ({raised / max(total, 1):.2%})")
    if options.json:
        with open(options.json, "w") as file:
            json.dump([asdict(r) for r in rows], file, indent=1)


if __name__ == "__main__":
    main()
