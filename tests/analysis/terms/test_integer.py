"""The integer normal form says what the expression says, wherever its variables are."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from opinfo.analysis.terms.condition_terms import eq0, ge0
from opinfo.analysis.terms.evaluate import evaluate
from opinfo.analysis.terms.integer import floordiv, floormod
from opinfo.analysis.terms.order import bounds, nonneg
from opinfo.analysis.terms.scalar import extreme
from opinfo.analysis.terms.term import FALSE, TRUE, Int, Var, as_int, integer, mul, size, variable
from opinfo.analysis.terms.traversal import ints

EXTENTS = (1, 2, 3, 4, 6, 8)
VARIABLES = [variable("loop", f"v{e}", integer(e)) for e in EXTENTS]
N = size("n")


@dataclass(frozen=True)
class Both:
    """A term and the Python function it stands for."""

    term: Int
    at: Callable[[dict[Var, int]], int]

    def __repr__(self) -> str:
        return repr(self.term)


def _leaf(choice: int) -> Both:
    if choice < len(VARIABLES):
        v = VARIABLES[choice]
        return Both(as_int(v) if v.extent is not integer(1) else integer(0), lambda p: p[v])
    k = choice - len(VARIABLES) - 6
    return Both(integer(k), lambda p: k)


def _combine(parts: tuple[str, Both, Both, int]) -> Both:
    op, a, b, d = parts
    if op == "add":
        return Both(a.term + b.term, lambda p: a.at(p) + b.at(p))
    if op == "sub":
        return Both(a.term - b.term, lambda p: a.at(p) - b.at(p))
    if op == "scale":
        return Both(a.term * (d - 4), lambda p: a.at(p) * (d - 4))
    if op == "mul":
        return Both(mul(a.term, b.term), lambda p: a.at(p) * b.at(p))
    if op == "div":
        return Both(floordiv(a.term, integer(d)), lambda p: a.at(p) // d)
    if op == "mod":
        return Both(floormod(a.term, integer(d)), lambda p: a.at(p) % d)
    pick: Any = min if op == "min" else max
    term = extreme(op, a.term, b.term)
    return Both(term, lambda p: pick(a.at(p), b.at(p)))  # type: ignore[arg-type]


OPS = ["add", "sub", "scale", "mul", "div", "mod", "div", "mod", "min", "max"]
EXPRESSIONS = st.recursive(
    st.integers(0, len(VARIABLES) + 12).map(_leaf),
    lambda inner: st.tuples(st.sampled_from(OPS), inner, inner, st.integers(1, 12)).map(_combine),
    max_leaves=8,
)


def points() -> list[dict[Var, int]]:
    ranges = [range(e) for e in EXTENTS]
    every = list(itertools.product(*ranges))
    return [dict(zip(VARIABLES, p, strict=True)) for p in every[::7]]


POINTS = points()


@given(EXPRESSIONS)
@settings(max_examples=300, deadline=None)
def test_normal_form_has_the_same_values(e: Both) -> None:
    for p in POINTS:
        assert int(evaluate(e.term, p)) == e.at(p)


def test_the_bounds_of_a_varying_multiple_of_a_digit_are_over_sizes() -> None:
    k, x = (as_int(variable("loop", f"bounds{n}", integer(4))) for n in "kx")
    lo, hi = bounds(k * (x % 2))
    assert (lo, hi) == (integer(0), integer(3))


@given(EXPRESSIONS)
@settings(max_examples=300, deadline=None)
def test_bounds_hold(e: Both) -> None:
    lo, hi = bounds(e.term)
    values = [e.at(p) for p in POINTS]
    assert lo is None or (lo.const is not None and lo.const <= min(values))
    assert hi is None or (hi.const is not None and hi.const >= max(values))
    assert not nonneg(e.term) or min(values) >= 0


@given(EXPRESSIONS)
@settings(max_examples=300, deadline=None)
def test_conditions_hold_where_they_should(e: Both) -> None:
    at_least, zero = ge0(e.term), eq0(e.term)
    for p in POINTS:
        assert bool(evaluate(at_least, p)) == (e.at(p) >= 0)
        assert bool(evaluate(zero, p)) == (e.at(p) == 0)


@given(EXPRESSIONS, st.integers(1, 9), st.integers(1, 9))
@settings(max_examples=200, deadline=None)
def test_identities_are_one_object(e: Both, c: int, d: int) -> None:
    x, k, m = e.term, integer(c), integer(d)
    assert floordiv(x, k) * c + floormod(x, k) is x
    assert floordiv(x + integer(c * 5), k) is floordiv(x, k) + 5
    y = as_int(variable("loop", "y", integer(100)))
    assert floordiv(floordiv(y, k), m) is floordiv(y, integer(c * d))
    assert floormod(floormod(y, integer(c * d)), k) is floormod(y, k)


def test_symbolic_extents() -> None:
    y = variable("loop", "y", mul(N, integer(4)))
    x = variable("loop", "x", N)
    assert bounds(floordiv(as_int(y), N)) == (integer(0), integer(3))
    q = as_int(variable("loop", "q", integer(5)))
    assert floordiv(mul(q, N) + as_int(x), N) is q
    assert ge0(N - 1 - as_int(x)) is TRUE
    assert ge0(as_int(x) - N) is FALSE
    for n in (1, 2, 5):
        at = {v: integer(n) for v in (N.atom,) if isinstance(v, Var)}
        assert ints(floordiv(N * 4 + 3, integer(4)), at).const == n
