"""Inversion by cases: a selection in the results splits the domain in two.

Let ``f = f1 where c, else f2``, with ``g1``, ``g2`` the only candidates for their inverses. If f
has an inverse, it is ``g = g1 if (g1(y) in the domain and c(g1(y)) and f1(g1(y)) = y) else g2``: a
y that passes the test is ``f(g1(y))``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...terms.condition_terms import conj, eq0, ge0, ite, negate
from ...terms.scalar import call
from ...terms.term import FALSE, CallTerm, Int, Term, Var, as_int
from ...terms.traversal import ints, rebuild, substitute, subterms
from ..engines.goal import place
from ..maps.to_terms import Map

Results = tuple[Int, ...]
Solve = Callable[[Results, Term], "Results | None"]
Choice = Callable[[Term], "Term | None"]
DEPTH = 5


def by_cases(index_map: Map, ys: tuple[Var, ...], solve: Solve) -> Results | None:
    """Return inverse results over ``ys``; ``solve(results, condition)`` solves each case."""
    return _cases(index_map, ys, index_map.results, index_map.predicate, solve, DEPTH)


def _cases(
    index_map: Map, ys: tuple[Var, ...], results: Results, where: Term, solve: Solve, depth: int
) -> Results | None:
    split = selection(results)
    if split is None or depth == 0:
        return None if split is not None else solve(results, where)
    condition, first, second = split
    f1, f2 = (tuple(as_int(_chosen(r, choice)) for r in results) for choice in (first, second))
    inside, outside = conj(where, condition), conj(where, negate(condition))
    if inside is FALSE or outside is FALSE:
        return _cases(index_map, ys, f2 if inside is FALSE else f1, where, solve, depth)
    g1 = _cases(index_map, ys, f1, inside, solve, depth - 1)
    g2 = None if g1 is None else _cases(index_map, ys, f2, outside, solve, depth - 1)
    if g1 is None or g2 is None:
        return None
    test = hit(index_map, ys, g1, f1, inside)
    return tuple(as_int(ite(test, a, b)) for a, b in zip(g1, g2, strict=True))


def hit(
    index_map: Map, ys: tuple[Var, ...], inverse: Sequence[Int], results: Results, where: Term
) -> Term:
    """Return whether ``g(y)`` is in the domain, satisfies ``where`` and has the image ``y``."""
    inner = dict(zip(index_map.axes, inverse, strict=True))
    return conj(
        *(
            condition
            for poly, extent in zip(inverse, index_map.extents, strict=True)
            for condition in (ge0(poly), ge0(extent - 1 - poly))
        ),
        substitute(where, inner),
        *(eq0(ints(r, inner) - place(y)) for r, y in zip(results, ys, strict=True)),
    )


def selection(results: Sequence[Int]) -> tuple[Term, Choice, Choice] | None:
    """Return the condition of an innermost selection, and the choice of either branch."""
    for result in results:
        for term in subterms(result):
            if (
                isinstance(term, CallTerm)
                and term.op in ("ite", "min", "max")
                and _is_innermost(term)
            ):
                if term.op == "ite":
                    condition = term.args[0]
                    return condition, _decided(condition, True), _decided(condition, False)
                a, b = as_int(term.args[0]), _other_operands(term)
                condition = ge0(b - a if term.op == "min" else a - b)
                return condition, _replacing(term, a), _replacing(term, b)
    return None


def _replacing(old: Term, new: Int) -> Choice:
    return lambda term: new if term is old else None


def _decided(term: Term, value: bool) -> Choice:
    """A choice of one branch in every selection by ``term`` or its negation."""
    negated = negate(term)

    def choice(node: Term) -> Term | None:
        if isinstance(node, CallTerm) and node.op == "ite" and node.args[0] in (term, negated):
            return node.args[1 if (node.args[0] is term) is value else 2]
        return None

    return choice


def _is_innermost(term: CallTerm) -> bool:
    return not any(
        isinstance(subterm, CallTerm) and subterm.op in ("ite", "min", "max")
        for arg in term.args
        for subterm in subterms(arg)
    )


def _other_operands(term: CallTerm) -> Int:
    return (
        as_int(term.args[1])
        if len(term.args) == 2
        else as_int(call(term.op, term.args[1:], term.dtype))
    )


def _chosen(poly: Int, choice: Choice) -> Term:
    memo: dict[Term, Term] = {}

    def go(term: Term) -> Term:
        if term not in memo:
            side = choice(term)
            memo[term] = rebuild(term, go) if side is None else go(side)
        return memo[term]

    return go(poly)
