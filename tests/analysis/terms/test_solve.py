"""The equation solver: what it says about an unknown is true at every point."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opinfo.analysis.solving.integer_equations import solve
from opinfo.analysis.terms.evaluate import evaluate
from opinfo.analysis.terms.integer import floordiv, floormod
from opinfo.analysis.terms.term import Int, Var, as_int, integer, size, variable
from opinfo.analysis.terms.term.exclusive_or import xor

Fn = Callable[..., Sequence[Int]]
N = size("n")


def _div(a: Int, k: int) -> Int:
    return floordiv(a, integer(k))


def _mod(a: Int, k: int) -> Int:
    return floormod(a, integer(k))


def _equations(fn: Fn, extents: Sequence[int]) -> tuple[list[Var], list[Var], list[Int]]:
    xs = [variable("axis", f"x{k}", integer(e)) for k, e in enumerate(extents)]
    results = list(fn(*map(as_int, xs)))
    ys = [variable("free", f"y{k}") for k in range(len(results))]
    return xs, ys, results


def _assert_true_everywhere(fn: Fn, extents: Sequence[int]) -> dict[Var, Int]:
    """Whatever is solved holds at every point."""
    xs, ys, results = _equations(fn, extents)
    found = solve(xs, [(r, as_int(y)) for r, y in zip(results, ys, strict=True)])
    for point in itertools.product(*map(range, extents)):
        env = {v: np.asarray(k) for v, k in zip(xs, point, strict=True)}
        image = {y: evaluate(r, env) for y, r in zip(ys, results, strict=True)}
        for v, value in found.items():
            assert int(evaluate(value, image)) == int(env[v]), (point, v, value)
    return found


@pytest.mark.parametrize(
    ("fn", "extents"),
    [
        (lambda i: (_div(i, 4), _mod(i, 4)), (12,)),
        (lambda i: (_mod(i, 3), _mod(i, 5)), (15,)),
        (lambda i: (_mod(i, 2), _mod(i, 3), _mod(i, 5)), (30,)),
        (lambda i: (_mod(i, 4), _mod(i, 6)), (12,)),
        (lambda i: (_mod(i + 3, 10),), (10,)),
        (lambda i: (_mod(i * 7 + 3, 10),), (10,)),
        (lambda i: (_div(integer(9) - i, 5), _mod(integer(9) - i, 5)), (10,)),
        (lambda i, j: (_mod(i + j, 5), _mod(i + j * 2, 5)), (5, 5)),
        (lambda i, j: (i + j, i + j * 2), (5, 5)),
        (lambda i: (_mod(i, 4), _div(i, 2)), (8,)),
        (lambda i, j: (i, xor(j, _mod(i, 8))), (16, 8)),
        (lambda i, j: (i, xor(_div(j, 4), _mod(i, 8)) * 4 + _mod(j, 4)), (10, 32)),
        (lambda h, w: (_mod(h, 2) * 2 + _mod(w, 2), _div(h, 2), _div(w, 2)), (4, 6)),
        (lambda i, j: (_div(i * 5 + j, 2), _mod(i * 5 + j, 2)), (4, 5)),
        (lambda i: (_div(_mod(i + 3, 8), 2), _mod(i + 3, 2)), (8,)),
    ],
)
def test_solved_at_every_point(fn: Fn, extents: tuple[int, ...]) -> None:
    found = _assert_true_everywhere(fn, extents)
    assert len(found) == len(extents)


def test_what_is_not_determined_is_absent() -> None:
    xs, ys, results = _equations(lambda i, j: (i,), (4, 4))
    found = solve(xs, [(results[0], as_int(ys[0]))])
    assert set(found) == {xs[0]}


def test_digits_of_a_symbolic_radix() -> None:
    i, j = variable("axis", "i", size("m")), variable("axis", "j", N)
    y = variable("free", "y")
    found = solve([i, j], [(as_int(i) * N + as_int(j), as_int(y))])
    assert found[i] is floordiv(as_int(y), N)


_STEPS: list[Callable[[Int, int], Int]] = [
    lambda a, k: a + k,
    lambda a, k: a * (k % 5 + 1),
    lambda a, k: _div(a, k % 5 + 1),
    lambda a, k: _mod(a, k % 7 + 1),
    lambda a, k: integer(k) - a,
    lambda a, k: xor(a, integer(k)),
]


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=3),
        min_size=1,
        max_size=3,
    )
)
@settings(max_examples=150, deadline=None)
def test_consequences_are_necessary(recipes: list[list[tuple[int, int]]]) -> None:
    def fn(i: Int, j: Int) -> list[Int]:
        out = []
        for n, recipe in enumerate(recipes):
            a = (i * 6 + j, i, i + j)[n]
            for step, k in recipe:
                a = _STEPS[step](a, k)
            out.append(a)
        return out

    found = _assert_true_everywhere(fn, (4, 6))
    assert len(found) <= 2
