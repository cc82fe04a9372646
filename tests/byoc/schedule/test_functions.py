"""Functions of float32 that are written out, against the C library in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relax, tirx
from tvm.target.codegen import target_has_features

from opinfo.byoc.schedule.nest.vector_functions import FunctionExpander, vectorizable

from .fused import TARGET, built, fused_one, run, scheduled

op = relax.op
Function = Callable[[float], float]


def sigmoid(v: float) -> float:
    return 1 / (1 + math.exp(-v))


#: Units in the last place; without a fused multiply-add each product is rounded once more.
CASES: dict[str, tuple[Any, Function, float]] = {
    "exp": (op.exp, math.exp, 1),
    "erf": (op.erf, math.erf, 6),
    "tanh": (op.tanh, math.tanh, 4 if target_has_features("fma", TARGET) else 5),
    "sigmoid": (op.sigmoid, sigmoid, 3),
}
INPUTS = np.concatenate([
    np.linspace(-80, 80, 4001), np.linspace(-5, 5, 4001), np.linspace(-1e-3, 1e-3, 501),
    np.logspace(-30, 0, 61), [88.72, 0.0],
]).astype("float32")  # fmt: skip


def values(function: Any, given: Any) -> Any:
    func = fused_one([[len(given)]], lambda emit, x: function(x))
    found = scheduled(func)
    assert "T.vectorized" in found.func.script() and "T.unroll(T.int64(16))" not in str(found.func)
    (got,) = run(built(found.func), [given, np.zeros_like(given)])
    return got


@pytest.mark.parametrize("name", CASES)
def test_units_in_the_last_place(name: str) -> None:
    function, oracle, units = CASES[name]
    got = values(function, INPUTS)
    expected = np.array([oracle(float(v)) for v in INPUTS])
    inside = np.abs(expected) > 1e-36  # smaller ones may be 0
    last = np.spacing(np.abs(expected).astype("float32")).astype("float64")
    error = np.abs(got.astype("float64") - expected) / last
    assert error[inside].max() <= units
    assert np.abs(got[~inside]).max(initial=0) <= 1e-36


def test_at_the_ends() -> None:
    nan, inf = math.nan, math.inf
    given = np.array([nan, inf, -inf, 89, -104, -87.4, 200, -200] * 8, "float32")
    with np.errstate(over="ignore"):
        expected = np.exp(given)
    np.testing.assert_allclose(values(op.exp, given), expected, rtol=1e-6, atol=1e-37)
    for function, oracle in ((op.tanh, np.tanh), (op.erf, np.sign)):
        np.testing.assert_allclose(values(function, given), oracle(given), rtol=1e-6)
    expected = np.where(np.isnan(given), nan, given > 0)
    np.testing.assert_allclose(values(op.sigmoid, given), expected, rtol=1e-6, atol=1e-36)


def test_what_is_guarded_stays_a_call() -> None:
    """Its argument is not an element where the guard does not hold."""
    i, x = tirx.Var("i", "int32"), tirx.decl_buffer([4], "float32")
    guarded = tirx.if_then_else(i < 4, tirx.exp(tirx.BufferLoad(x, [i])), tirx.const(0.0))
    expand = FunctionExpander()
    assert expand(guarded).same_as(guarded) and not expand.bindings
    assert not vectorizable(guarded, i) and vectorizable(guarded, None)
    plain = FunctionExpander()
    assert not plain(tirx.erf(tirx.BufferLoad(x, [i]))).same_as(guarded) and plain.bindings
