"""Join reductions whose ranges touch.

    Σ_{k<8} x[k] + Σ_{k<3} x[k + 8]    = Σ_{k<11} x[k]
    Σ_{k<8} x[k] + x[8]                = Σ_{k<9} x[k]

The second is the first, continued: its body is the body of the first with the axis moved by the
extent. Other axes and a guard are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...lifting.loops.reduction import canonical
from ...terms.reduction_terms import identity, reduce
from ...terms.term import Reduce, Term, Var, as_int, fresh, integer
from ...terms.traversal import free, substitute, tensors

#: More parts than this are not compared.
_MOST = 16

#: Whether two terms are one in real arithmetic.
Same = Callable[[Term, Term], bool]


def join_adjacent(op: str, terms: Sequence[Term], same: Same) -> list[Term]:
    """Return operands of an operation, with reductions that continue one another joined.

    Args:
        op: An associative and commutative operation.
        terms: Its operands.
        same: Says whether two terms are equal.
    """
    parts = list(terms)
    if not 1 < len(parts) <= _MOST:
        return parts
    while (pair := _first(op, parts, same)) is not None:
        i, j, whole = pair
        parts = [p for k, p in enumerate(parts) if k not in (i, j)] + [whole]
    return parts


def _first(op: str, parts: Sequence[Term], same: Same) -> tuple[int, int, Term] | None:
    """The first two parts that touch, and what they are together."""
    for i, part in enumerate(parts):
        if not (isinstance(part, Reduce) and part.op == op):
            continue
        if part.init is not identity(op, part.dtype):
            continue
        for j, other in enumerate(parts):
            if i != j and tensors(part) == tensors(other):
                whole = _together(part, other, same)
                if whole is not None:
                    return i, j, whole
    return None


def _together(part: Reduce, other: Term, same: Same) -> Term | None:
    """The first reduction over a longer range that has the second term after it."""
    for axis in part.axes:
        start = axis.extent.const if axis.extent is not None else None
        if start is None or any(a.extent is not None and axis in free(a.extent) for a in part.axes):
            continue
        for count in _counts(part, other):
            if same(_part(part, axis, start, count), other):
                return _part(part, axis, 0, start + count)
            if same(_part(part, axis, -count, count), other):
                return _part(part, axis, -count, start + count)
    return None


def _counts(part: Reduce, other: Term) -> set[int]:
    """How far the axis may go on in the second term."""
    counts = {1}
    if isinstance(other, Reduce) and other.op == part.op and other.init is part.init:
        counts |= {a.extent.const for a in other.axes if a.extent is not None and a.extent.const}
    return counts


def _part(part: Reduce, axis: Var, start: int, count: int) -> Term:
    """The reduction with an axis from a start, over a number of iterations."""
    other = fresh(integer(count), "r")
    body = substitute(part.body, {axis: as_int(other) + start})
    axes = tuple(other if a is axis else a for a in part.axes)
    return canonical(reduce(part.op, axes, body, part.init, part.dtype))
