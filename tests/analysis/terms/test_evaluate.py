"""Terms evaluated with numpy."""

from __future__ import annotations

import numpy as np
import pytest

from opinfo.analysis.terms.condition_terms import eq0, ge0, ite
from opinfo.analysis.terms.evaluate import Unevaluable, evaluate
from opinfo.analysis.terms.integer import floordiv, floormod
from opinfo.analysis.terms.interval import fits_int64, interval, magnitude
from opinfo.analysis.terms.scalar import extreme
from opinfo.analysis.terms.term import (
    ZERO,
    Int,
    TensorVar,
    Var,
    as_int,
    const,
    integer,
    load,
    raw_call,
    raw_reduce,
    size,
    variable,
)
from opinfo.analysis.terms.term.exclusive_or import xor

X = variable("axis", "x", integer(10))
Y = variable("axis", "y", integer(4))
GRID = {X: np.arange(10).reshape(-1, 1), Y: np.arange(4).reshape(1, -1)}
x, y = as_int(X), as_int(Y)


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (x * 3 - y, GRID[X] * 3 - GRID[Y]),
        (floordiv(x * 3 - 7, integer(4)), (GRID[X] * 3 - 7) // 4),
        (floormod(x * 3 - 7 + y, integer(4)), (GRID[X] * 3 - 7 + GRID[Y]) % 4),
        (extreme("max", x, y * 2), np.maximum(GRID[X], GRID[Y] * 2)),
        (ite(ge0(x - y), x, y), np.where(GRID[X] >= GRID[Y], GRID[X], GRID[Y])),
        (eq0(x - y), GRID[X] == GRID[Y]),
        (xor(x, y, integer(5)), GRID[X] ^ GRID[Y] ^ 5),
        (x * y, GRID[X] * GRID[Y]),
    ],
)
def test_integer_terms(term: Int, expected: np.ndarray) -> None:
    got = np.broadcast_to(evaluate(term, GRID), (10, 4))
    np.testing.assert_array_equal(got, np.broadcast_to(expected, (10, 4)))


def test_a_reduction_over_loads() -> None:
    t = TensorVar("t", (integer(10), integer(4)), "float32")
    data = np.random.default_rng(0).random((10, 4), dtype=np.float32)
    body = load(t, (x, y))
    total = raw_reduce("add", (Y,), body, const(0.0, "float32"), "float32")
    got = evaluate(total, {X: np.arange(10)}, lambda tensor, at: data[at])
    np.testing.assert_allclose(got, data.sum(axis=1), rtol=1e-6)


def test_a_reduction_over_several_axes_and_an_outer_grid() -> None:
    a, b = variable("loop", "a", integer(3)), variable("loop", "b", integer(5))
    total = raw_reduce("max", (a, b), as_int(a) * 10 + as_int(b) + x, integer(-1), "int64")
    np.testing.assert_array_equal(evaluate(total, {X: np.arange(10)}), np.arange(10) + 24)


def test_floats_keep_their_type() -> None:
    values = np.linspace(-2, 2, 7, dtype=np.float32)
    t = TensorVar("t", (integer(7),), "float32")
    for op, fn in (("exp", np.exp), ("tanh", np.tanh), ("abs", np.abs)):
        got = evaluate(
            raw_call(op, (load(t, (x,)),), "float32"), {X: np.arange(7)}, lambda _, at: values[at]
        )
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, fn(values))


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (as_int(variable("free", "z")), "no value"),
        (raw_call("mystery", (), "int"), "with numpy"),
        (load(TensorVar("t", (integer(1),), "float32"), (ZERO,)), "no tensors"),
    ],
)
def test_what_cannot_be_evaluated_says_why(term: Int, message: str) -> None:
    with pytest.raises(Unevaluable, match=message):
        evaluate(term, {})


@pytest.mark.parametrize("term", [x * 3 - y * 2, floordiv(x - 20, integer(3)), xor(x, y), x * y])
def test_intervals_hold_every_value(term: Int) -> None:
    values = evaluate(term, GRID)
    found = interval(term)
    assert found is not None
    assert found[0] <= values.min() and values.max() <= found[1]


def test_magnitude_counts_intermediate_values() -> None:
    huge = floordiv(x * (1 << 40) + y, integer(1 << 35))
    assert (magnitude(huge) or 0) >= 9 << 5
    assert not fits_int64(x * (1 << 60))
    assert interval(x * as_int(size("n"))) is None


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (xor(x, x), ZERO),
        (xor(x, y, x), y),
        (xor(x, integer(3), integer(5)), xor(integer(6), x)),
        (xor(xor(x, y), integer(0)), xor(y, x)),
    ],
)
def test_exclusive_or_has_a_normal_form(one: Int, two: Int) -> None:
    assert one is two


def test_variables_are_values() -> None:
    assert isinstance(X, Var)
    assert variable("axis", "x", integer(10)) is X
