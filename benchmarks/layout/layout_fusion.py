"""Count the PrimFunc calls that FuseOps leaves of planned, NHWC and unplanned modules.

    python -m benchmarks.layout_fusion [--model NAME] [--page [FILE]]

Each module goes through `AnnotateTIROpPattern`, `opinfo.transform.AnnotateOpInfo`, `FuseOps` and
`FuseTIR`; then the PrimFunc calls left in `main` are counted, except those on constants only.
**given** is the module after `LegalizeOps`, **native** the module after TVM's `ConvertLayout` to
NHWC and `LegalizeOps`. Exits with 1 if a plan has more calls than the native module.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from benchmarks.common import nets
from benchmarks.common.pages import add_page_option, table
from opinfo.layout.plan import plan_layout
from opinfo.transform import AnnotateOpInfo

NATIVE = {"relax.nn.conv2d": ["NHWC", "OHWI"]}
WANTED: dict[str, Any] = {
    "NHWC": {"nn.conv2d": ["NHWC", "OHWI"]},
    "tvm-nhwc": "tvm-nhwc",
    "NCHW8c": {"nn.conv2d": ["NCHW8c", "OIHW8i8o"]},
}
MODELS = ("resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3", "unet", "yolo")

HEAD = """# Fusion after planning

Written by `python -m benchmarks.layout_fusion --page`.

The number of calls left after `AnnotateTIROpPattern`, `AnnotateOpInfo`, `FuseOps` and `FuseTIR`,
for the original module, for TVM's `ConvertLayout` to NHWC, and for planned modules. U-Net does not
compile after `ConvertLayout`: its `conv2d_transpose` has no legalisation.
"""


@dataclass(frozen=True)
class Row:
    """The numbers of calls of one model; a failure is a text."""

    model: str
    given: int
    native: int | str
    planned: dict[str, int]

    @property
    def behind(self) -> list[str]:
        """The plans with more calls than the native module, or else the unplanned one."""
        least = self.native if isinstance(self.native, int) else self.given
        return [name for name, calls in self.planned.items() if calls > least]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layout_fusion", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("--model", action="append", choices=(*nets.NAMES, *nets.MORE))
    add_page_option(parser, "layout-fusion.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for name in options.model or MODELS:
        rows.append(row(name, nets.module(name)))
        print(rows[-1], flush=True)
    if options.page:
        options.page.write_text(page(rows), encoding="utf-8")
    behind = [f"{r.model} as {name}" for r in rows for name in r.behind]
    print(f"more calls than native: {', '.join(behind)}" if behind else "none has more calls")
    return 1 if behind else 0


def row(name: str, mod: Any) -> Row:
    """Count the calls of a model before `LegalizeOps`."""
    lowered = relax.transform.LegalizeOps()(mod)
    planned = {
        text: calls(plan_layout(lowered, implementation).module)
        for text, implementation in WANTED.items()
    }
    return Row(name, calls(lowered), native(mod), planned)


def native(mod: Any) -> int | str:
    """Return the number of calls if TVM converts the module to NHWC, or why it cannot."""
    try:
        return calls(relax.transform.ConvertLayout(NATIVE)(mod))
    except Exception as error:  # TVM may raise anything
        return f"raises {type(error).__name__}"


def calls(mod: Any) -> int:
    """Count the calls after fusion, except those that only read constants."""
    main = fused(mod)["main"]
    live, number = {p.__chandle__() for p in main.params}, 0
    for block in main.body.blocks:
        for binding in block.bindings:
            used: list[int] = []

            def note(var: Any, used: list[int] = used) -> None:
                used.append(var.__chandle__())

            tvm_ffi.structural_walk(binding.value, (relax.Var, note))
            if live.isdisjoint(used):
                continue
            live.add(binding.var.__chandle__())
            number += isinstance(
                binding.value, relax.Call
            )  # including operators without legalisation
    return number


def fused(mod: Any) -> Any:
    passes = [
        relax.transform.LegalizeOps(), relax.transform.AnnotateTIROpPattern(), AnnotateOpInfo(),
        relax.transform.FuseOps(), relax.transform.FuseTIR(),
    ]  # fmt: skip
    return tvm.transform.Sequential(passes)(mod)


def page(rows: Sequence[Row]) -> str:
    head = ("model", "given", "ConvertLayout", *WANTED)
    lines = [(r.model, str(r.given), str(r.native), *map(str, r.planned.values())) for r in rows]
    return f"{HEAD}\n{table(head, lines)}\n"


if __name__ == "__main__":
    sys.exit(main())
