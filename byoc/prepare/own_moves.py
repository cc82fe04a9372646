"""Give each reader of a moved tensor its own move, so that regions read the tensor in place.

Before: y = R.permute_dims(x); a = y[0]; b = y[1]; c = y[2]        queries, keys and values
After:  y0 = R.permute_dims(x); a = y0[0]; y1 = R.permute_dims(x); b = y1[0]; …

A region takes a move only if nothing else reads its result. A move stays if something other than a
move reads it; TVM fuses a move with the slice after it.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import relax

from ...analysis.lifting.tir.node import NodeDict
from .integers import named
from .mutate import mutated

_MOVES = tuple(f"relax.{n}" for n in ("reshape", "permute_dims", "expand_dims", "squeeze",
                                      "strided_slice"))  # fmt: skip


def own_moves(mod: Any) -> Any:
    """The module with a move for each reader; the input is not changed."""
    return relax.transform.DeadCodeElimination()(mutated(mod, _Own(mod)))


def _is_move(expr: Any) -> bool:
    return any(named(expr, name) for name in _MOVES)


@relax.expr_functor.mutator
class _Own(relax.PyExprMutator):  # type: ignore[misc]
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
