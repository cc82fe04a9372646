"""Candidates for an inverse, cheapest method first; each is a guess until it is proved."""

from __future__ import annotations

from collections.abc import Iterator

from ...solving.integer_equations import solve
from ...terms.condition_terms import parts
from ...terms.term import ZERO, CallTerm, Int, Term, Var, as_int
from ..engines.goal import place
from ..maps.to_terms import Map
from .by_cases import by_cases, selection
from .f2 import f2_inverse

Candidate = tuple[str, tuple[Int, ...]]


def candidates(index_map: Map, ys: tuple[Var, ...]) -> Iterator[Candidate]:
    """Yield ``(method, results over ys)``: equations, cases, bit matrices."""

    def solved(results: tuple[Int, ...], where: Term) -> tuple[Int, ...] | None:
        return _solved(index_map, ys, results, where)

    by_case = selection(index_map.results) is not None
    inverse = (
        by_cases(index_map, ys, solved)
        if by_case
        else solved(index_map.results, index_map.predicate)
    )
    if inverse is not None:
        yield "cases" if by_case else "equations", inverse
    inverse = f2_inverse(index_map, ys)
    if inverse is not None:
        yield "bits", inverse


def _solved(
    index_map: Map, ys: tuple[Var, ...], results: tuple[Int, ...], where: Term
) -> tuple[Int, ...] | None:
    """All axes from the equations ``results = ys`` and those in the condition."""
    unknown = [a for a, e in zip(index_map.axes, index_map.extents, strict=True) if e.const != 1]
    equations = [(r, place(y)) for r, y in zip(results, ys, strict=True)]
    for term in parts(where):
        if isinstance(term, CallTerm) and term.op == "eq0":
            equations.append((as_int(term.args[0]), ZERO))
    values = solve(unknown, equations)
    if any(a not in values for a in unknown):
        return None
    return tuple(values.get(a, ZERO) for a in index_map.axes)
