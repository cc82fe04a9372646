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
from ..terms.term import ONE, Int, TensorVar, Term, Var, as_int, fresh, mul, only
from ..terms.traversal import free, ints, subterms
from .coordinate_change import merge
from .logical_state import LogicalState, apply_change
from .tensor_access import Access, Accesses, coefficient

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


def merge_pairs(state: LogicalState, component: Component) -> LogicalState:
    """Return the state with all pairs of a component merged."""
    for position, outer, inner in component.pairs:
        state = apply_change(state, position, merge(state.tensor(position), outer, inner))
    return state


def components(state: LogicalState, accesses: Accesses) -> list[Component]:
    """Return all possible merges, the most convincing first."""
    merges: list[Component] = []
    seen: set[Pair] = set()
    for tensor in _tensors(state):
        for i, j in permutations(range(len(tensor.shape)), 2):
            if tensor.shape[i] is ONE or tensor.shape[j] is ONE or (tensor.position, i, j) in seen:
                continue
            component = _component(state, accesses, (tensor.position, i, j))
            if component is not None and (component.evidence or not component.loose):
                seen.update(component.pairs)
                merges.append(component)
    return sorted(merges, key=lambda component: _rank(state, component))


def _rank(state: LogicalState, component: Component) -> tuple[object, ...]:
    innermost = sum(j == len(state.tensor(p).shape) - 1 for p, _, j in component.pairs)
    forward = sum(i < j for _, i, j in component.pairs)
    return (
        -component.evidence,
        -len(component.pairs),
        -forward,
        -innermost,
        component.extent.const or 0,
        component.pairs,
    )


def _tensors(state: LogicalState) -> Iterator[TensorVar]:
    yield from (t for t in state.lifted.params if isinstance(t, TensorVar))


def _component(state: LogicalState, accesses: Accesses, seed: Pair) -> Component | None:
    position, _, inner = seed
    component = Component(state.tensor(position).shape[inner])
    todo = [seed]
    while todo:
        pair = todo.pop()
        if pair in component.pairs:
            continue
        if any(p == pair[0] and {i, j} & set(pair[1:]) for p, i, j in component.pairs):
            return None
        if state.tensor(pair[0]).shape[pair[2]] is not component.extent:
            return None
        component.pairs.append(pair)
        for access in accesses.at(pair[0]):
            new = _replacing_axes(access.indices[pair[1]], access.indices[pair[2]], component)
            if new is None:
                return None
            for axes in new - component.axes:
                linked = _linked_pairs(accesses, axes, component)
                if linked is None:
                    return None
                component.axes.add(axes)
                component.mixed |= (axes[0] in accesses.outputs) != (axes[1] in accesses.outputs)
                todo += linked
    if component.mixed:
        component.evidence = 0
    return component


def _replacing_axes(high: Int, low: Int, component: Component) -> set[tuple[Var, Var]] | None:
    """The pair of axes that replaces one; empty if the indices are digits; None if neither."""
    if high.const is not None or low.const is not None:
        return set()
    fused = mul(high, component.extent) + low
    if len(_divisions(fused)) < len(_divisions(high) | _divisions(low)):
        component.evidence += 1
        return set()
    a, b = only(high), only(low)
    if a is None or b is None or a is b or b.extent is not component.extent:
        return None
    if a.extent is None:  # a scalar parameter
        return None
    return {(a, b)}


def _linked_pairs(
    accesses: Accesses, axes: tuple[Var, Var], component: Component
) -> list[Pair] | None:
    """The pairs of dimensions with the axes; None if the inner axis occurs separately."""
    pairs: list[Pair] = []
    for access in accesses.all:
        if any(v in free(p) for v in axes for p in access.indices):
            new = _in_access(access, axes, component)
            if new is None:
                return None
            pairs += new
    for poly in accesses.conditions:
        if _together(poly, axes, component.extent) is False and len(free(poly)) > 1:
            component.loose = True
            if axes[1] in free(poly):
                return None
    return (
        None
        if any(_together(p, axes, component.extent) is False for p in accesses.numbers)
        else pairs
    )


def _in_access(access: Access, axes: tuple[Var, Var], component: Component) -> list[Pair] | None:
    outer, inner = axes
    high: list[int] = []
    low: list[int] = []
    for d, poly in enumerate(access.indices):
        if outer not in free(poly) and inner not in free(poly):
            continue
        if _together(poly, axes, component.extent):
            component.evidence += inner in free(poly)
        elif only(poly) is inner:
            low.append(d)
        elif inner in free(poly):
            return None
        elif only(poly) is outer:
            high.append(d)
        else:
            component.loose = True
    if not low:
        component.loose |= bool(high)
        return []
    return [(access.position, high[0], low[0])] if len(high) == len(low) == 1 else None


def _together(poly: Int, axes: tuple[Var, Var], extent: Int) -> bool | None:
    """Whether ``P = extent * a + b`` occurs rather than its digits; None if neither does."""
    a, b = axes
    if a not in free(poly) and b not in free(poly):
        return None
    assert a.extent is not None
    high, low = coefficient(poly, a), coefficient(poly, b)
    if high is not None and low is not None and a.extent is not ONE:
        remaining = poly - mul(high, as_int(a)) - mul(low, as_int(b))
        if not any(v in free(t) for v in axes for t in (high, low, remaining)):
            return high is mul(low, extent)
    axis = as_int(fresh(mul(a.extent, extent), "P"))
    high = floordiv(axis, extent)
    fused = ints(poly, {a: high, b: axis - mul(high, extent)})
    return all(s is not high.atom for s in subterms(fused))


def _divisions(poly: Int) -> set[Term]:
    return {s for s in subterms(poly) if is_div(s)}
