"""Solve integer equations for loop variables: ``index(v) = y`` gives ``v`` in terms of ``y``.

Every step is a necessary consequence of the equations and of the variables' domains, so a solution
found is the only one there can be; whether it *is* one, the caller proves by substituting it.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from ..terms.bits import xor
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
from ..terms.traversal import free, ints, rebuild, subterms
from .congruence import congruences, eliminate
from .remainder import Remainder, remainder

MAX_ROUNDS = 12


def solve(unknowns: Sequence[Var], equations: Sequence[tuple[Int, Int]]) -> dict[Var, Int]:
    """Values of the unknowns, over everything else in the equations; unsolved ones are absent."""
    state = _State(frozenset(unknowns), [a - b for a, b in equations])
    state.split()
    while (state.pending and state.step()) or state.jointly():
        pass
    return {v: k for v in unknowns if (k := state.value(v)) is not None}


class _State:
    def __init__(self, unknowns: frozenset[Var], equations: list[Int]) -> None:
        self.unknowns = unknowns
        self.pending = equations
        self.known: dict[Term, Int] = {}
        self.digit_of: dict[Var, Int] = {}
        self.tried: set[Int] = set()
        self.expanded: set[Term] = set()
        self.rounds = 0

    def split(self) -> None:
        """Unknowns of which quotients occur become digits: ``v = 4*q + d`` for ``v // 4``."""
        for _ in range(MAX_ROUNDS):
            found = radix(self.pending, self.unknowns - self.digit_of.keys())
            if found is None:
                return
            v, den = found
            assert v.extent is not None
            high = variable("loop", f"{v.name}/{den.uid}", floordiv(v.extent - 1, den) + 1)
            low = variable("loop", f"{v.name}%{den.uid}", den)
            self.unknowns |= {high, low}
            self.digit_of[v] = mul(den, as_int(high)) + as_int(low)
            self.pending = [ints(p, {v: self.digit_of[v]}) for p in self.pending]

    def value(self, v: Var) -> Int | None:
        """What is known of an unknown, through its digits."""
        if v not in self.digit_of:
            return self.known.get(v)
        digits = free(self.digit_of[v]) & self.unknowns
        values = {d: self.value(d) for d in digits}
        if any(k is None for k in values.values()):
            return None
        return ints(self.digit_of[v], {d: k for d, k in values.items() if k is not None})

    def step(self) -> bool:
        """One round over the pending equations; False when nothing was learnt."""
        work, self.pending, progress = self.pending, [], False
        for equation in work:
            p = self.substitute(equation)
            unknown = polynomial({m: c for m, c in p.terms if self.is_unknown(m)})
            if unknown is ZERO:
                continue
            if self.learn(unknown, unknown - p):
                progress = True
            else:
                self.pending.append(p)
                progress |= p is not equation
        return progress

    def jointly(self) -> bool:
        """Consequences of several equations, when no single one says more."""
        self.rounds += 1
        if self.rounds > MAX_ROUNDS:
            return False
        self.pending = [self.substitute(p) for p in self.pending]
        found = self.unfolded() or self.remainders()
        if not found and not self.eliminated():
            found = congruences(self.pending, self.is_unknown, {*self.tried, *self.pending})
            self.tried.update(found)
            found = found or self.units()
            self.pending += found
            return bool(found)
        self.pending += found
        return True

    def units(self) -> list[Int]:
        """Remainders become unknowns of their own: ``m*i + x % m = y`` is ``m*i + r = y``."""
        new: dict[Var, Int] = {}
        for n, p in enumerate(self.pending):
            rest, out = p, ZERO
            while (found := remainder(rest, self.is_part)) is not None:
                k, num, den, shorter = found
                digit = variable("loop", f"{num.uid}%{den.uid}", den)
                if digit not in new:
                    if digit in self.unknowns or not any(self.is_unknown(m) for m, _ in num.terms):
                        break
                    new[digit] = num - mul(den, floordiv(num, den)) - as_int(digit)
                rest, out = shorter, out + mul(k, as_int(digit))
            self.pending[n] = rest + out
        self.unknowns |= new.keys()
        return list(new.values())

    def is_part(self, r: Remainder) -> bool:
        """Whether something unknown is left beside the remainder."""
        return any(self.is_unknown(m) for m, _ in r.rest.terms)

    def eliminated(self) -> bool:
        """Whether some combination of the pending equations says something alone."""
        for p in eliminate(self.pending, self.is_unknown):
            if p in self.tried or p in self.pending:
                continue
            self.tried.add(p)
            unknown = polynomial({m: c for m, c in p.terms if self.is_unknown(m)})
            if unknown is not ZERO and self.learn(unknown, unknown - p):
                return True
        return False

    def learn(self, unknown: Int, value: Int) -> bool:
        """What one equation says alone; it may leave simpler ones pending."""
        return self.single(unknown, value) or self.digits(unknown, value)

    def unfolded(self) -> list[Int]:
        """``a ^ b = y`` gives ``a = y ^ b`` once b is known."""
        found = []
        for t, value in self.known.items():
            if not (isinstance(t, CallTerm) and t.op == "bitxor"):
                continue
            args = [self.substitute(as_int(a)) for a in t.args]
            unknown = [a for a in args if any(self.is_unknown(m) for m, _ in a.terms)]
            if len(unknown) == 1:
                found.append(unknown[0] - xor(value, *(a for a in args if a is not unknown[0])))
        found = [p for p in found if p not in self.tried]
        self.tried.update(found)
        return found

    def remainders(self) -> list[Int]:
        """``x // d = k`` gives ``x = d*k + r`` with a new unknown r in ``[0, d)``."""
        found = []
        for t, value in list(self.known.items()):
            if is_div(t) and t not in self.expanded:
                self.expanded.add(t)
                num, den = (self.substitute(as_int(a)) for a in t.args)  # type: ignore[attr-defined]
                if any(self.is_unknown(m) for m, _ in num.terms):
                    rest = variable("loop", f"%{t.uid}", den)
                    self.unknowns |= {rest}
                    found.append(num - mul(den, value) - as_int(rest))
        return found

    def is_unknown(self, mono: Mono) -> bool:
        return any(not self.unknowns.isdisjoint(free(a)) for a in mono)

    def substitute(self, p: Int) -> Int:
        if not self.known:
            return p
        memo: dict[Term, Term] = {}

        def go(t: Term) -> Term:
            if t in self.known:
                return self.known[t]
            if (coarser := self.coarser(t)) is not None:
                return coarser
            if self.unknowns.isdisjoint(free(t)) or isinstance(t, Var):
                return t
            found = memo.get(t)
            if found is None:
                found = memo[t] = rebuild(t, go)
            return found

        return as_int(go(p))

    def coarser(self, t: Term) -> Int | None:
        """``x // (c*e) = k // e`` where ``x // c = k`` is known."""
        if not is_div(t):
            return None
        num, den = t.args  # type: ignore[attr-defined]
        for other, value in self.known.items():
            if is_div(other) and other.args[0] is num:  # type: ignore[attr-defined]
                factor, rest = divide(den, as_int(other.args[1]))  # type: ignore[attr-defined]
                if rest is ZERO and positive(factor):
                    return floordiv(value, factor)
        return None

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
            big = polynomial({m: c for m, c in unknown.terms if divides(g, m, c)})
            small = unknown - big
            if small is ZERO:
                self.pending.append(divide(big, g)[0] - floordiv(value, g))
                return True
            lo, hi = bounds(small)
            if lo is None or hi is None or not nonneg(g - 1 - hi + lo):
                continue
            quotient = floordiv(value - lo, g)
            self.pending.append(divide(big, g)[0] - quotient)
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


def radix(equations: Sequence[Int], unknowns: Container[Var]) -> tuple[Var, Int] | None:
    """An unknown with quotients, and the one of their divisors that divides all others and its
    extent."""
    divisors: dict[Var, dict[Int, None]] = {}
    for p in equations:
        for t in subterms(p):
            if is_div(t):
                num, den = map(as_int, t.args)  # type: ignore[attr-defined]
                if isinstance(v := num.atom, Var) and v in unknowns and v.extent is not None:
                    divisors.setdefault(v, {})[den] = None
    for v, found in divisors.items():
        for d in found:
            assert v.extent is not None
            if v.extent is not d and all(divide(e, d)[1] is ZERO for e in (*found, v.extent)):
                return v, d
    return None
