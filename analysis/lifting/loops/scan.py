"""Prefix reductions: loops in which an iteration sees the results of earlier ones.

    for i in range(n): t[i + 1] = t[i] ⊕ f(i)            a recurrence
    for i in range(n): s = s ⊕ f(i); out[i] = s          a running value

Iteration i sees ``start ⊕ ⊕_{r < i} f(r)``, and leaves the same with ``r <= i``. If the update is
not a reduction, the loop is a `Fold` over the same iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass

from ...terms.condition_terms import conj, ge0, ite, parts
from ...terms.term import (
    INT_DTYPES,
    TRUE,
    ZERO,
    Int,
    Load,
    TensorVar,
    Term,
    Var,
    as_int,
    bare,
    fresh,
    load,
    raw_call,
)
from ...terms.traversal import free, ints, replace, substitute, subterms, tensors
from ..effects.effects import Effects, Write, coordinates
from ..tir.unliftable import Unliftable
from .accumulate import NoReduction, state_after_loop
from .fold import make_fold

Carried = Callable[[Var, Write, Effects], Set[Term]]


@dataclass(frozen=True)
class _ScanState:
    """An element that iteration i sees as ``seen``; ``start`` before the loop, updated i times."""

    seen: Load
    start: Term
    update: Term
    """The element that iteration i leaves for iteration i + 1, over ``seen`` and i."""


def close_scan(var: Var, tensor: TensorVar, write: Write, body: Effects, carried: Carried) -> Write:
    """Return the write with prefix reductions in place of what it sees of earlier iterations.

    All its loads are from the state before the loop.

    Raises:
        Unliftable: An update is not understood.
    """
    values: dict[Term, Term] = {}
    changing = frozenset(body.writes)
    for term in carried(var, write, body):
        assert isinstance(term, Load)
        for poly in (*term.indices, *write.index):
            if not tensors(poly).isdisjoint(changing):
                raise Unliftable("a loop computes the address of its store", tensor.name)
        state = _state(var, term, write, body, carried)
        after = bare(state.update)
        if after is not bare(state.seen):
            values[after] = bare(_prefix(var, tensor, state, as_int(var) + 1))
        values[term] = bare(_prefix(var, tensor, state, as_int(var)))
    value = replace(write.value, values)
    is_integer = isinstance(write.value, Int)
    return Write(
        write.vars,
        replace(write.guard, values),
        write.index,
        as_int(value) if is_integer else value,
    )


def _state(
    var: Var, seen: Load, consumer: Write, body: Effects, carried: Carried,
    pending: tuple[Term, ...] = (),
) -> _ScanState:  # fmt: skip
    (write, *others) = body.writes[seen.tensor]
    if others:
        raise Unliftable("several stores change what the next iteration reads", seen.tensor.name)
    if any(var in free(e) for e in seen.indices):
        return _recurrence(var, seen, consumer, write, body, carried)
    condition, step = write.at(seen.indices, seen.tensor.name)
    needed = carried(var, Write((), condition, seen.indices, step), body)
    if not needed <= {seen}:
        if seen in needed or condition is not TRUE or seen in pending:
            raise Unliftable("a running value depends on another running value", seen.tensor.name)
        step = _delayed(var, seen, step, needed, body, carried, (*pending, seen))
    return _ScanState(
        seen, seen, ite(condition, step, as_int(seen) if isinstance(step, Int) else seen)
    )


def _delayed(
    var: Var, seen: Load, step: Term, needed: Set[Term], body: Effects, carried: Carried,
    pending: tuple[Term, ...],
) -> Term:  # fmt: skip
    """The next value of an element that takes over what others have had, as in a delay line."""
    values: dict[Term, Term] = {}
    for term in needed:
        assert isinstance(term, Load)
        place = Write((), TRUE, seen.indices, step)
        other = _state(var, term, place, body, carried, pending)
        values[term] = bare(_prefix(var, term.tensor, other, as_int(var)))
    value = replace(step, values)
    return as_int(value) if isinstance(step, Int) else value


def _recurrence(
    var: Var, seen: Load, consumer: Write, write: Write, body: Effects, carried: Carried
) -> _ScanState:
    """The state of an element that ``write`` stored in the previous iteration."""
    name, previous = seen.tensor.name, fresh(var.extent or ZERO)
    mapping = {var: as_int(previous)}
    every = Write((*write.vars, previous), TRUE, tuple(ints(e, mapping) for e in write.index), TRUE)
    values = dict(zip(coordinates(len(seen.indices)), seen.indices, strict=True))
    chosen = {v: ints(p, values) for v, p in every.inverse.items()}
    if chosen.keys() != {*write.vars, previous} or chosen.pop(previous) is not as_int(var) - 1:
        raise Unliftable("an iteration reads a value written two or more iterations before", name)
    if any(var in free(p) for p in chosen.values()):
        raise Unliftable("a recurrence runs along a diagonal", name)
    if any(not tensors(e).isdisjoint(body.writes) for e in write.index):
        raise Unliftable("a loop computes the address of its store", name)
    guards = {c for c in parts(substitute(write.guard, chosen)) if c is not TRUE}
    if not guards <= set(parts(consumer.guard)) or any(var in free(c) for c in guards):
        raise Unliftable("some iteration does not write what the next one reads", name)
    hit, _ = every.at(seen.indices, name)
    if any(c is not ge0(as_int(var) - 1) for c in parts(hit) if c is not TRUE):
        raise Unliftable("some iteration does not write what the next one reads", name)
    step = substitute(write.value, chosen)
    needed = carried(var, Write((), TRUE, (), step), body)
    if not needed <= {seen} or carried(var, Write((), conj(*guards), (), TRUE), body):
        raise Unliftable("a recurrence depends on another element", name)
    start = load(seen.tensor, tuple(ints(e, {var: ZERO}) for e in seen.indices))
    return _ScanState(seen, start, step)


def _prefix(var: Var, tensor: TensorVar, state: _ScanState, count: Int) -> Term:
    """The element after the first ``count`` iterations."""
    assert var.extent is not None
    if state.seen not in subterms(state.update):
        last = substitute(state.update, {var: count - 1})
        return ite(
            ge0(count - 1), last, as_int(state.start) if isinstance(last, Int) else state.start
        )
    earlier = fresh(var.extent)
    is_integer = state.seen.dtype in INT_DTYPES
    symbol = raw_call(f"state {earlier.name}", (), "int" if is_integer else state.seen.dtype)
    same = as_int(symbol) if is_integer else symbol
    step = substitute(replace(state.update, {state.seen: symbol}), {var: as_int(earlier)})
    update = ite(ge0(count - 1 - as_int(earlier)), step, same)
    try:
        out = state_after_loop(earlier, tensor, update, symbol)
    except NoReduction:
        return make_fold(earlier, (symbol,), (state.start,), (update,))
    return replace(out, {symbol: state.start})
