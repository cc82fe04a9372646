"""Slices in place of splits, and a move of its own for each slice of a moved tensor.

Before: y = R.split(x, 2, axis=1); a = y[0]; b = y[1]
After:  a = R.strided_slice(x, axes=[1], begin=[0], end=[3]); b = R.strided_slice(x, …, end=[6])

Before: y = R.permute_dims(x); a = y[0]; b = y[1]; c = y[2]        queries, keys and values
After:  y0 = R.permute_dims(x); a = y0[0]; y1 = R.permute_dims(x); b = y1[0]; …

Regions consist of operators with one result, and take a move only if nothing else reads its result.
A move stays if something other than a move reads it. TVM fuses a slice with the operators that read
it, and with the move before it.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import relax

from ...analysis.lifting.tir.node import NodeDict
from .mutation.mutate import mutated, named

_MOVES = tuple(f"relax.{n}" for n in ("reshape", "permute_dims", "expand_dims", "squeeze",
                                      "strided_slice"))  # fmt: skip


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
    """Replaces the parts of a split by slices."""

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


def own_moves(mod: Any) -> Any:
    """The module with a move for each reader; the input is not changed."""
    return relax.transform.DeadCodeElimination()(mutated(mod, _Own(mod)))


def _is_move(expr: Any) -> bool:
    return any(named(expr, name) for name in _MOVES)


@relax.expr_functor.mutator
class _Own(relax.PyExprMutator):  # type: ignore[misc]
    """Gives each slice of a moved tensor a move of its own."""

    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        self.moves: NodeDict[int] = NodeDict()  # by variable: its readers that move it
        self.reads: NodeDict[int] = NodeDict()  # by variable: all places that mention it
        for _, func in mod.functions_items():
            if isinstance(func, relax.Function):
                tvm_ffi.structural_walk(func, (relax.VarBinding, self.count))
                tvm_ffi.structural_walk(func, (relax.SeqExpr, self.count_result))

    def count(self, binding: Any) -> None:
        def mention(var: Any) -> None:
            self.reads[var] = (self.reads.get(var) or 0) + 1
            if _is_move(binding.value) and binding.value.args[0].same_as(var):
                self.moves[var] = (self.moves.get(var) or 0) + 1

        tvm_ffi.structural_walk(binding.value, (relax.Var, mention))

    def count_result(self, sequence: Any) -> None:
        if isinstance(sequence.body, relax.Var):
            self.reads[sequence.body] = (self.reads.get(sequence.body) or 0) + 1

    def visit_call_(self, call: Any) -> Any:
        before = call.args[0] if _is_move(call) else None
        call = super().visit_call_(call)
        if before is None or not self.shared(before):
            return call
        source = self.lookup_binding(call.args[0]) if isinstance(call.args[0], relax.Var) else None
        if source is None or not _is_move(source):
            return call
        args = [self.builder_.emit(self.copied(source)), *call.args[1:]]
        return relax.Call(call.op, args, call.attrs, call.ty_args)

    def copied(self, move: Any) -> Any:
        """A move over copies of the moves before it."""
        source = self.lookup_binding(move.args[0]) if isinstance(move.args[0], relax.Var) else None
        args = list(move.args)
        if source is not None and _is_move(source):
            args[0] = self.builder_.emit(self.copied(source))
        return relax.Call(move.op, args, move.attrs, move.ty_args)

    def shared(self, var: Any) -> bool:
        """Whether several moves, and nothing else, read a variable."""
        readers = self.moves.get(var) if isinstance(var, relax.DataflowVar) else None
        return readers is not None and readers > 1 and readers == self.reads.get(var)
