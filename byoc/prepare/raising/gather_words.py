"""Gather the words of rows before they are dequantised, not from a table that is stored in full.

    Before: w = R.nn.group_dequantize(words, scales, …); y = R.take(w, ids, axis=0)
    After:  y = R.nn.group_dequantize(R.take(words, ids, axis=0), R.take(scales, ids, axis=0), …)

The axis must be one along which nothing is packed or grouped. Only tables are changed, which have
two axes: backends match the gathers of matrices of experts. Words are read later than before, so
functions that may write into them stay.
"""

from __future__ import annotations

from typing import Any

from tvm import relax

from ....analysis.composites.grouped import DEQUANTIZE
from ....analysis.proposal.call_op import call_op
from ..mutation.bindings import final_value
from ..mutation.mutate import mutated, named
from .raise_groups import AXES

#: What an index outside of the axis selects is the same for words and scales.
MODES = frozenset({"fast", "clip"})


def gather_words(mod: Any) -> Any:
    """The module with such gathers; the input is not changed, and returned if it has none."""
    gatherer = _Gatherer(mod)
    out = mutated(mod, gatherer)
    return relax.transform.DeadCodeElimination()(out) if gatherer.count else mod


@relax.expr_functor.mutator
class _Gatherer(relax.PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        self.count = 0

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if not named(call, "relax.take") or call.attrs.mode not in MODES:
            return call
        table, ids = final_value(self, call.args[0]), call.args[1]
        if not named(table, DEQUANTIZE) or table.ty.ndim != 2 or getattr(ids.ty, "ndim", -1) < 0:
            return call
        if call.attrs.axis is None:
            return call
        inner = any(isinstance(x, relax.DataflowVar) for x in table.args)
        if inner and not isinstance(call.args[0], relax.DataflowVar):
            return call  # it may be in another block, which has no such variables
        axis = int(call.attrs.axis) % 2
        packed = {n: int(v) % 2 for n in AXES if (v := table.attrs[n]) is not None}
        if axis in packed.values():
            return call
        self.count += 1
        parts = [self.builder_.emit(relax.op.take(x, ids, axis, call.attrs.mode))
                 for x in table.args]  # fmt: skip
        # the axis that is not gathered along, from the back or from the front
        other = -1 if axis == 0 else 0
        attrs = {**table.attrs, **dict.fromkeys(packed, other)}
        return call_op(DEQUANTIZE, parts, attrs, str(parts[0].ty.dtype))
