"""Rewrites that keep a module's meaning and let TVM legalise it.

`relax.strided_slice` with a negative axis and a symbolic extent is not legalised ("axis <
src_tensor_dim (-1 vs. 2)").

Before: `R.strided_slice(x, (-1,), (0,), (16,), (1,))`; after, for a 2-d `x`:
`R.strided_slice(x, (1,), (0,), (16,), (1,))`.
"""

from __future__ import annotations

import tvm
from tvm import relax


@relax.expr_functor.mutator
class _Tidy(relax.PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
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
    mutator = _Tidy(mod)
    for gvar, func in mod.functions_items():
        if isinstance(func, relax.Function):
            mutator.builder_.update_func(gvar, mutator.visit_expr(func))
    return mutator.builder_.get()
