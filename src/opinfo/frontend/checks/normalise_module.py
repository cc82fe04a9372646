"""Rewrites that keep a module's meaning and let TVM legalise it.

`relax.strided_slice` with a negative axis and a symbolic extent is not legalised ("axis <
src_tensor_dim (-1 vs. 2)").

Before: `R.strided_slice(x, (-1,), (0,), (16,), (1,))`; after, for a 2-d `x`:
`R.strided_slice(x, (1,), (0,), (16,), (1,))`.

A constant without elements adds nothing to a concatenation, and is an operator elsewhere, since
files cannot hold it (`empty_constants`). Before: `R.concat((x, y), axis=1)` with a constant `y` of
shape (1, 0, 3); after: `x`.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from ...analysis.support.ir import empty_constants
from ...analysis.support.ir.rewrite_functions import rewrite_functions
from ...analysis.support.tvm_compat import GenericConst, array_of


@relax.expr_functor.mutator
class _Tidy(relax.PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(_without_empty_parts(call))
        if call.op != tvm.ir.Op.get("relax.strided_slice"):
            return call
        axes = [int(axis) for axis in call.args[1].fields]
        rank = call.args[0].ty.ndim
        if rank < 0 or min(axes, default=0) >= 0:
            return call
        data, _, begin, end, *strides = call.args
        positive = [axis % rank for axis in axes]
        return relax.op.strided_slice(
            data, positive, begin, end, *strides, assume_inbound=call.attrs.assume_inbound
        )


def tidy(mod: tvm.IRModule) -> tvm.IRModule:
    """Return an equivalent module that `LegalizeOps` accepts; `mod` is not modified."""
    return empty_constants.replaced(rewrite_functions(mod, _Tidy(mod)), empty_constants.as_zeros)


def _without_empty_parts(call: relax.Call) -> relax.Call:
    """Return a concatenation without the constants that have no elements along its axis."""
    if call.op != tvm.ir.Op.get("relax.concat") or not isinstance(call.args[0], relax.Tuple):
        return call
    axis = call.attrs.axis
    parts = [part for part in call.args[0].fields if not _is_empty(part, axis)]
    kept = len(call.args[0].fields) > len(parts) > 0 and axis is not None
    return relax.op.concat(parts, axis) if kept else call


def _is_empty(part: Any, axis: int | None) -> bool:
    return isinstance(part, GenericConst) and axis is not None and array_of(part).shape[axis] == 0
