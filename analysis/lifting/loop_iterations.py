"""Loops of a PrimFunc: their iterations run in order or concurrently."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..terms.condition_terms import conj, ge0
from ..terms.integer import floordiv
from ..terms.order import bounds
from ..terms.term import (
    ONE,
    SIZES,
    TRUE,
    ZERO,
    Fold,
    Int,
    TensorVar,
    Term,
    Var,
    as_int,
    fresh,
    mul,
)
from ..terms.traversal import free, subterms, tensors
from .effects.effects import Effects
from .kernels import Kernels
from .loops.bound_variables import reduces
from .loops.loop_summary import close
from .parallel import races
from .parallel.concurrent import Iterations
from .parallel.threads import thread_tag
from .tir.annotations import check_annotations
from .tir.loop_bounds import from_one_bound, least
from .tir.unliftable import Unliftable

#: Kinds of loops whose iterations run concurrently: parallel and vectorized.
_AT_ONCE = (1, 2)
_PARALLEL = 1
#: Serial and unrolled.
_IN_ORDER = (0, 3)

#: Storage scopes with a copy for each thread.
_PRIVATE = ("local", "warp", "wmma")


class Loops(Kernels):
    """The execution of loops."""

    def run_For(self, stmt: Any) -> None:
        check_annotations(stmt, stmt.loop_var.name)
        step = ONE if stmt.step is None else self.reader.index(stmt.step)
        if step.const is None or step.const < 1:
            raise Unliftable("the step of a loop is not a positive number", stmt.loop_var.name)
        extent, start = self.reader.index(stmt.extent), self.reader.index(stmt.min)
        first = None
        if step is ONE:
            start, extent, first = from_one_bound(start, extent)
        extent = floordiv(extent + step - 1, step)
        if extent.const is not None and extent.const < 1:
            return
        bound, var = extent, stmt.loop_var
        if extent.const is None:
            self.fixed(extent, var.name)
            if tensors(extent) or any(f.kind not in SIZES for f in free(extent)):
                bound = self.largest(extent, var.name)
        self.loop(stmt, var, start, extent, bound, step, first)

    def largest(self, extent: Int, where: str) -> Int:
        """Return an upper bound, over sizes, of an extent that depends on other loops."""
        _, high = bounds(least(extent))
        if high is None or tensors(high) or any(v.kind not in SIZES for v in free(high)):
            raise Unliftable("the extent of a loop has no bound in terms of the sizes", where)
        return high

    def loop(
        self, stmt: Any, loop_var: Any, start: Int, extent: Int, bound: Int, step: Int = ONE,
        first: Int | None = None,
    ) -> None:  # fmt: skip
        """Execute ``for var in range(bound): if var < extent: body`` at ``start + step * var``.

        Iterations before ``first`` do not run either.
        """
        tag, kind = thread_tag(stmt), int(getattr(stmt, "kind", 0))
        if tag and not tag.startswith("vthread"):
            if step is not ONE:
                raise Unliftable("a loop over threads has a step", tag)
            self.on_thread(stmt, loop_var, start, tag)
            return
        if tag and tag in self.threads:
            raise Unliftable("a thread is bound again inside its own loop", tag)
        var = fresh(bound)
        value = ZERO if bound is ONE else as_int(var)
        self.env[loop_var] = start + mul(value, step)
        outside = set(self.values.values())
        runs = TRUE if extent is bound else ge0(extent - 1 - value)
        if first is not None:
            runs = conj(runs, ge0(value - first))
        with self.inside(stmt, var, tag, kind) as iterations:
            effects = self.nested(stmt.body, runs)
        if self.kernel is not None:
            outside |= {e for t, e in self.kernel.extended.items() if t in outside}
        outside -= self.own(stmt, outside, effects)
        self.drop(effects, lambda tensor: tensor not in outside)  # local to the iteration
        if not (effects.outer | tensors(extent)).isdisjoint(effects.writes):
            raise Unliftable("a loop changes a value that was read before it", loop_var.name)
        if bound is ONE:
            kind, tag = 0, ""  # a single iteration does not race
        # local to the thread
        private = self.drop(
            effects, lambda tensor: tag != "" and self.scopes[tensor].startswith(_PRIVATE)
        )
        if tag or kind in _AT_ONCE:
            self.check_at_once(
                var, effects, frozenset(effects.writes) & outside, iterations, tag, kind
            )
        if runs is not TRUE:
            guarded = Effects()
            guarded.then(effects, runs)
            effects = guarded
        closed = effects if bound is ONE else close(var, effects)
        if tag and _ordered(closed) - _ordered(effects):
            raise Unliftable("threads update one element in an order that matters", loop_var.name)
        self.effects.then(closed)
        self.lose(private)

    def own(
        self, stmt: Any, outside: set[TensorVar | Var], effects: Effects
    ) -> set[TensorVar | Var]:
        """The buffers allocated before a loop that are local to an iteration nevertheless."""
        serial = type(stmt).__name__ == "For" and int(stmt.kind) in _IN_ORDER
        if self.kernel is not None or self.concurrent or not serial:
            return set()  # iterations at once would share the buffer
        buffers = {
            t: b for b, t in self.values.items() if isinstance(t, TensorVar) and t in outside
        }
        allocated = {t: b for t, b in buffers.items() if t not in self.inputs}
        return {*self.private.of_loop(stmt, allocated, effects)}

    @contextmanager
    def inside(self, stmt: Any, var: Var, tag: str, kind: int) -> Iterator[Iterations]:
        """Within a body, record accesses if its iterations run concurrently."""
        around = frozenset(self.running)
        if self.kernel is not None:
            around |= self.kernel.threads
        iterations = Iterations(around, len(self.frames))
        at_once = var.extent is not ONE and _concurrent(stmt, kind, tag)
        self.threads.append(tag)
        self.concurrent += [iterations] * at_once
        self.running.append(var)
        try:
            yield iterations
        finally:
            self.running.pop()
            del self.concurrent[len(self.concurrent) - at_once :]
            self.threads.pop()

    def check_at_once(
        self,
        var: Var,
        effects: Effects,
        shared: frozenset[TensorVar],
        iterations: Iterations,
        tag: str,
        kind: int,
    ) -> None:
        """Check that concurrent iterations do not access each other's elements."""
        assumed = races.meet_by_data(var, effects, shared, not tag and kind == _PARALLEL)
        self.assume_apart(effects, assumed)
        races.check_independent(var, effects, shared, bool(tag))
        iterations.check(
            var, shared, assumed | (races.combined_buffers(effects) if tag else frozenset())
        )
        if kind != _PARALLEL and not tag:
            races.check_no_scan(var, effects)


def _ordered(effects: Effects) -> set[Term]:
    """Folds of a single value, which threads cannot share as they share a reduction."""
    values = (w.value for writes in effects.writes.values() for w in writes)
    folds = {s for value in values if reduces(value) for s in subterms(value)}
    return {s for s in folds if isinstance(s, Fold) and len(s.states) == 1}


def _concurrent(stmt: Any, kind: int, tag: str) -> bool:
    """Whether accesses of iterations may race; the lanes of a single store cannot."""
    return bool(tag) or kind == _PARALLEL or (kind in _AT_ONCE and not _single(stmt.body))


def _single(stmt: Any) -> bool:
    """Whether a statement is a single store: all its lanes load before any of them stores."""
    while type(stmt).__name__ == "SBlockRealize" and stmt.block.init is None:
        stmt = stmt.block.body
    return type(stmt).__name__ == "BufferStore"
