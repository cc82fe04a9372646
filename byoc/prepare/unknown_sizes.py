"""Refuse operators that TVM does not lower, since their sizes are unknown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from ...analysis.support.ir.tensor_dims import tensor_dims
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
    operands = [*_tensors(call.args)]
    results = [*_tensors([binding.var])]
    if not results or all(tensor_dims(x) is not None for x in (*operands, *results)):
        return
    node = node_of(binding)
    shown = ", ".join(_type(x) for x in operands)
    raise ValueError(
        f"{node and f'{node}: '}{call.op.name!s} of {shown}: TVM cannot infer its sizes, and "
        "does not lower it; give dimensions that are equal one name, or cast operands by match_cast"
    )


def _tensors(values: Any) -> Iterator[Any]:
    """Yield the tensors among values, also in tuples."""
    for value in values:
        if isinstance(value, relax.Tuple):
            yield from _tensors(value.fields)
        elif isinstance(value.ty, relax.TensorType):
            yield value


def _type(tensor: Any) -> str:
    """Format a tensor's type: ``float32[m, 8]``."""
    dims = tensor_dims(tensor)
    rank = tensor.ty.ndim
    sizes = ", ".join(map(str, dims if dims is not None else "?" * max(rank, 0)))
    return f"{tensor.ty.dtype}[{sizes}]"
