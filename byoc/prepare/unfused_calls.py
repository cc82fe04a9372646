"""Keep TVM from fusing calls whose extents are not proved to be what their PrimFunc needs.

    f(a: Buffer[n], b: Buffer[n])  called with  x: Tensor[m], y: Tensor[k]

TVM's FuseTIR takes one of m and k for n, and drops the comparison of both at run time, or fails. A
PrimFunc that is not fused compares its extents itself.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import relax, tirx

from ...analysis.support.ir.call_ops import is_call_tir
from ...layout.graph.call_extents import unequal_extents

#: TVM's ``op_pattern`` of what is not fused.
_OPAQUE = 8


def without_unproved_fusions(mod: Any) -> Any:
    """Return a module in which FuseOps fuses no call of unproved extents; `mod` is not modified."""
    apart = {}
    for _, func in mod.functions_items():
        for call in _calls(func):
            callee = call.args[0]
            if callee in apart or not isinstance(mod.functions.get(callee), tirx.PrimFunc):
                continue
            if unequal_extents(mod[callee], call) is not None:
                apart[callee] = mod[callee].with_attr("op_pattern", _OPAQUE)
    if not apart:
        return mod
    out = mod.clone()
    for gvar, func in apart.items():
        out.update_func(gvar, func)
    return out


def _calls(func: Any) -> list[Any]:
    found: list[Any] = []
    if isinstance(func, relax.Function):
        tvm_ffi.structural_walk(func, (relax.Call, found.append))
    return [call for call in found if is_call_tir(call)]
