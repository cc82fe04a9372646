"""Lift a PrimFunc to a tensor expression.

The body is executed symbolically, statement by statement, with its imperative meaning: an
``SBlock`` binds iterators to values, and its ``init`` is a store guarded by "first iteration".
Other uses of iterator kinds, read and write regions, and names are ignored, so none of them can
mislead. An annotation must be known as neutral (`analysis.lifting.tir.annotations`). The result
has, for each output, one closed term over the parameters:

    out[y0, y1, …] = term(y0, y1, …)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..support.tvm_compat import is_predicated
from ..terms.condition_terms import conj, eq0, negate
from ..terms.term import TRUE, ZERO, TensorVar, Term, Var
from ..terms.traversal import free
from .effects.effects import Effects, Write
from .effects.extern_call import ExternCall
from .effects.tensor_expression import TensorExpression
from .externs import check_operands, execute, name_of
from .loop_iterations import Loops
from .loops.scatter_loops import by_data
from .loops.while_loops import close_while
from .outputs import check_outputs, output, updates
from .tir.annotations import check_annotations, check_keys
from .tir.counted_while import with_counted_loops
from .tir.expression_checks import check_index
from .tir.node import items, script
from .tir.unliftable import Unliftable


def lift(
    func: Any,
    params: Sequence[TensorVar | Var] | None = None,
    *,
    externs: bool = False,
    in_place: bool = False,
) -> TensorExpression:
    """Return what a PrimFunc computes, as a tensor expression without loops, blocks or names.

    Args:
        func: A `tirx.PrimFunc`.
        params: The tensors and scalars to express it over, one for each parameter; by default new
            ones.
        externs: Take each result of a known extern function for a tensor of its own, see
            `analysis.lifting.externs`. The terms then do not say from which elements of the
            operands an element is computed.
        in_place: Allow parameters that are updated. Their old content is an input, the new one an
            output of its own, which follows the parameters.

    Returns:
        One term for each output buffer.

    Raises:
        WritesInPlace: A parameter is updated, and ``in_place`` is False.
        Unliftable: The PrimFunc cannot be lifted; the message has the reason and the place.
    """
    executor, params_of_func = Executor(func), items(func.params)
    executor.externs = [] if externs else None
    tensors_of_params = [None] * len(params_of_func) if params is None else list(params)
    executor.bind_sizes(params_of_func, tensors_of_params)
    for position, (param, existing) in enumerate(
        zip(params_of_func, tensors_of_params, strict=True)
    ):
        executor.bind_param(param, position, existing)
    values = tuple(executor.values[p] for p in params_of_func)
    executor.run(func.body)
    for tensor, writes in executor.effects.writes.items():
        executor.check_stores(tensor, writes)
    calls = tuple(executor.externs or ())
    indices: tuple[int, ...] = ()
    if in_place:
        outputs, indices = updates(executor, values)
    else:
        check_outputs(executor, values)
        written = (v for v in values if isinstance(v, TensorVar) and v in executor.effects.writes)
        outputs = tuple(output(executor, value) for value in written)
    check_operands(calls, executor.effects.writes)
    return TensorExpression(
        (*values, *(c.out for c, k in zip(outputs, indices, strict=False) if k >= 0)),
        outputs,
        executor.races,
        len(executor.stored.values()),
        executor.promises,
        calls,
        executor.written_sums(),
        indices,
        executor.distinct,
        tuple(executor.assumed),
    )


#: Calls that change no buffer: an assumption about a value, a barrier between threads.
_WITHOUT_EFFECT = frozenset({"tirx.assume", "tirx.tvm_storage_sync"})


class Executor(Loops):
    """The symbolic execution of one PrimFunc."""

    #: The calls of extern functions so far; None if they are refused.
    externs: list[ExternCall] | None = None

    def run(self, stmt: Any) -> None:
        rule = getattr(self, f"run_{type(stmt).__name__}", None)
        if rule is None:
            raise Unliftable(f"unsupported statement {type(stmt).__name__}", script(stmt)[:80])
        rule(stmt)

    def run_SeqStmt(self, stmt: Any) -> None:
        parts = with_counted_loops(items(stmt.seq), self.func)
        for part in parts if self.kernel is None else self.kernel.sequence(parts):
            self.run(part)

    def run_BufferStore(self, stmt: Any) -> None:
        if is_predicated(stmt):
            raise Unliftable("a predicated store is not supported", script(stmt)[:80])
        reader, indices, buffer = self.reader, items(stmt.indices), stmt.buffer
        self.stored[buffer] = reader.vectors = True
        try:
            index = tuple(reader.index(i) for i in indices)
            value, lane = reader(stmt.value), reader.lane
        finally:
            reader.vectors, reader.lane = False, None
        tensor, index = self.locate(buffer, index)
        if tensor in self.aliased:
            raise Unliftable("a store to a buffer whose elements may overlap", tensor.name)
        self.check_literals(tensor, index)
        kernel, loops = self.kernel, self.running
        threads = () if kernel is None else kernel.store(tensor, index, value, loops)
        for around in self.concurrent:
            around.store(tensor, index, value, self.facts)
        if lane is None:
            distinct = bool(threads) and by_data(index)
            self.effects.store(tensor, Write(threads, TRUE, index, value, distinct=distinct))
            return
        check_index(indices)
        write = Write((*threads, lane), TRUE, index, value)
        if lane not in write.inverse:
            raise Unliftable("several lanes of a vector may be stored to one element", tensor.name)
        self.effects.store(tensor, write)

    def run_SBlockRealize(self, stmt: Any) -> None:
        block = stmt.block
        check_annotations(block, block.name_hint)
        first, init = [], block.init
        over, spatial = set[Var](), set[Var]()
        for iv, value in zip(items(block.iter_vars), items(stmt.iter_values), strict=True):
            bound = self.reader.index(value)
            self.env[iv.var] = bound
            if init is None and self.kernel is None:
                continue
            reduction = int(iv.iter_type) == 2
            if self.kernel is not None:
                (over if reduction else spatial).update(free(bound) & self.kernel.threads)
            if init is not None and reduction:
                first.append(eq0(bound - self.reader.index(iv.dom.min)))
        predicate = self.reader(stmt.predicate)
        for buffer in items(block.alloc_buffers):
            tensor = self.bind_buffer(buffer)
            shared_by_threads = self.kernel is None or not self.kernel.is_over_blocks
            if not shared_by_threads and self.scopes[tensor] in ("", "global"):
                self.scopes[tensor] = "local"
        for m in items(block.match_buffers):
            self.match_buffer(m.buffer, m.source)
        if predicate is TRUE and init is None:
            self.run(block.body)
            return
        start = self.fixed(conj(*first), block.name_hint)
        recorded = self.begin_combining(over, spatial) if over and init is not None else None
        self.frames.append(Effects())
        try:
            with self.under_condition(predicate):
                if init is not None:
                    self.effects.then(self.nested(init), start)
                self.run(block.body)
            inner = self.effects
        finally:
            self.frames.pop()
        if recorded is None:
            self.effects.then(inner, predicate)
        else:
            self.combine(over, inner, predicate, recorded)

    def run_IfThenElse(self, stmt: Any) -> None:
        condition = self.reader(stmt.condition)
        yes = self.nested(stmt.then_case, condition)
        no = None
        if stmt.else_case is not None:
            no = self.nested(stmt.else_case, negate(condition))
        if no is not None:
            self._join_branches(self.fixed(condition, "if"), yes, no)
        else:
            self.effects.then(yes, condition)

    def _join_branches(self, condition: Term, yes: Effects, no: Effects) -> None:
        """Join two branches from the same state: neither may read what the other wrote."""
        joined = Effects()
        for branch, guard in ((yes, condition), (no, negate(condition))):
            for tensor, writes in branch.writes.items():
                for write in writes:
                    condition_of_both = conj(guard, write.guard)
                    joined.store(tensor, replace(write, guard=condition_of_both, settled=False))
        self.effects.then(joined)

    def run_While(self, stmt: Any) -> None:
        outside = set(self.values.values())
        condition_effects = Effects()
        self.frames.append(condition_effects)
        try:
            condition = self.reader(stmt.condition)
        finally:
            self.frames.pop()
        effects = self.nested(stmt.body)
        self.drop(effects, lambda tensor: tensor not in outside)  # local to the iteration
        if not (condition_effects.outer | effects.outer).isdisjoint(effects.writes):
            raise Unliftable("a loop changes a value that was read before it", "while")
        self.effects.then(close_while(condition, effects))

    def run_Bind(self, stmt: Any) -> None:
        self.env[stmt.var] = self.reader(stmt.value)

    def run_AllocBuffer(self, stmt: Any) -> None:
        check_annotations(stmt, stmt.buffer.name)
        self.bind_buffer(stmt.buffer)

    def run_DeclBuffer(self, stmt: Any) -> None:
        self.bind_view(stmt.buffer, stmt.data)

    def run_AttrStmt(self, stmt: Any) -> None:
        if stmt.attr_key in ("thread_extent", "virtual_thread"):
            extent = self.reader.index(stmt.value)
            self.loop(stmt, stmt.node.var, ZERO, extent, extent)
            return
        check_keys("AttrStmt", [stmt.attr_key], "")
        self.run(stmt.body)

    def run_Evaluate(self, stmt: Any) -> None:
        if self.externs is not None and name_of(stmt.value):
            self.externs.append(execute(self, stmt.value))
            return
        name = str(getattr(getattr(stmt.value, "op", None), "name", ""))
        if type(stmt.value).__name__ != "IntImm" and name not in _WITHOUT_EFFECT:
            raise Unliftable(*_effect(stmt.value))
        self.promises |= name == "tirx.assume"


def _effect(call: Any) -> tuple[str, str]:
    """Why a call with effects is not understood, and its place."""
    if function := name_of(call):
        return f"calls the extern function {function}, which is not TIR", ""
    return "unsupported call with side effects", script(call)[:80]
