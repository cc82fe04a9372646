"""Refuse operators that TVM does not lower, since their sizes are unknown."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from ...analysis.support.ir.tensor_dims import operand_types, tensors_of
from ...analysis.support.origin import node_of


def refuse_unknown_sizes(mod: Any) -> None:
    """Raise ``ValueError`` for an operator of a lowered module that stays because of its sizes.

    TVM infers no shape for `add` of (m, k) and (n,), as k or n may be 1. It leaves such calls, and
    its code generation fails on them later without their types.
    """
    for _, func in mod.functions_items():
        if isinstance(func, relax.Function):
            tvm_ffi.structural_walk(func, (relax.VarBinding, _check))


def _check(binding: Any) -> None:
    call = binding.value
    if not (isinstance(call, relax.Call) and isinstance(call.op, tvm.ir.Op)):
        return
    if call.op.get_attr("FLegalize") is None or call.op.get_attr("FDataDependent"):
        return
    operands = [x.ty for x in tensors_of(call.args)]
    results = [ty for ty in _fields(binding.var.ty) if isinstance(ty, relax.TensorType)]
    if not results or all(isinstance(ty.shape, relax.ShapeExpr) for ty in (*operands, *results)):
        return
    node = node_of(binding)
    raise ValueError(
        f"{node and f'{node}: '}{call.op.name!s} of {operand_types(call)}: TVM cannot infer its "
        "sizes, and does not lower it; give dimensions that are equal one name, or cast operands "
        "by match_cast"
    )


def _fields(ty: Any) -> list[Any]:
    """Return the types of a tuple's fields, or the type of a tensor."""
    return list(ty.fields) if isinstance(ty, relax.TupleType) else [ty]
