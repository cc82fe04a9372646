"""PrimFunc → tensor comprehensions.

The body is executed symbolically, statement by statement, with its imperative meaning: an
``SBlock`` is a binding of iterators to values, its ``init`` a store guarded by "first iteration".
Iterator kinds but for that, read and write regions, annotations and names are not consulted, so
none of them can mislead. What is left is, per output, one closed term over the parameters:

    out[y0, y1, …] = term(y0, y1, …)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from ..proofs.clamp import unclamped
from ..proofs.context import has_choice, simplify, thorough
from ..proofs.prove import prove
from ..terms.order import bounds, nonneg, ranges_over
from ..terms.quotient import is_div
from ..terms.rewrite import free, subterms, tensors
from ..terms.scalar import conj, eq0, ge0, negate, parts
from ..terms.term import (
    ONE,
    SIZES,
    TRUE,
    ZERO,
    Call,
    Fold,
    Int,
    Tensor,
    Term,
    Var,
    as_int,
    axis,
    fresh,
    load,
)
from . import races
from .comprehension import Comprehension, Lifted
from .concurrent import Iterations
from .effects import Effects, Write
from .facts import settled
from .from_tir import Unliftable, check_index
from .loops import close
from .node import NodeDict, items
from .parameters import Parameters
from .reduction import canonical, reduces
from .repeat import repeated
from .threads import Kernel, bound_threads, combined, thread_tag


def lift(func: Any, params: Sequence[Tensor | Var] | None = None) -> Lifted:
    """Lift a PrimFunc; ``params`` are the tensors to express it over, by default new ones.

    Raises :class:`.from_tir.Unliftable` with the reason where the PrimFunc is not understood.
    """
    executor, own = Executor(func), items(func.params)
    given = [None] * len(own) if params is None else list(params)
    executor.bind_sizes(own, given)
    for position, (p, known) in enumerate(zip(own, given, strict=True)):
        executor.bind_param(p, position, known)
    values = tuple(executor.values[p] for p in own)
    executor.run(func.body)
    for tensor, writes in executor.effects.writes.items():
        executor.check_stores(tensor, writes)
    executor.check_outputs(values)
    return Lifted(
        values,
        tuple(
            executor.output(t)
            for t in values
            if isinstance(t, Tensor) and t in executor.effects.writes
        ),
        executor.races,
        len(executor.stored.values()),
    )


#: Calls that change no buffer: a promise about a value, a barrier between threads.
_WITHOUT_EFFECT = frozenset({"tirx.assume", "tirx.tvm_storage_sync"})


#: Kinds of loops whose iterations run at the same time: parallel and vectorized.
_AT_ONCE = (1, 2)
_PARALLEL = 1

#: Storage scopes that each thread has for itself.
_PRIVATE = ("local", "warp", "wmma")


def has_barriers(func: Any) -> bool:
    """Whether TVM inserts barriers for shared memory: it does so in the dialect ``s_tir``."""
    return bool((func.attrs or {}).get("s_tir", False))


class Executor(Parameters):
    """The state of the symbolic execution of one PrimFunc."""

    def __init__(self, func: Any) -> None:
        super().__init__()
        self.func = func
        self.threads: list[str] = []
        self.races = False
        self.stored = NodeDict[bool]()  # the buffers that are stored into
        self.lost: set[Tensor] = set()  # what threads left in memory that each has for itself

    # ------------------------------------------------------------------ statements

    def run(self, s: Any) -> None:
        rule = getattr(self, f"run_{type(s).__name__}", None)
        if rule is None:
            raise Unliftable(f"statement {type(s).__name__} is not understood", str(s)[:80])
        rule(s)

    def run_SeqStmt(self, s: Any) -> None:
        parts = items(s.seq)
        for part in parts if self.kernel is None else self.kernel.sequence(parts):
            self.run(part)

    def run_BufferStore(self, s: Any) -> None:
        reader, indices, buffer = self.reader, items(s.indices), s.buffer
        self.stored[buffer] = reader.vectors = True
        try:
            index = tuple(reader.index(i) for i in indices)
            value, lane = reader(s.value), reader.lane
        finally:
            reader.vectors, reader.lane = False, None
        tensor, index = self.locate(buffer, index)
        if tensor in self.aliased:
            raise Unliftable("a store into a buffer whose elements may overlap", tensor.name)
        threads = () if self.kernel is None else self.kernel.store(tensor, index, value)
        for around in self.concurrent:
            around.store(tensor, index, value, self.facts)
        if lane is None:
            self.effects.store(tensor, Write(threads, TRUE, index, value))
            return
        check_index(indices)
        write = Write((*threads, lane), TRUE, index, value)
        if lane not in write.inverse:
            raise Unliftable("lanes of a vector may be stored into one element", tensor.name)
        self.effects.store(tensor, write)

    def nested(self, s: Any, condition: Term = TRUE) -> Effects:
        """The effects of a statement on the state before it, which is left as it is.

        It is executed only where the condition holds.
        """
        self.frames.append(Effects())
        try:
            if condition is TRUE:
                self.run(s)
            else:
                with self.given(condition):
                    self.run(s)
            return self.effects
        finally:
            self.frames.pop()

    @contextmanager
    def given(self, condition: Term) -> Iterator[None]:
        """While the statements under a condition are executed."""
        count = len(self.facts)
        self.facts += (c for c in parts(condition) if not tensors(c))
        kernel = self.kernel
        try:
            with nullcontext() if kernel is None else kernel.under(condition):
                yield
        finally:
            del self.facts[count:]

    def fixed(self, t: Term, where: str) -> Term:
        """A value that statements inside may use: nothing it reads has changed in this frame."""
        if not tensors(t).isdisjoint(self.effects.writes):
            raise Unliftable("a value depends on what changes while it is used", where)
        return t

    def run_For(self, s: Any) -> None:
        if s.step is not None and self.reader.index(s.step) is not ONE:
            raise Unliftable("a loop with a step is not understood", s.loop_var.name)
        extent, start = self.reader.index(s.extent), self.reader.index(s.min)
        if extent.const is not None and extent.const < 1:
            return
        bound, v = extent, s.loop_var
        if extent.const is None:
            self.fixed(extent, v.name)
            if tensors(extent) or any(f.kind not in SIZES for f in free(extent)):
                bound = self.largest(extent, v.name)
        self.loop(s, v, start, extent, bound)

    def largest(self, extent: Int, where: str) -> Int:
        """An upper bound over sizes of an extent that depends on other loops."""
        _, high = bounds(extent)
        if high is None or tensors(high) or any(v.kind not in SIZES for v in free(high)):
            raise Unliftable("a loop's extent has no bound over the sizes", where)
        return high

    def loop(self, s: Any, v: Any, start: Int, extent: Int, bound: Int) -> None:
        """``for v in range(bound): if v < extent: body``."""
        tag = thread_tag(s)
        if tag and not tag.startswith("vthread"):
            self.on_thread(s, v, start, tag)
            return
        i = fresh(bound)
        value = ZERO if bound is ONE else as_int(i)
        self.env[v] = start + value
        outside = set(self.values.values())
        if tag and tag in self.threads:
            raise Unliftable("a thread is bound again inside its own loop", tag)
        self.threads.append(tag)
        runs = TRUE if extent is bound else ge0(extent - 1 - value)
        kind = int(getattr(s, "kind", 0))
        if bound is ONE:
            kind, tag = 0, ""  # a single iteration meets no other one
        around, at_once = frozenset(self.running), _concurrent(s, kind, tag)
        if self.kernel is not None:
            around |= self.kernel.threads
        iterations = Iterations(around, len(self.frames))
        self.concurrent += [iterations] * at_once
        self.running.append(i)
        effects = self.nested(s.body, runs)
        self.running.pop()
        del self.concurrent[len(self.concurrent) - at_once :]
        self.threads.pop()
        if self.kernel is not None:
            outside |= {e for t, e in self.kernel.extended.items() if t in outside}
        for t in [t for t in effects.writes if t not in outside]:
            self.check_stores(t, effects.writes.pop(t))  # each iteration has its own
        if not (effects.outer | tensors(extent)).isdisjoint(effects.writes):
            raise Unliftable("a loop changes what a value from before it was read from", v.name)
        private = [t for t in effects.writes if tag and self.scopes[t].startswith(_PRIVATE)]
        for t in private:
            self.check_stores(t, effects.writes.pop(t))  # each thread has its own
        if tag or kind in _AT_ONCE:
            shared = frozenset(effects.writes) & outside
            assumed = races.meet_by_data(i, effects, shared, not tag and kind == _PARALLEL)
            self.races |= bool(assumed)
            races.check_independent(i, effects, shared, bool(tag))
            iterations.check(i, shared, assumed | (races.combined(effects) if tag else frozenset()))
        if kind in _AT_ONCE and kind != _PARALLEL and not tag:
            races.check_no_scan(i, effects)
        if extent is not bound:
            guarded = Effects()
            guarded.then(effects, runs)
            effects = guarded
        closed = effects if bound is ONE else close(i, effects)
        if tag and _ordered(closed) - _ordered(effects):
            raise Unliftable("threads update one element, and their order matters", v.name)
        self.effects.then(closed)
        self.lose(private)

    def lose(self, private: Sequence[Tensor]) -> None:
        """Each thread has stored into its own copy: what is there afterwards is not known."""
        for t in private:
            at = tuple(ZERO if e is ONE else as_int(fresh(e)) for e in t.shape)
            unknown = Tensor(t.name, t.shape, t.dtype)
            self.lost.add(unknown)
            over = tuple(v for p in at for v in free(p))
            self.effects.store(t, Write(over, TRUE, at, load(unknown, at)))

    def run_SBlockRealize(self, s: Any) -> None:
        block = s.block
        first, init = [], block.init
        over, spatial = set[Var](), set[Var]()
        for iv, value in zip(items(block.iter_vars), items(s.iter_values), strict=True):
            bound = self.reader.index(value)
            self.env[iv.var] = bound
            if init is None and self.kernel is None:
                continue
            reduction = int(iv.iter_type) == 2
            if self.kernel is not None:
                (over if reduction else spatial).update(free(bound) & self.kernel.threads)
            if init is not None and reduction:
                first.append(eq0(bound - self.reader.index(iv.dom.min)))
        predicate = self.reader(s.predicate)
        for b in items(block.alloc_buffers):
            self.bind_buffer(b)
        for m in items(block.match_buffers):
            self.match_buffer(m.buffer, m.source)
        if predicate is TRUE and init is None:
            self.run(block.body)
            return
        start = self.fixed(conj(*first), block.name_hint)
        noted = self.begin_combining(over, spatial) if over and init is not None else None
        self.frames.append(Effects())
        try:
            with self.given(predicate):
                if init is not None:
                    self.effects.then(self.nested(init), start)
                self.run(block.body)
            inner = self.effects
        finally:
            self.frames.pop()
        if noted is None:
            self.effects.then(inner, predicate)
        else:
            self.combine(over, inner, predicate, noted)

    # ------------------------------------------------------------------ threads

    def on_thread(self, s: Any, v: Any, start: Int, tag: str) -> None:
        """A loop that is bound to a thread of a kernel; the outermost one is the kernel."""
        if self.kernel is not None:
            self.env[v] = start + self.kernel.at[tag]
            self.run(s.body)
            return
        outside = set(self.values.values())
        self.kernel = kernel = Kernel(self.launched(s), has_barriers(self.func))
        self.frames.append(Effects())
        try:
            self.on_thread(s, v, start, tag)
            effects = self.effects
        finally:
            self.frames.pop()
            self.kernel = None
        kernel.check(
            frozenset(t for t in kernel.prefix if self.scopes[t].startswith("shared")), effects
        )
        private = [t for t, e in kernel.extended.items() if e in effects.writes]
        for t in [t for t in effects.writes if t in kernel.prefix]:
            self.check_stores(t, effects.writes.pop(t))
        self.effects.then(effects)
        self.lose([t for t in private if t in outside])

    def launched(self, s: Any) -> dict[str, Int]:
        """The thread indices of a kernel by their tags."""
        extents: dict[str, Int] = {}
        for tag, e in bound_threads(s):
            extent = self.reader.index(e)
            if tensors(extent) or any(v.kind not in SIZES for v in free(extent)):
                raise Unliftable("the number of threads varies", tag)
            if not nonneg(extent - 1):
                raise Unliftable("there may be no thread", tag)
            if extents.setdefault(tag, extent) is not extent:
                raise Unliftable("loops on one thread have different extents", tag)
        return {t: ZERO if e is ONE else as_int(fresh(e, "t")) for t, e in extents.items()}

    def begin_combining(self, over: set[Var], spatial: set[Var]) -> tuple[int, int]:
        """How many accesses were noted before a block that reduces over threads."""
        kernel = self.kernel
        assert kernel is not None
        if any(not kernel.thread(v).startswith("threadIdx") for v in over):
            raise Unliftable("a reduction over blocks of threads")
        if over & spatial or kernel.differ(()):
            raise Unliftable("a reduction over threads that not all of them take part in")
        kernel.over = frozenset(over)
        return len(kernel.reads), len(kernel.stores)

    def combine(
        self, over: set[Var], inner: Effects, predicate: Term, noted: tuple[int, int]
    ) -> None:
        """The effects of a block that reduces over threads: all of them get the result."""
        kernel = self.kernel
        assert kernel is not None
        kernel.over = frozenset()
        guarded, effects = Effects(), Effects()
        guarded.then(inner, predicate)
        r = {t: fresh(t.extent, "r") for t in over if t.extent is not None}
        for tensor, writes in guarded.writes.items():
            prefix = kernel.prefix.get(tensor, ())
            effects.writes[tensor] = [combined(w, tensor, prefix, r) for w in writes]
        for v in r.values():
            effects = close(v, effects)
        values = [w.value for writes in effects.writes.values() for w in writes]
        if any(isinstance(t, Fold) for value in values for t in subterms(value)):
            raise Unliftable("threads are combined by what is no known reduction")
        for noticed, count in zip((kernel.reads, kernel.stores), noted, strict=True):
            noticed[count:] = [a for a in noticed[count:] if a.tensor not in effects.writes]
        for tensor, writes in effects.writes.items():
            for w in writes:
                kernel.store(tensor, w.index, w.value)
        self.effects.then(effects)

    def run_IfThenElse(self, s: Any) -> None:
        condition = self.reader(s.condition)
        yes = self.nested(s.then_case, condition)
        no = None
        if s.else_case is not None:
            no = self.nested(s.else_case, negate(condition))
        if no is not None:
            self._both(self.fixed(condition, "if"), yes, no)
        else:
            self.effects.then(yes, condition)

    def _both(self, condition: Term, yes: Effects, no: Effects) -> None:
        """Two branches see the same state: neither may read what the other wrote."""
        joined = Effects()
        for branch, guard in ((yes, condition), (no, negate(condition))):
            for tensor, writes in branch.writes.items():
                for w in writes:
                    both = conj(guard, w.guard)
                    joined.store(tensor, Write(w.vars, both, w.index, w.value, w.scattered))
        self.effects.then(joined)

    def run_While(self, s: Any) -> None:
        outside = set(self.values.values())
        asked = Effects()
        self.frames.append(asked)
        try:
            condition = self.reader(s.condition)
        finally:
            self.frames.pop()
        effects = self.nested(s.body)
        for t in [t for t in effects.writes if t not in outside]:
            self.check_stores(t, effects.writes.pop(t))  # each iteration has its own
        if not (asked.outer | effects.outer).isdisjoint(effects.writes):
            raise Unliftable("a loop changes what a value from before it was read from", "while")
        self.effects.then(repeated(condition, effects))

    def run_Bind(self, s: Any) -> None:
        self.env[s.var] = self.reader(s.value)

    def run_AllocBuffer(self, s: Any) -> None:
        self.bind_buffer(s.buffer)

    def run_DeclBuffer(self, s: Any) -> None:
        self.bind_view(s.buffer, s.data)

    def run_AttrStmt(self, s: Any) -> None:
        if s.attr_key in ("thread_extent", "virtual_thread"):
            extent = self.reader.index(s.value)
            self.loop(s, s.node.var, ZERO, extent, extent)
            return
        self.run(s.body)

    def run_Evaluate(self, s: Any) -> None:
        name = str(getattr(getattr(s.value, "op", None), "name", ""))
        if type(s.value).__name__ != "IntImm" and name not in _WITHOUT_EFFECT:
            raise Unliftable(*_effect(name, s.value))

    # ------------------------------------------------------------------ result

    def check_stores(self, tensor: Tensor, writes: Sequence[Write]) -> None:
        """Every store must stay inside its buffer."""
        for w in writes:
            for i, extent in zip(w.index, tensor.shape, strict=True):
                if ranges_over(i, extent):
                    continue
                inside = conj(ge0(i), ge0(extent - 1 - i))
                if inside is TRUE:
                    continue
                if not prove(inside, (*parts(w.guard), *self.facts)).proved:
                    raise Unliftable("a store may be outside its buffer", tensor.name)

    def check_outputs(self, values: Sequence[Tensor | Var]) -> None:
        """What is written are the last buffers, as every caller takes it."""
        written = [t in self.effects.writes for t in values if isinstance(t, Tensor)]
        if True in written and not all(written[written.index(True) :]):
            raise Unliftable("a buffer after the first output is not written")

    def output(self, tensor: Tensor) -> Comprehension:
        axes = tuple(axis(d, e) for d, e in enumerate(tensor.shape))
        body = self.effects.read(tensor, axes)
        if self.views.values():
            body = settled(body)
        left = self.unwritten(body, tensor)
        if left is not None or hard_choices(body):
            body = simplify(body, ask=thorough)
            left = self.unwritten(body, tensor)
        if left is tensor:
            raise Unliftable("an output is read or not written everywhere", tensor.name)
        if left in self.lost:
            raise Unliftable("each thread has its own copy of what is read after it", tensor.name)
        if left is not None:
            raise Unliftable("an element is read before it is written", left.name)
        return Comprehension(tensor, axes, canonical(unclamped(body)))

    def unwritten(self, body: Term, out: Tensor) -> Tensor | None:
        """A tensor whose state before the function the body reads, and must not."""
        return next((t for t in tensors(body) if t is out or t not in self.inputs), None)


#: Calls whose first argument is the name of a function outside TIR.
_EXTERN = frozenset(
    f"tirx.{n}" for n in ("tvm_call_packed", "tvm_call_cpacked", "call_extern", "call_pure_extern")
)


def _effect(name: str, call: Any) -> tuple[str, str]:
    """Why a call with effects is not understood, and where."""
    if name in _EXTERN and type(call.args[0]).__name__ == "StringImm":
        return f"calls {call.args[0].value}, an extern function: not TIR", ""
    return "a call with effects is opaque", str(call)[:80]


def _ordered(effects: Effects) -> set[Term]:
    """Folds of a single value: no reduction that threads may share."""
    values = (w.value for writes in effects.writes.values() for w in writes)
    folds = {s for value in values if reduces(value) for s in subterms(value)}
    return {s for s in folds if isinstance(s, Fold) and len(s.states) == 1}


def _concurrent(s: Any, kind: int, tag: str) -> bool:
    """Whether accesses of the iterations may meet: lanes of a single store only store."""
    return bool(tag) or kind == _PARALLEL or (kind in _AT_ONCE and not _single(s.body))


def _single(s: Any) -> bool:
    """Whether a statement is a single store, which loads in all lanes before it stores in any."""
    while type(s).__name__ == "SBlockRealize" and s.block.init is None:
        s = s.block.body
    return type(s).__name__ == "BufferStore"


def hard_choices(body: Term) -> bool:
    """Whether a selection depends on a division together with something else."""
    return has_choice(body) and any(
        isinstance(c, Call) and c.op == "and" and any(is_div(s) for s in subterms(c))
        for t in subterms(body)
        if isinstance(t, Call) and t.op == "ite"
        for c in t.args[:1]
    )
