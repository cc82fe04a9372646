"""Sums that are scattered: iterations add to elements that they share with others.

    for i in range(n): for a in range(k): out[s * i + a] += f(i, a)

is, for each element, the sum over the iterations that add to it:

    out[y] = out[y] + Σ_{a < k} (f(i, a) if (y - a) % s == 0 and 0 <= i < n else 0)
    with i = (y - a) // s

Each coordinate determines one of the variables in it, the one with the largest factor.
"""

from __future__ import annotations

from collections.abc import Set

from ...terms.condition_terms import conj, eq0, ge0, ite, parts
from ...terms.integer import floordiv
from ...terms.reduction_terms import identity, reduce
from ...terms.term import (
    ONE,
    TRUE,
    ZERO,
    Int,
    TensorVar,
    Term,
    Var,
    as_int,
    bare,
    fresh,
    integer,
    load,
    mul,
)
from ...terms.traversal import free, ints, substitute, tensors
from ..effects.effects import Effects, Write
from .accumulate import combined, occurs


def close_scattered_sum(
    var: Var, tensor: TensorVar, write: Write, carried: Set[Term], body: Effects
) -> Write | None:
    """Return the effect of all iterations on every element; None for other stores."""
    state = bare(load(tensor, write.index))
    if carried != {state} or len(body.writes[tensor]) > 1 or write.scattered or write.distinct:
        return None
    if any(map(tensors, write.index)) or not any(var in free(e) for e in write.index):
        return None
    if occurs(state, write.guard):
        return None
    parts_of_update = combined(write.value, state, var)
    if parts_of_update is None:
        return None
    op, update = parts_of_update
    unit = identity(op, tensor.dtype)
    if unit is None or tensor in tensors(update):
        return None
    gathered = _gathered(var, tensor, write)
    if gathered is None:
        return None
    index, axes, kept, chosen, hits = gathered
    guard = conj(*hits, substitute(write.guard, chosen))
    value = ite(guard, substitute(update, chosen), unit)
    total = reduce(op, axes, value, load(tensor, index), tensor.dtype)
    elements = [e.atom for e in index if isinstance(e.atom, Var)]
    return Write(tuple(dict.fromkeys((*kept, *elements))), TRUE, index, total)


_Gathered = tuple[
    tuple[Int, ...], tuple[Var, ...], tuple[Var, ...], dict[Var, Int], tuple[Term, ...]
]


def _gathered(var: Var, tensor: TensorVar, write: Write) -> _Gathered | None:
    """The element, axes of its sum, other variables, those it determines, and when these hold."""
    summed = {var}
    while True:
        shared = [e for e in write.index if not summed.isdisjoint(free(e))]
        more = {v for v in write.vars if any(v in free(e) for e in shared)} | {var}
        if more == summed:
            break
        summed = more
    kept = tuple(v for v in write.vars if v not in summed)
    if any(all(v not in free(e) for e in write.index) for v in kept):
        return None
    axes = [v for v in dict.fromkeys((*write.vars, var)) if v in summed and v.extent is not ONE]
    chosen: dict[Var, Int] = {}
    hits: list[Term] = []
    index: list[Int] = []
    for extent, coordinate in zip(tensor.shape, write.index, strict=True):
        if coordinate not in shared:
            index.append(coordinate)
            continue
        element = ZERO if extent is ONE else as_int(fresh(extent))
        index.append(element)
        coordinate = ints(coordinate, chosen)
        solved = _solved(coordinate, element, axes)
        if solved is None:
            return None
        found, value, exact = solved
        assert found.extent is not None
        axes.remove(found)
        chosen = {v: ints(p, {found: value}) for v, p in chosen.items()} | {found: value}
        hits = [substitute(h, {found: value}) for h in hits]
        hits += [*parts(exact), ge0(value), ge0(found.extent - 1 - value)]
    return tuple(index), tuple(axes), kept, chosen, tuple(hits)


def _solved(coordinate: Int, element: Int, axes: list[Var]) -> tuple[Var, Int, Term] | None:
    """The variable that ``coordinate == element`` determines, its value, and when it is whole."""
    linear = {m[0]: c for m, c in coordinate.terms if len(m) == 1 and m[0] in axes}
    best: tuple[int, int, Var] | None = None
    for axis in axes:
        factor = linear.get(axis, 0)
        if not factor or axis in free(coordinate - as_int(axis) * factor):
            continue
        size = axis.extent.const if axis.extent is not None and axis.extent.const else 2**31
        if best is None or (abs(factor), size) > best[:2]:
            best = abs(factor), size, axis
    if best is None:
        return None
    magnitude, _, axis = best
    factor = linear[axis]
    rest = coordinate - as_int(axis) * factor
    value = floordiv((element - rest) * (1 if factor > 0 else -1), integer(magnitude))
    return axis, value, eq0(mul(value, integer(factor)) + rest - element)
