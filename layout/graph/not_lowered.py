"""Modules whose operators are not lowered yet, in which nothing can be planned."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx

from ...analysis.support.warn import warn


def warn_if_not_lowered(mod: Any, what: str) -> None:
    """Warn if a module has no PrimFunc, but calls operators that TVM lowers to PrimFuncs."""
    functions = [func for _, func in mod.functions_items()]
    if any(isinstance(func, tirx.PrimFunc) for func in functions):
        return
    names: set[str] = set()

    def visit(call: tvm.ir.Call) -> None:
        if isinstance(call.op, tvm.ir.Op) and call.op.get_attr("FLegalize") is not None:
            names.add(str(call.op.name))

    for func in functions:
        if isinstance(func, relax.Function):
            tvm_ffi.structural_walk(func, (tvm.ir.Call, visit))
    if names:
        warn(f"{what}: the module has no PrimFunc, since {min(names)} is not lowered; apply "
             "relax.transform.LegalizeOps first")  # fmt: skip
