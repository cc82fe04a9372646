"""Inversion by cases: a selection in the results splits the domain in two.

With ``f = f1 where c, else f2`` and ``g1``, ``g2`` the only candidates for their inverses,
``g = g1 if (g1(y) in the domain and c(g1(y)) and f1(g1(y)) = y) else g2`` is the inverse of f if f
has one: a y that passes the test is ``f(g1(y))``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..rewrite import ints, rebuild, substitute, subterms
from ..scalar import conj, eq0, ge0, ite, negate
from ..term import Call, Int, Term, Var, as_int
from .convert import Map
from .goal import place

Results = tuple[Int, ...]
Solve = Callable[[Results, Term], "Results | None"]
DEPTH = 4


def by_cases(m: Map, ys: tuple[Var, ...], solve: Solve) -> Results | None:
    """Inverse results over ``ys``, each case solved by ``solve(results, condition)``."""
    return _cases(m, ys, m.results, m.predicate, solve, DEPTH)


def _cases(
    m: Map, ys: tuple[Var, ...], results: Results, where: Term, solve: Solve, depth: int
) -> Results | None:
    split = selection(results)
    if split is None or depth == 0:
        return solve(results, where)
    atom, condition, first, second = split
    f1, f2 = (_replaced(results, atom, branch) for branch in (first, second))
    g1 = _cases(m, ys, f1, conj(where, condition), solve, depth - 1)
    g2 = _cases(m, ys, f2, conj(where, negate(condition)), solve, depth - 1)
    if g1 is None or g2 is None:
        return None
    taken = hit(m, ys, g1, f1, conj(where, condition))
    return tuple(as_int(ite(taken, a, b)) for a, b in zip(g1, g2, strict=True))


def hit(m: Map, ys: tuple[Var, ...], g: Sequence[Int], results: Results, where: Term) -> Term:
    """Whether ``g(y)`` is a point of the domain, with ``where``, whose image is ``y``."""
    inner = dict(zip(m.axes, g, strict=True))
    return conj(
        *(c for t, e in zip(g, m.extents, strict=True) for c in (ge0(t), ge0(e - 1 - t))),
        substitute(where, inner),
        *(eq0(ints(r, inner) - place(y)) for r, y in zip(results, ys, strict=True)),
    )


def selection(results: Sequence[Int]) -> tuple[Term, Term, Int, Int] | None:
    """An innermost selection: the atom, its condition and its two values."""
    for r in results:
        for t in subterms(r):
            if isinstance(t, Call) and t.op in ("ite", "min", "max") and _plain(t):
                if t.op == "ite":
                    return t, t.args[0], as_int(t.args[1]), as_int(t.args[2])
                a, b = as_int(t.args[0]), _rest(t)
                return t, ge0(b - a if t.op == "min" else a - b), a, b
    return None


def _plain(t: Call) -> bool:
    return not any(
        isinstance(s, Call) and s.op in ("ite", "min", "max") for a in t.args for s in subterms(a)
    )


def _rest(t: Call) -> Int:
    from ..scalar import call

    return as_int(t.args[1]) if len(t.args) == 2 else as_int(call(t.op, t.args[1:], t.dtype))


def _replaced(results: Results, atom: Term, branch: Int) -> Results:
    memo: dict[Term, Term] = {atom: branch}

    def go(t: Term) -> Term:
        if t not in memo:
            memo[t] = rebuild(t, go)
        return memo[t]

    return tuple(as_int(go(r)) for r in results)
