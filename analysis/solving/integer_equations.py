"""Solve integer equations for loop variables: ``index(v) = y`` gives ``v`` in terms of ``y``.

Every step is a necessary consequence of the equations and the variables' domains, so the result is
the only possible solution. The caller proves by substitution that it is one.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from ..terms.integer import floordiv
from ..terms.order import bounds, nonneg, positive
from ..terms.quotient import divide, divides, is_div
from ..terms.term import (
    ONE,
    ZERO,
    CallTerm,
    Int,
    Mono,
    Term,
    Var,
    as_int,
    mul,
    polynomial,
    variable,
)
from ..terms.term.exclusive_or import xor
from ..terms.traversal import free, ints, rebuild, subterms
from .congruence import congruences, eliminate
from .remainder import Remainder, remainder

MAX_ROUNDS = 12


def solve(unknowns: Sequence[Var], equations: Sequence[tuple[Int, Int]]) -> dict[Var, Int]:
    """Return the unknowns' values over everything else in the equations; unsolved are absent."""
    state = _OpenEquations(frozenset(unknowns), [a - b for a, b in equations])
    state.split()
    while (state.pending and state.step()) or state.jointly():
        pass
    return {v: poly for v in unknowns if (poly := state.value(v)) is not None}


class _OpenEquations:
    """The equations that are still to be solved, and the variables that are solved for."""

    def __init__(self, unknowns: frozenset[Var], equations: list[Int]) -> None:
        self.unknowns = unknowns
        self.pending = equations
        self.solved: dict[Term, Int] = {}
        self.digit_of: dict[Var, Int] = {}
        self.tried: set[Int] = set()
        self.expanded: set[Term] = set()
        self.rounds = 0

    def split(self) -> None:
        """Turn unknowns with quotients into digits: ``v = 4*q + d`` for ``v // 4``."""
        for _ in range(MAX_ROUNDS):
            pair = radix(self.pending, self.unknowns - self.digit_of.keys())
            if pair is None:
                return
            var, den = pair
            assert var.extent is not None
            high = variable("loop", f"{var.name}/{den.uid}", floordiv(var.extent - 1, den) + 1)
            low = variable("loop", f"{var.name}%{den.uid}", den)
            self.unknowns |= {high, low}
            self.digit_of[var] = mul(den, as_int(high)) + as_int(low)
            self.pending = [ints(p, {var: self.digit_of[var]}) for p in self.pending]

    def value(self, var: Var) -> Int | None:
        """Return the value of an unknown, through its digits; None if not solved."""
        if var not in self.digit_of:
            return self.solved.get(var)
        digits = free(self.digit_of[var]) & self.unknowns
        values = {d: self.value(d) for d in digits}
        if any(k is None for k in values.values()):
            return None
        return ints(self.digit_of[var], {d: k for d, k in values.items() if k is not None})

    def step(self) -> bool:
        """Process the pending equations once; return False if nothing was learnt."""
        work, self.pending, progress = self.pending, [], False
        for equation in work:
            poly = self.substitute(equation)
            unknown = polynomial({m: c for m, c in poly.terms if self.is_unknown(m)})
            if unknown is ZERO:
                continue
            if self.learn(unknown, unknown - poly):
                progress = True
            else:
                self.pending.append(poly)
                progress |= poly is not equation
        return progress

    def jointly(self) -> bool:
        """Derive consequences of several equations, when no single one yields more."""
        self.rounds += 1
        if self.rounds > MAX_ROUNDS:
            return False
        self.pending = [self.substitute(p) for p in self.pending]
        equations = self.unfolded() or self.remainders()
        if not equations and not self.eliminated():
            equations = congruences(self.pending, self.is_unknown, {*self.tried, *self.pending})
            self.tried.update(equations)
            equations = equations or self.units()
            self.pending += equations
            return bool(equations)
        self.pending += equations
        return True

    def units(self) -> list[Int]:
        """Turn remainders into unknowns: ``m*i + x % m = y`` becomes ``m*i + r = y``."""
        new: dict[Var, Int] = {}
        for n, poly in enumerate(self.pending):
            current, out = poly, ZERO
            while (part := remainder(current, self.is_part)) is not None:
                coef, num, den, shorter = part
                digit = variable("loop", f"{num.uid}%{den.uid}", den)
                if digit not in new:
                    if digit in self.unknowns or not any(self.is_unknown(m) for m, _ in num.terms):
                        break
                    new[digit] = num - mul(den, floordiv(num, den)) - as_int(digit)
                current, out = shorter, out + mul(coef, as_int(digit))
            self.pending[n] = current + out
        self.unknowns |= new.keys()
        return list(new.values())

    def is_part(self, candidate: Remainder) -> bool:
        """Return whether something unknown remains beside the remainder."""
        return any(self.is_unknown(m) for m, _ in candidate.others.terms)

    def eliminated(self) -> bool:
        """Derive a value from a combination of the pending equations; return whether one did."""
        for poly in eliminate(self.pending, self.is_unknown):
            if poly in self.tried or poly in self.pending:
                continue
            self.tried.add(poly)
            unknown = polynomial({m: c for m, c in poly.terms if self.is_unknown(m)})
            if unknown is not ZERO and self.learn(unknown, unknown - poly):
                return True
        return False

    def learn(self, unknown: Int, value: Int) -> bool:
        """Derive what a single equation implies; it may leave simpler ones pending."""
        return self.single(unknown, value) or self.digits(unknown, value)

    def unfolded(self) -> list[Int]:
        """Return ``a = y ^ b`` for ``a ^ b = y`` once b is known."""
        equations = []
        for term, value in self.solved.items():
            if not (isinstance(term, CallTerm) and term.op == "bitxor"):
                continue
            args = [self.substitute(as_int(a)) for a in term.args]
            unknown = [a for a in args if any(self.is_unknown(m) for m, _ in a.terms)]
            if len(unknown) == 1:
                equations.append(unknown[0] - xor(value, *(a for a in args if a is not unknown[0])))
        equations = [p for p in equations if p not in self.tried]
        self.tried.update(equations)
        return equations

    def remainders(self) -> list[Int]:
        """Return ``x = d*k + r`` for ``x // d = k``, with a new unknown r in ``[0, d)``."""
        equations = []
        for term, value in list(self.solved.items()):
            if is_div(term) and term not in self.expanded:
                self.expanded.add(term)
                num, den = (self.substitute(as_int(a)) for a in term.args)  # type: ignore[attr-defined]
                if any(self.is_unknown(m) for m, _ in num.terms):
                    digit = variable("loop", f"%{term.uid}", den)
                    self.unknowns |= {digit}
                    equations.append(num - mul(den, value) - as_int(digit))
        return equations

    def is_unknown(self, mono: Mono) -> bool:
        return any(not self.unknowns.isdisjoint(free(a)) for a in mono)

    def substitute(self, poly: Int) -> Int:
        if not self.solved:
            return poly
        memo: dict[Term, Term] = {}

        def go(term: Term) -> Term:
            if term in self.solved:
                return self.solved[term]
            if (coarser := self.coarser(term)) is not None:
                return coarser
            if self.unknowns.isdisjoint(free(term)) or isinstance(term, Var):
                return term
            result = memo.get(term)
            if result is None:
                result = memo[term] = rebuild(term, go)
            return result

        return as_int(go(poly))

    def coarser(self, term: Term) -> Int | None:
        """Return ``k // e`` for ``x // (c*e)`` if ``x // c = k`` is known."""
        if not is_div(term):
            return None
        num, den = term.args  # type: ignore[attr-defined]
        for quotient, value in self.solved.items():
            if is_div(quotient) and quotient.args[0] is num:  # type: ignore[attr-defined]
                factor, remaining = divide(den, as_int(quotient.args[1]))  # type: ignore[attr-defined]
                if remaining is ZERO and positive(factor):
                    return floordiv(value, factor)
        return None

    def single(self, unknown: Int, value: Int) -> bool:
        """Solve ``c * atom = value``."""
        if len(unknown.terms) != 1:
            return False
        mono, coef = unknown.terms[0]
        atoms = [a for a in mono if not self.unknowns.isdisjoint(free(a))]
        if len(atoms) != 1 or atoms[0] in self.solved:
            return False
        others = list(mono)
        others.remove(atoms[0])
        factor = polynomial({tuple(others): abs(coef)})
        self.solved[atoms[0]] = floordiv(value if coef > 0 else -value, factor)
        return True

    def digits(self, unknown: Int, value: Int) -> bool:
        """Split ``g * big + small = value`` with ``small`` in a window of g into two equations."""
        for poly, big in (*self.radices(unknown), *self.sums(unknown)):
            small = unknown - big
            if small is ZERO:
                self.pending.append(divide(big, poly)[0] - floordiv(value, poly))
                return True
            lo, hi = bounds(small)
            if lo is None or hi is None or not nonneg(poly - 1 - hi + lo):
                continue
            quotient = floordiv(value - lo, poly)
            self.pending.append(divide(big, poly)[0] - quotient)
            self.pending.append(small - (value - poly * quotient))
            return True
        return False

    def radices(self, unknown: Int) -> list[tuple[Int, Int]]:
        """Return possible radices of one term, each with the part that it divides."""
        divisors: dict[Int, None] = {}
        for mono, coef in unknown.terms:
            sizes = tuple(a for a in mono if isinstance(a, Var) and a.kind == "size")
            poly = polynomial({sizes: abs(coef)})
            if poly is not ONE:
                divisors[poly] = None
        return [
            (p, polynomial({m: c for m, c in unknown.terms if divides(p, m, c)})) for p in divisors
        ]

    def sums(self, unknown: Int) -> list[tuple[Int, Int]]:
        """Return the factors of unknowns that are sums, ``(n // b + 1) * 1024``, as radices."""
        factors: dict[Term, dict[Mono, int]] = {}
        for mono, coef in unknown.terms:
            inside = [a for a in mono if not self.unknowns.isdisjoint(free(a))]
            if len(inside) == 1 and inside[0] not in self.solved:
                others = list(mono)
                others.remove(inside[0])
                factors.setdefault(inside[0], {})[tuple(others)] = coef
        found = ((a, polynomial(terms)) for a, terms in factors.items() if len(terms) > 1)
        return [(p, mul(p, as_int(a))) for a, p in found if positive(p)]


def radix(equations: Sequence[Int], unknowns: Container[Var]) -> tuple[Var, Int] | None:
    """Return an unknown with quotients, and a divisor that divides the others and its extent."""
    divisors: dict[Var, dict[Int, None]] = {}
    for poly in equations:
        for term in subterms(poly):
            if is_div(term):
                num, den = map(as_int, term.args)  # type: ignore[attr-defined]
                if isinstance(var := num.atom, Var) and var in unknowns and var.extent is not None:
                    divisors.setdefault(var, {})[den] = None
    for var, candidates in divisors.items():
        for divisor in candidates:
            assert var.extent is not None
            if var.extent is not divisor and all(
                divide(multiple, divisor)[1] is ZERO for multiple in (*candidates, var.extent)
            ):
                return var, divisor
    return None
