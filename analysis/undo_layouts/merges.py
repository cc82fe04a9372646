"""Merge dimensions that are digits of one coordinate: packed layouts.

Two dimensions ``i`` and ``j`` of a buffer are merged if every access has ``P // E`` and ``P % E``
there, or two axes ``a`` and ``b`` that replace one: all their other uses are as two dimensions of
another buffer, which are merged too, or as ``E * a + b``. The merge has *evidence* if some ``P``
becomes simpler; without evidence it only lowers the ranks.

    Before: out[n, co, h, w, ci] = Σ x[n, ro, h, w, ri] * w[co, ro, ri, ci]     (NCHW4c, OI4i4o)
    After:  out[n, c, h, w]      = Σ x[n, r, h, w] * w[c, r]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations

from ..terms.integer import floordiv
from ..terms.quotient import is_div
from ..terms.term import ONE, Int, TensorVar, Term, Var, as_int, fresh, mul
from ..terms.traversal import free, ints, subterms
from .move import LogicalState, apply_change, merge
from .tensor_access import Access, Accesses, coefficient, only

Pair = tuple[int, int, int]
"""Position of a parameter, its outer and its inner dimension."""


@dataclass
class Component:
    """Pairs of dimensions that must be merged together, and the accesses that become simpler.

    ``loose`` says that an outer axis occurs alone somewhere, as the group of a channel does;
    ``mixed`` that one axis is reduced and the other is not: ``group * C + c`` is not a coordinate.
    """

    extent: Int
    pairs: list[Pair] = field(default_factory=list)
    axes: set[tuple[Var, Var]] = field(default_factory=set)
    evidence: int = 0
    loose: bool = False
    mixed: bool = False


def merge_pairs(state: LogicalState, c: Component) -> LogicalState:
    """Return the state with all pairs of a component merged."""
    for position, outer, inner in c.pairs:
        state = apply_change(state, position, merge(state.tensor(position), outer, inner))
    return state


def components(state: LogicalState, a: Accesses) -> list[Component]:
    """Return all possible merges, the most convincing first."""
    merges: list[Component] = []
    seen: set[Pair] = set()
    for t in _tensors(state):
        for i, j in permutations(range(len(t.shape)), 2):
            if t.shape[i] is ONE or t.shape[j] is ONE or (t.position, i, j) in seen:
                continue
            c = _component(state, a, (t.position, i, j))
            if c is not None and (c.evidence or not c.loose):
                seen.update(c.pairs)
                merges.append(c)
    return sorted(merges, key=lambda c: _rank(state, c))


def _rank(state: LogicalState, c: Component) -> tuple[object, ...]:
    innermost = sum(j == len(state.tensor(p).shape) - 1 for p, _, j in c.pairs)
    forward = sum(i < j for _, i, j in c.pairs)
    return (-c.evidence, -len(c.pairs), -forward, -innermost, c.extent.const or 0, c.pairs)


def _tensors(state: LogicalState) -> Iterator[TensorVar]:
    yield from (t for t in state.lifted.params if isinstance(t, TensorVar))


def _component(state: LogicalState, a: Accesses, seed: Pair) -> Component | None:
    position, _, inner = seed
    c = Component(state.tensor(position).shape[inner])
    todo = [seed]
    while todo:
        pair = todo.pop()
        if pair in c.pairs:
            continue
        if any(p == pair[0] and {i, j} & set(pair[1:]) for p, i, j in c.pairs):
            return None
        if state.tensor(pair[0]).shape[pair[2]] is not c.extent:
            return None
        c.pairs.append(pair)
        for access in a.at(pair[0]):
            new = _stands(access.indices[pair[1]], access.indices[pair[2]], c)
            if new is None:
                return None
            for axes in new - c.axes:
                linked = _elsewhere(a, axes, c)
                if linked is None:
                    return None
                c.axes.add(axes)
                c.mixed |= (axes[0] in a.outputs) != (axes[1] in a.outputs)
                todo += linked
    if c.mixed:
        c.evidence = 0
    return c


def _stands(high: Int, low: Int, c: Component) -> set[tuple[Var, Var]] | None:
    """The axes that replace one, or none if the indices are digits; None if they are neither."""
    if high.const is not None or low.const is not None:
        return set()
    fused = mul(high, c.extent) + low
    if len(_divisions(fused)) < len(_divisions(high) | _divisions(low)):
        c.evidence += 1
        return set()
    a, b = only(high), only(low)
    if a is None or b is None or a is b or b.extent is not c.extent:
        return None
    if a.extent is None:  # a scalar parameter
        return None
    return {(a, b)}


def _elsewhere(a: Accesses, axes: tuple[Var, Var], c: Component) -> list[Pair] | None:
    """The pairs of dimensions with the axes; None if the inner axis occurs separately."""
    pairs: list[Pair] = []
    for access in a.all:
        if any(v in free(p) for v in axes for p in access.indices):
            new = _in_access(access, axes, c)
            if new is None:
                return None
            pairs += new
    for p in a.conditions:
        if _together(p, axes, c.extent) is False and len(free(p)) > 1:
            c.loose = True
            if axes[1] in free(p):
                return None
    return None if any(_together(p, axes, c.extent) is False for p in a.numbers) else pairs


def _in_access(access: Access, axes: tuple[Var, Var], c: Component) -> list[Pair] | None:
    outer, inner = axes
    high: list[int] = []
    low: list[int] = []
    for d, p in enumerate(access.indices):
        if outer not in free(p) and inner not in free(p):
            continue
        if _together(p, axes, c.extent):
            c.evidence += inner in free(p)
        elif only(p) is inner:
            low.append(d)
        elif inner in free(p):
            return None
        elif only(p) is outer:
            high.append(d)
        else:
            c.loose = True
    if not low:
        c.loose |= bool(high)
        return []
    return [(access.position, high[0], low[0])] if len(high) == len(low) == 1 else None


def _together(p: Int, axes: tuple[Var, Var], extent: Int) -> bool | None:
    """Whether ``P = extent * a + b`` occurs rather than its digits; None if neither does."""
    a, b = axes
    if a not in free(p) and b not in free(p):
        return None
    assert a.extent is not None
    high, low = coefficient(p, a), coefficient(p, b)
    if high is not None and low is not None and a.extent is not ONE:
        remaining = p - mul(high, as_int(a)) - mul(low, as_int(b))
        if not any(v in free(t) for v in axes for t in (high, low, remaining)):
            return high is mul(low, extent)
    axis = as_int(fresh(mul(a.extent, extent), "P"))
    high = floordiv(axis, extent)
    fused = ints(p, {a: high, b: axis - mul(high, extent)})
    return all(s is not high.atom for s in subterms(fused))


def _divisions(p: Int) -> set[Term]:
    return {s for s in subterms(p) if is_div(s)}
