"""TVM's own ConvertLayout, and the conversions that it leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from opinfo.layout.report.count import count
from opinfo.layout.report.plan_report import Conversions

WANTED = {"relax.nn.conv2d": ["NHWC", "OHWI"]}


@dataclass(frozen=True)
class Converted:
    """The conversions left, and the problem of the module, or ""."""

    left: Conversions | None
    problem: str = ""


def left_by_convert_layout(mod: Any, required: Mapping[str, Sequence[str]] = WANTED) -> Converted:
    """Convert a module before legalisation, and count."""
    desired = {op: list(layouts) for op, layouts in required.items()}
    try:
        out = relax.transform.ConvertLayout(desired)(mod)
    except Exception as error:  # TVM may raise anything
        return Converted(None, f"raises {type(error).__name__}")
    try:
        lowered = relax.transform.LegalizeOps()(out)
    except Exception as error:
        return Converted(count(out), f"does not lower: {type(error).__name__}")
    unlowered = sorted(_operators(lowered) - _operators(relax.transform.LegalizeOps()(mod)))
    if unlowered:
        return Converted(count(lowered), f"does not compile: {', '.join(unlowered)}")
    return Converted(count(lowered))


def _operators(mod: Any) -> set[str]:
    """Return the operators that a module calls."""
    names: set[str] = set()

    def visit(call: Any) -> None:
        if isinstance(call.op, tvm.ir.Op):
            names.add(str(call.op.name))

    for _, func in mod.functions_items():
        if isinstance(func, relax.Function):
            tvm_ffi.structural_walk(func, (tvm.ir.Call, visit))
    return names
