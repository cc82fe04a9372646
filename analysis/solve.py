"""Solve integer equations for loop variables: ``index(v) = y`` gives ``v`` in terms of ``y``.

Every step is a necessary consequence of the equations and of the variables' domains, so a solution
found is the only one there can be; whether it *is* one, the caller proves by substituting it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .integer import bounds, floordiv, nonneg
from .rewrite import free, rebuild
from .term import ONE, ZERO, Int, Mono, Term, Var, as_int, polynomial
from .integer import _divide, _divides  # noqa: PLC2701


def solve(unknowns: Sequence[Var], equations: Sequence[tuple[Int, Int]]) -> dict[Var, Int]:
    """Values of the unknowns, over everything else in the equations; unsolved ones are absent."""
    state = _State(frozenset(unknowns), [a - b for a, b in equations])
    while state.pending and state.step():
        pass
    return {v: k for v, k in state.known.items() if isinstance(v, Var)}


class _State:
    def __init__(self, unknowns: frozenset[Var], equations: list[Int]) -> None:
        self.unknowns = unknowns
        self.pending = equations
        self.known: dict[Term, Int] = {}

    def step(self) -> bool:
        """One round over the pending equations; False when nothing was learnt."""
        work, self.pending, progress = self.pending, [], False
        for equation in work:
            p = self.substitute(equation)
            unknown = polynomial({m: c for m, c in p.terms if self.is_unknown(m)})
            if unknown is ZERO:
                continue
            if self.single(unknown, unknown - p) or self.digits(unknown, unknown - p):
                progress = True
            else:
                self.pending.append(p)
                progress |= p is not equation
        return progress

    def is_unknown(self, mono: Mono) -> bool:
        return any(not self.unknowns.isdisjoint(free(a)) for a in mono)

    def substitute(self, p: Int) -> Int:
        if not self.known:
            return p
        memo: dict[Term, Term] = {}

        def go(t: Term) -> Term:
            if t in self.known:
                return self.known[t]
            if self.unknowns.isdisjoint(free(t)) or isinstance(t, Var):
                return t
            found = memo.get(t)
            if found is None:
                found = memo[t] = rebuild(t, go)
            return found

        return as_int(go(p))

    def single(self, unknown: Int, value: Int) -> bool:
        """``c * atom = value``."""
        if len(unknown.terms) != 1:
            return False
        mono, coef = unknown.terms[0]
        atoms = [a for a in mono if not self.unknowns.isdisjoint(free(a))]
        if len(atoms) != 1 or atoms[0] in self.known:
            return False
        others = list(mono)
        others.remove(atoms[0])
        factor = polynomial({tuple(others): abs(coef)})
        self.known[atoms[0]] = floordiv(value if coef > 0 else -value, factor)
        return True

    def digits(self, unknown: Int, value: Int) -> bool:
        """``g * big + small = value`` with ``small`` in a window of g: two equations."""
        for g in self.radices(unknown):
            big = polynomial({m: c for m, c in unknown.terms if _divides(g, m, c)})
            small = unknown - big
            if small is ZERO:
                self.pending.append(_divide(big, g)[0] - floordiv(value, g))
                return True
            lo, hi = bounds(small)
            if lo is None or hi is None or not nonneg(g - 1 - hi + lo):
                continue
            quotient = floordiv(value - lo, g)
            self.pending.append(_divide(big, g)[0] - quotient)
            self.pending.append(small - (value - g * quotient))
            return True
        return False

    def radices(self, unknown: Int) -> list[Int]:
        found: dict[Int, None] = {}
        for mono, coef in unknown.terms:
            sizes = tuple(a for a in mono if isinstance(a, Var) and a.kind == "size")
            g = polynomial({sizes: abs(coef)})
            if g is not ONE:
                found[g] = None
        return list(found)


def is_solution(
    solution: Mapping[Var, Int], equations: Sequence[tuple[Int, Int]], unknowns: Sequence[Var]
) -> bool:
    """Whether the substituted equations are identities in normal form."""
    from .rewrite import ints

    return all(v in solution for v in unknowns) and all(
        ints(a, solution) is ints(b, solution) for a, b in equations
    )
