"""The state of a symbolic execution: nested frames, conditions, and data that threads lost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from ..proofs.prove import prove
from ..terms.condition_terms import conj, ge0, parts
from ..terms.order import bounds, nonneg, ranges_over
from ..terms.term import FALSE, ONE, TRUE, ZERO, Int, TensorVar, Term, Var, as_int, fresh, load
from ..terms.traversal import free, tensors
from .effects.effects import Effects, Write
from .parameters import Parameters
from .private_buffers import PrivateBuffers
from .tir.node import NodeDict
from .tir.unliftable import Unliftable


class ExecutionState(Parameters):
    """The state of the symbolic execution of one PrimFunc; subclasses execute statements."""

    def __init__(self, func: Any) -> None:
        super().__init__()
        self.func = func
        self.private = PrivateBuffers(func)
        self.threads: list[str] = []
        self.races = False
        #: Whether parameters that nothing has written decide where racing stores go.
        self.distinct = True
        self.promises = False
        self.assumed: dict[str, None] = {}  # what else the expression assumes, in words
        self.stored = NodeDict[bool]()  # the buffers with a store
        #: Written in per-thread memory, so unknown after the kernel.
        self.lost: set[TensorVar] = set()

    def run(self, stmt: Any) -> None:
        """Execute a statement."""
        raise NotImplementedError

    def nested(self, stmt: Any, condition: Term = TRUE) -> Effects:
        """Return the effects of a statement on the present state, which does not change.

        The statement is executed only where the condition holds.
        """
        self.frames.append(Effects())
        try:
            if condition is TRUE:
                self.run(stmt)
            else:
                with self.under_condition(condition):
                    self.run(stmt)
            return self.effects
        finally:
            self.frames.pop()

    @contextmanager
    def under_condition(self, condition: Term) -> Iterator[None]:
        """Execute the statements inside under a condition."""
        count = len(self.facts)
        self.facts += (c for c in parts(condition) if not tensors(c))
        kernel = self.kernel
        try:
            with nullcontext() if kernel is None else kernel.under(condition):
                yield
        finally:
            del self.facts[count:]

    def fixed(self, term: Term, where: str) -> Term:
        """Return a value for inner statements; nothing it reads has changed in this frame."""
        if not tensors(term).isdisjoint(self.effects.writes):
            raise Unliftable("a value is used while its source changes", where)
        return term

    def assume_apart(self, effects: Effects, racing: Collection[TensorVar]) -> None:
        """Record the assumption that concurrent stores into some tensors are to other elements."""
        self.races |= bool(racing)
        for tensor in racing:
            writes = effects.writes[tensor]
            places = frozenset[TensorVar]().union(*(tensors(e) for w in writes for e in w.index))
            self.distinct &= bool(places) and not any(self.is_computed(t, effects) for t in places)

    def is_computed(self, tensor: TensorVar, effects: Effects) -> bool:
        """Return whether a tensor is not a parameter as the caller passes it."""
        return tensor.position < 0 or any(tensor in f.writes for f in (*self.frames, effects))

    def check_literals(self, tensor: TensorVar, index: Sequence[Int]) -> None:
        """Refuse a store that is outside of its buffer whenever it is executed."""
        for poly, extent in zip(index, tensor.shape, strict=True):
            outside = conj(ge0(poly), ge0(extent - 1 - poly)) is FALSE
            if outside and not prove(FALSE, tuple(self.facts)).proved:
                raise Unliftable("a store is outside of its buffer", tensor.name)

    def lose(self, private: Sequence[TensorVar]) -> None:
        """Forget the content of tensors into which each thread stored its own copy."""
        for tensor in private:
            index = tuple(ZERO if e is ONE else as_int(fresh(e)) for e in tensor.shape)
            unknown = TensorVar(tensor.name, tensor.shape, tensor.dtype)
            self.lost.add(unknown)
            over = tuple(v for p in index for v in free(p))
            self.effects.store(tensor, Write(over, TRUE, index, load(unknown, index)))

    def drop(self, effects: Effects, is_dropped: Callable[[TensorVar], bool]) -> list[TensorVar]:
        """Remove the writes of some tensors, after checking that they stay inside."""
        dropped = [t for t in effects.writes if is_dropped(t)]
        for tensor in dropped:
            self.check_stores(tensor, effects.writes.pop(tensor))
        return dropped

    def check_stores(self, tensor: TensorVar, writes: Sequence[Write]) -> None:
        """Check that every store stays inside its buffer."""
        for write in writes:
            for poly, extent in zip(write.index, tensor.shape, strict=True):
                if ranges_over(poly, extent):
                    continue
                inside = conj(ge0(poly), ge0(extent - 1 - poly))
                if inside is TRUE:
                    continue
                if tensor in self.inputs and _callers_decide(poly, extent):
                    continue
                if tensors(poly) and tensors(poly) <= self.inputs - self.effects.writes.keys():
                    continue  # the caller's numbers are indices, as those of a load are
                if not prove(inside, (*parts(write.guard), *self.facts)).proved:
                    raise Unliftable("a store may be out of bounds", tensor.name)


def _callers_decide(poly: Int, extent: Int) -> bool:
    """Whether the caller's numbers decide if a coordinate is inside a parameter.

    It is then assumed to be, as all accesses are: a scalar parameter is an index, or a size is
    large enough.
    """
    if any(v.kind == "scalar" for v in free(poly)):
        return True
    low, high = bounds(poly)
    if low is None or high is None or not nonneg(low) or nonneg(high - extent):
        return False
    return isinstance(extent.atom, Var) or high.const is None
