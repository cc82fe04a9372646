"""One change of a buffer's coordinates.

A change is a bijection between old and new coordinates (an injection for a crop). So a statement
about the expression over the new buffer is one about the old buffer. The choice of changes is a
guess; after a bad one, no operator is recognised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..proofs.prove import prove
from ..terms.condition_terms import conj, ge0
from ..terms.integer import floordiv
from ..terms.term import (
    ONE,
    ZERO,
    Int,
    TensorVar,
    Term,
    mul,
    polynomial,
)

Index = tuple[Int, ...]
Facts = tuple[Term, ...]


@dataclass(frozen=True)
class CoordinateChange:
    """New coordinates of a buffer; ``old`` maps new coordinates back, ``new`` an access forth.

    ``new`` may use the facts that hold where the access is.
    """

    shape: Index
    old: Callable[[Index], Index]
    new: Callable[[Index, Facts], Index]


def merge(tensor: TensorVar, outer: int, inner: int) -> CoordinateChange:
    """Merge dimensions that are the digits ``P // E`` and ``P % E`` into one that is P."""
    extent = tensor.shape[inner]
    place = outer - (inner < outer)

    def new(index: Index, _: Facts = ()) -> Index:
        out = list(index)
        out[outer] = mul(index[outer], extent) + index[inner]
        del out[inner]
        return tuple(out)

    def old(index: Index) -> Index:
        high = floordiv(index[place], extent)
        out = list(index)
        out[place] = high
        out.insert(inner, index[place] - mul(high, extent))
        return tuple(out)

    shape = list(tensor.shape)
    shape[outer] = mul(shape[outer], extent)
    del shape[inner]
    return CoordinateChange(tuple(shape), old, new)


def split(tensor: TensorVar, dim: int, extent: Int) -> CoordinateChange:
    """Split a dimension that is ``extent * P + Q`` into two, P and Q."""

    def new(index: Index, facts: Facts = ()) -> Index:
        return (*index[:dim], *digits(index[dim], extent, facts), *index[dim + 1 :])

    def old(index: Index) -> Index:
        return (*index[:dim], mul(index[dim], extent) + index[dim + 1], *index[dim + 2 :])

    high = floordiv(tensor.shape[dim], extent)
    return CoordinateChange((*tensor.shape[:dim], high, extent, *tensor.shape[dim + 1 :]), old, new)


def arrange(tensor: TensorVar, order: Sequence[int | None]) -> CoordinateChange:
    """Reorder dimensions; None is a new one of extent 1, and omitted ones have extent 1."""
    assert all(tensor.shape[d] is ONE for d in range(len(tensor.shape)) if d not in order)

    def new(index: Index, _: Facts = ()) -> Index:
        return tuple(ZERO if d is None else index[d] for d in order)

    def old(index: Index) -> Index:
        return tuple(
            index[order.index(d)] if d in order else ZERO for d in range(len(tensor.shape))
        )

    return CoordinateChange(tuple(ONE if d is None else tensor.shape[d] for d in order), old, new)


def crop(tensor: TensorVar, dim: int, extent: Int) -> CoordinateChange:
    """Keep only the first elements of a dimension."""
    shape = (*tensor.shape[:dim], extent, *tensor.shape[dim + 1 :])
    return CoordinateChange(shape, lambda index: index, lambda index, _: index)


def digits(poly: Int, extent: Int, facts: Facts = ()) -> tuple[Int, Int]:
    """Return ``poly // extent`` and ``poly % extent``, without divisions if the facts allow it."""
    exact = clean(poly, extent, facts)
    if exact is not None:
        return exact
    high = floordiv(poly, extent)
    return high, poly - mul(high, extent)


def clean(poly: Int, extent: Int, facts: Facts) -> tuple[Int, Int] | None:
    """Return ``(high, low)`` with ``poly = extent * high + low``, if low is the remainder."""
    k, shift = extent.const, next((c for m, c in poly.terms if not m), 0)
    high, low = factor_out(poly - shift if k else poly, extent)
    if high is ZERO:
        return None
    if not k:
        return (high, low) if inside(low, extent, facts) else None
    for quotient in dict.fromkeys((shift // k, shift // k + 1, 0)):
        if inside(low + (shift - quotient * k), extent, facts):
            return high + quotient, low + (shift - quotient * k)
    return None


def factor_out(poly: Int, extent: Int) -> tuple[Int, Int]:
    """Return ``(high, low)`` with ``poly = extent * high + low``; low has what does not divide."""
    ((mono, divisor),) = extent.terms
    high: dict[tuple[Term, ...], int] = {}
    for terms, coef in poly.terms:
        factors = list(terms)
        if coef % divisor == 0 and all(_take(factors, a) for a in mono):
            high[tuple(factors)] = coef // divisor
    upper = polynomial(high)
    return upper, poly - mul(upper, extent)


def _take(factors: list[Term], atom: Term) -> bool:
    present = atom in factors
    if present:
        factors.remove(atom)
    return present


def inside(poly: Int, extent: Int, facts: Facts) -> bool:
    """Return whether ``0 <= poly < extent`` wherever the facts hold."""
    return prove(conj(ge0(poly), ge0(extent - 1 - poly)), facts).proved
