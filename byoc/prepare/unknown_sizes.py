"""Refuse operators that TVM does not lower, since their sizes are unknown."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from ...analysis.support.ir.tensor_dims import operand_types, tensor_dims, tensors_of
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
    operands = [*tensors_of(call.args)]
    results = [*tensors_of([binding.var])]
    if not results or all(tensor_dims(x) is not None for x in (*operands, *results)):
        return
    node = node_of(binding)
    raise ValueError(
        f"{node and f'{node}: '}{call.op.name!s} of {operand_types(call)}: TVM cannot infer its "
        "sizes, and does not lower it; give dimensions that are equal one name, or cast operands "
        "by match_cast"
    )
