"""Write tuples of indices into the calls that read at them, so that checks see each index.

Before: `t = (i, j)`, `y = R.index_tensor(x, t)`; after: `y = R.index_tensor(x, (i, j))`.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from ...analysis.support.ir.rewrite_functions import rewrite_functions

_OPERATORS = ("relax.index_tensor", "relax.index_put")


def with_tuple_operands(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a module whose calls have their indices in tuples; `mod` is not modified."""
    found: list[Any] = []
    for func in mod.functions.values():
        if isinstance(func, relax.Function):
            tvm_ffi.structural_walk(func, (relax.Call, found.append))
    return rewrite_functions(mod, _Inline(mod)) if any(map(_has_variable, found)) else mod


def _has_variable(call: Any) -> bool:
    return getattr(call.op, "name", "") in _OPERATORS and isinstance(call.args[1], relax.Var)


@relax.expr_functor.mutator
class _Inline(relax.PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        if not _has_variable(call) or not isinstance(call.args[1].ty, relax.TupleType):
            return call
        indices = call.args[1]
        value = self.lookup_binding(indices)
        if not isinstance(value, relax.Tuple):
            count = len(indices.ty.fields)
            value = relax.Tuple([self.builder_.emit(relax.TupleGetItem(indices, k))
                                 for k in range(count)])  # fmt: skip
        first, _, *rest = call.args
        return relax.Call(call.op, [first, value, *rest], call.attrs, call.ty_args, call.span)
