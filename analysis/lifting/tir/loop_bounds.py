"""Bounds of loops that are a minimum or a maximum, as conditions on single bounds.

    for a in range(max(2*y - 1, 0), min(2*y + 2, n)): body(a)

is a loop from ``2*y - 1`` on, of at most 3 iterations, that runs where ``0 <= a < n``. So the index
has no maximum, and the extent has a bound that does not depend on y.
"""

from __future__ import annotations

from ...terms.order import bounds
from ...terms.term import ZERO, CallTerm, Int, Term, as_int
from ...terms.traversal import free


def from_one_bound(start: Int, extent: Int) -> tuple[Int, Int, Int | None]:
    """Return the start and the extent of a loop from one of the operands of a maximum.

    Returns:
        The start, the extent, and the first iteration that runs; None if all do.
    """
    atom = _maximum(start, 1)
    if atom is None and (atom := _maximum(extent, -1)) is not None:
        # of max(a, b) iterations fewer: the body is at the place that begins there
        begin, whole, first = from_one_bound(as_int(atom), extent)
        return begin + start - as_int(atom), whole, first
    if atom is None:
        return start, extent, None
    others, end = start - as_int(atom), start + extent
    candidates = [others + as_int(x) for x in atom.args]  # type: ignore[attr-defined]
    lengths = {begin: bounds(least(end - begin))[1] for begin in candidates}
    counts = {begin: n.const for begin, n in lengths.items() if n is not None and n.const}
    if not counts:
        return start, extent, None
    begin = min(counts, key=lambda p: counts[p])
    return begin, end - begin, start - begin


def _maximum(poly: Int, coef: int) -> Term | None:
    """The first maximum that is a summand, with this coefficient."""
    found = [m[0] for m, c in poly.terms if len(m) == 1 and c == coef and _is(m[0], "max")]
    if coef < 0:  # max(0, k) iterations fewer
        found = [x for x in found if any(as_int(a) is ZERO for a in x.args)]  # type: ignore[attr-defined]
    return found[0] if found else None


def least(extent: Int) -> Int:
    """Return an upper bound of an extent that is a minimum: an operand with a constant bound."""
    for mono, coef in extent.terms:
        if len(mono) != 1 or not _is(mono[0], {1: "min", -1: "max"}.get(coef, "")):
            continue
        others = extent - as_int(mono[0]) * coef
        options = [others + as_int(x) * coef for x in mono[0].args]  # type: ignore[attr-defined]
        constant = [high for p in options if (high := bounds(p)[1]) is not None and not free(high)]
        if constant:
            return min(constant, key=lambda p: p.const if p.const is not None else 2**63)
    return extent


def _is(term: object, op: str) -> bool:
    return isinstance(term, CallTerm) and term.op == op
