"""Orders of digits, which relate layouts to the loops of a block."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise

from .align import Unaligned, cut, top
from .digit import Digit
from .layout import Layout

Cuts = dict[int, set[int]]


def atoms(digits: Sequence[Digit], cuts: Cuts) -> Sequence[Digit]:
    """The digits, split at the place values that ``cuts`` has for each axis."""
    if not cuts:
        return digits
    out: list[Digit] = []
    for digit in digits:
        end = top(digit)
        inside = [c for c in cuts.get(digit.axis, ()) if c > digit.div and (end is None or c < end)]
        if not inside:
            out.append(digit)
            continue
        bounds: list[int | None] = [digit.div, *sorted(inside), end]
        for high, low in pairwise(reversed(bounds)):
            assert low is not None
            if low % digit.div or (high is not None and high % low):
                raise Unaligned(f"splits at {low} and {high} do not line up")
            out.append(cut(digit, low, high))
    return out


def places(*sequences: Iterable[Digit]) -> Cuts:
    """The place values between digits, by axis."""
    cuts: Cuts = {}
    for iterable in sequences:
        for digit in iterable:
            if digit.div != 1:
                cuts.setdefault(digit.axis, set()).add(digit.div)
            if digit.extent is not None:
                cuts.setdefault(digit.axis, set()).add(digit.div * digit.extent)
    return cuts


def agree(order: Sequence[Digit], other: Sequence[Digit], reduced: frozenset[int]) -> bool:
    """Whether common digits come in the same order.

    Digits of different reduction axes may come in any order, as reduction loops nest in any order.
    """
    try:
        cuts = places(order, other)
        where = {d: k for k, d in enumerate(atoms(order, cuts))}
        last: dict[int, int] = {}
        for digit in atoms(other, cuts):
            at = where.get(digit)
            if at is None:
                continue
            key = digit.axis if digit.axis in reduced else -1
            if at < last.get(key, -1):
                return False
            last[key] = at
    except Unaligned:
        return False
    return True


def merged(order: Sequence[Digit], extra: Sequence[Digit]) -> list[Digit]:
    """The order, followed by the ``extra`` digits that it lacks."""
    if not order:
        return list(extra)
    cuts = places(order, extra)
    present = list(atoms(order, cuts))
    return present + [d for d in atoms(extra, cuts) if d not in present]


def complete(digits: Sequence[Digit], rank: int, template: Layout | None = None) -> Layout:
    """The layout with these digits in this order; missing digits follow their neighbours.

    Returns ``template`` if it has the same rank and agrees with the digits. Raises `Unaligned` if
    digits overlap.
    """
    if template is not None and template.rank == rank:
        if agree(template.digits, digits, frozenset()):
            return template
    seq = list(digits)
    for gap in _gaps(seq, rank):
        before = [k for k, d in enumerate(seq) if _identity(d) < _identity(gap)]
        at = max(before, key=lambda k: _identity(seq[k])) + 1 if before else 0
        seq.insert(at, gap)
    dims = tuple(tuple(group) for _, group in groupby(seq, key=lambda d: d.axis))
    try:
        return Layout(dims)
    except ValueError as error:
        raise Unaligned(str(error)) from None


def _identity(digit: Digit) -> tuple[int, int]:
    return (digit.axis, -digit.div)


def _gaps(digits: Sequence[Digit], rank: int) -> list[Digit]:
    """The digits of the axes 0 … rank-1 that are missing."""
    out: list[Digit] = []
    for axis in range(rank):
        place: int | None = 1
        for digit in sorted((d for d in digits if d.axis == axis), key=lambda d: d.div):
            if place is None or digit.div < place:
                raise Unaligned(f"two digits of axis {axis} overlap")
            if digit.div > place:
                out.append(cut(digit, place, digit.div))
            place = top(digit)
        if place is not None:
            out.append(Digit(axis, place))
    return sorted(out, key=_identity)
