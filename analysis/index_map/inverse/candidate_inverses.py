"""Candidates for an inverse, cheapest method first; each is a guess until it is proved."""

from __future__ import annotations

from collections.abc import Iterator

from ...solving.integer_equations import solve
from ...terms.scalar import parts
from ...terms.term import ZERO, CallTerm, Int, Term, Var, as_int
from ..engines.goal import place
from ..maps.to_terms import Map
from .by_cases import by_cases, selection
from .f2 import f2_inverse

Candidate = tuple[str, tuple[Int, ...]]


def candidates(m: Map, ys: tuple[Var, ...]) -> Iterator[Candidate]:
    """Yield ``(method, results over ys)``: equations, cases, bit matrices."""

    def solved(results: tuple[Int, ...], where: Term) -> tuple[Int, ...] | None:
        return _solved(m, ys, results, where)

    by_case = selection(m.results) is not None
    inverse = by_cases(m, ys, solved) if by_case else solved(m.results, m.predicate)
    if inverse is not None:
        yield "cases" if by_case else "equations", inverse
    inverse = f2_inverse(m, ys)
    if inverse is not None:
        yield "bits", inverse


def _solved(
    m: Map, ys: tuple[Var, ...], results: tuple[Int, ...], where: Term
) -> tuple[Int, ...] | None:
    """All axes from the equations ``results = ys`` and those in the condition."""
    unknown = [a for a, e in zip(m.axes, m.extents, strict=True) if e.const != 1]
    equations = [(r, place(y)) for r, y in zip(results, ys, strict=True)]
    for c in parts(where):
        if isinstance(c, CallTerm) and c.op == "eq0":
            equations.append((as_int(c.args[0]), ZERO))
    values = solve(unknown, equations)
    if any(a not in values for a in unknown):
        return None
    return tuple(values.get(a, ZERO) for a in m.axes)
