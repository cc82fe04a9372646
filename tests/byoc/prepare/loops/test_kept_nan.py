"""NaN stays in maxima and minima, and the sign of 0 where a constant limits a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.byoc.prepare.loops.kept_nan import kept_nan

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")

NAN, INF = float("nan"), float("inf")
X = np.array([NAN, -NAN, INF, -INF, -0.0, 0.0, 0.5, -3, 7, NAN, 1, 2], "float32")
LIMITED: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "relu": (relax.op.nn.relu, lambda x: np.where(x > 0, x, np.where(np.isnan(x), x, 0))),
    "clip": (lambda x: relax.op.clip(x, -1, 1), lambda x: np.clip(x, -1, 1)),
    "minimum": (lambda x: relax.op.minimum(x, relax.const(1.5)), lambda x: np.minimum(x, 1.5)),
}  # fmt: skip


def _module(build: Callable[[Any], Any]) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((12,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(builder.emit(build(x)))
        builder.emit_func_output(out)
    return builder.get()


@pytest.mark.parametrize("name", LIMITED)
def test_limits_keep_nan(name: str) -> None:
    build, oracle = LIMITED[name]
    got = opinfo.compile(_module(build), []).run(X)
    np.testing.assert_array_equal(got, oracle(X))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_the_extremes_of_two_tensors_keep_nan_of_both(dtype: str) -> None:
    def extremes(x: Any) -> Any:
        x = relax.op.astype(x, dtype)
        parts = [relax.op.maximum(x, relax.op.flip(x, 0)), relax.op.minimum(relax.op.flip(x, 0), x)]
        return relax.op.astype(relax.op.concat(parts), "float32")

    got = opinfo.compile(_module(extremes), []).run(X)
    expected = np.concatenate([np.maximum(X, X[::-1]), np.minimum(X, X[::-1])])
    np.testing.assert_array_equal(got, expected)


def test_a_reduction_stays() -> None:
    mod = relax.transform.LegalizeOps()(_module(lambda x: relax.op.max(x)))
    assert kept_nan(mod)["max"].same_as(mod["max"])


def test_a_place_that_is_limited_stays_inside() -> None:
    """A cast of NaN to an integer is outside of every tensor."""

    def resized(x: Any) -> Any:
        image = relax.op.reshape(x, (1, 1, 3, 4))
        return relax.op.image.resize2d(image, relax.ShapeExpr([6, 8]), layout="NCHW")

    mod = relax.transform.LegalizeOps()(_module(resized))
    resize = mod["resize2d"]
    assert 'T.Cast("int' in str(resize) and "T.min" in str(resize)
    assert kept_nan(mod)["resize2d"].same_as(resize)
