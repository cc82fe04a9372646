"""An output written out: at each place, a polynomial or an extreme of elements.

    y[i] = x[i] + (x[i - 1] if i >= 1 else 0)    place 0: x[0]    place 1: x[1] + x[0]

Extents are literals, and few. A coordinate that is only ever a whole index of a load stays a
variable, whatever its extent. Coefficients are fractions and never rounded: two expressions with
one table are equal in real arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from ...terms.term import CallTerm, Fold, Load, Reduce, Term, Var, integer
from ...terms.term.work_budget import share
from ...terms.traversal import free, substitute, subterms
from ..sums.polynomial import REAL
from .closed_terms import without_closed
from .element_polynomials import Elements, NotWritten, Table, extreme_at, polynomial_at

#: Places of an output, and terms that are visited at all of them, of what is written out.
_MOST_PLACES, _MOST_VISITS = 1024, 60_000
#: Steps of the budget of one question, for one comparison.
_STEPS = 60_000
#: What an equality of two tables proves, in words.
AT_PLACES = "equal polynomials, or sets, of elements at each place of the output"
_FLOAT = frozenset({"add", "sub", "mul", "div", "neg", "ite", "max", "min", "cast", "floor"})


@dataclass(frozen=True)
class WrittenOut:
    """An output at each of its places.

    Attributes:
        op: ``add`` for polynomials, ``max`` or ``min`` for extremes, whose coefficients are 1.
        axes: The coordinates that a place has a value for; others are whole indices of loads.
        table: For each place, the coefficient of each product of elements.
    """

    op: str
    axes: tuple[Var, ...]
    table: dict[tuple[int, ...], Table]


def written_out(body: Term) -> WrittenOut | None:
    """Return an output at each of its places; None if it is too large, or of other operations."""
    axes = tuple(_written(body))
    if any(v.kind != "axis" for v in axes) or not _is_small(body, axes):
        return None
    closed = any(_rounds(t) for t in subterms(body))
    for op, read in (("add", polynomial_at), *((op, extreme_at(op)) for op in ("max", "min"))):
        try:
            return WrittenOut(op, axes, dict(_places(body, axes, closed, read)))
        except NotWritten:
            continue
    return None


def equal_at_places(a: Term, b: Term) -> bool:
    """Return whether two elements are the same polynomial, or extreme, at each place.

    It is unknown, and thus False, beyond a share of the budget.
    """
    with share(_STEPS):
        return _equal_at_places(a, b)
    return False


def _equal_at_places(a: Term, b: Term) -> bool:
    axes = tuple(_written(a) | _written(b))
    if any(v.kind != "axis" for v in axes) or not (_is_small(a, axes) and _is_small(b, axes)):
        return False
    closed = any(_rounds(t) for x in (a, b) for t in subterms(x))
    for read in (polynomial_at, extreme_at("max"), extreme_at("min")):
        try:
            tables = (_places(x, axes, closed, read) for x in (a, b))
            return all(ours == theirs for ours, theirs in zip(*tables, strict=True))
        except NotWritten:
            continue
    return False


def _places(
    body: Term, axes: tuple[Var, ...], closed: bool, read: Elements
) -> Iterator[tuple[tuple[int, ...], Table]]:
    extents = [range(a.extent.const) for a in axes if a.extent is not None and a.extent.const]
    for place in product(*extents):
        term = substitute(body, dict(zip(axes, map(integer, place), strict=True)))
        yield place, read(without_closed(term) if closed else term)


def _rounds(term: Term) -> bool:
    return isinstance(term, CallTerm) and term.op in ("floor", "cast")


def _written(body: Term) -> dict[Var, None]:
    """The free variables that occur elsewhere than as a whole index of a load."""
    found: dict[Var, None] = {}
    outer = free(body)
    seen: set[Term] = set()
    stack: list[Term] = [body]
    while stack:
        term = stack.pop()
        if term in seen:
            continue
        seen.add(term)
        if isinstance(term, Var):
            if term in outer:
                found[term] = None
        elif isinstance(term, Load):
            stack += [i for i in term.indices if not isinstance(i.atom, Var)]
        else:
            stack += term.children
    return dict.fromkeys(sorted(found, key=lambda v: v.name))


def _is_small(body: Term, axes: tuple[Var, ...]) -> bool:
    """Whether all operations are known and the table has a bounded size."""
    places = 1
    for axis in axes:
        places *= (axis.extent.const if axis.extent is not None else None) or _MOST_PLACES + 1
    if places > _MOST_PLACES:
        return False
    visits = places
    stack: list[tuple[Term, int]] = [(body, places)]
    seen: set[Term] = set()
    while stack and visits <= _MOST_VISITS:
        term, times = stack.pop()
        if term in seen:
            continue
        seen.add(term)
        visits += times
        if isinstance(term, Reduce):
            for axis in term.axes:
                times *= (axis.extent.const if axis.extent is not None else None) or _MOST_VISITS
        elif not _is_known(term):
            return False
        stack += [(child, times) for child in term.children]
    return visits <= _MOST_VISITS


def _is_known(term: Term) -> bool:
    if isinstance(term, CallTerm):
        return term.dtype not in REAL or term.op in _FLOAT
    return not isinstance(term, Fold)
