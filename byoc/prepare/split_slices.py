"""Split as a slice for each part, since regions of subgraphs consist of operators with one result.

Before: y = R.split(x, 2, axis=1); a = y[0]; b = y[1]
After:  a = R.strided_slice(x, axes=[1], begin=[0], end=[3]); b = R.strided_slice(x, …, end=[6])

A slice is also fused with the operators that read it, which TVM does not do with a split.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import relax

from .integers import named
from .mutate import mutated


def split_slices(mod: Any) -> Any:
    """The module with slices; the input is not changed, and returned if it has no split."""
    calls: list[Any] = []
    for _, func in mod.functions_items():
        if isinstance(func, relax.Function):
            tvm_ffi.structural_walk(func, (relax.Call, calls.append))
    if not any(named(call, "relax.split") for call in calls):
        return mod
    return relax.transform.DeadCodeElimination()(mutated(mod, _Slices(mod)))


@relax.expr_functor.mutator
class _Slices(relax.PyExprMutator):  # type: ignore[misc]
    def visit_tuple_getitem_(self, item: Any) -> Any:
        item = super().visit_tuple_getitem_(item)
        call = item.tuple_value
        if isinstance(call, relax.Var):
            call = self.lookup_binding(call)
        if not named(call, "relax.split"):
            return item
        data, axis = call.args[0], int(call.attrs.axis)
        extents = [part.shape.values[axis] for part in call.ty.fields]
        if not all(hasattr(e, "value") for e in extents):
            return item
        begin = sum(int(e.value) for e in extents[: item.index])
        end = begin + int(extents[item.index].value)
        return relax.op.strided_slice(data, [axis % data.ty.ndim], [begin], [end])
