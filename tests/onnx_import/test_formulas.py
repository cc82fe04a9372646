"""Reductions, activations and quotients of all dtypes and parameters, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import helper

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats.from_onnx import from_model
from tests.models.weights import Array

from .against_runtime import compare, floats, model

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
INF, NAN = np.float32("inf"), np.float32("nan")
LEAST = np.iinfo("int32").min
REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
              "ReduceLogSum", "ReduceLogSumExp")  # fmt: skip


def several(nodes: Sequence[Any], inputs: Any, weights: Any = None, opset: int = 18) -> Any:
    """A model whose outputs are those of all nodes."""
    return model(nodes, inputs, [node.output[0] for node in nodes], weights, opset)


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_reductions(dtype: str) -> None:
    nodes = [helper.make_node(op, ["x", "axes"], [op], keepdims=0) for op in REDUCTIONS]
    x = np.random.default_rng(0).integers(1, 9, (2, 3, 4)).astype(dtype)
    axes = {"axes": np.array([-1, 0])}
    compare(several(nodes, {"x": ((2, "n", 4), dtype)}, axes), {"x": x}, tolerance=1e-9)


def test_a_mean_of_integers_along_an_axis_that_is_empty_in_a_call() -> None:
    """The division by 0 would end the process; ONNX Runtime has 0 too."""
    node = helper.make_node("ReduceMean", ["x"], ["y"], axes=[1])
    proto = several([node], {"x": ((2, "n"), "int32")}, opset=13)
    compiled = opinfo.compile(from_model(proto, {}), [])
    np.testing.assert_array_equal(compiled.run(np.zeros((2, 0), "int32")), [[0], [0]])
    x = np.array([[5, 2], [-3, -4]], "int32")
    np.testing.assert_array_equal(compiled.run(x), [[3], [-3]])


def test_reductions_over_no_axes_are_of_each_element() -> None:
    nodes = [helper.make_node(op, ["x"], [op], noop_with_empty_axes=1) for op in REDUCTIONS]
    x = np.array([-3.5, 2, 0.25], "float32")
    got = opinfo.compile(from_model(several(nodes, {"x": ((3,), "float32")}), {}), []).run(x)
    with np.errstate(invalid="ignore"):
        expected = [x, x, x, abs(x), abs(x), x * x, np.log(x), x]
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_the_axes_of_sums_are_an_input_earlier_than_those_of_means() -> None:
    nodes = [helper.make_node("ReduceSum", ["x", "axes"], ["sum"]),
             helper.make_node("ReduceMean", ["x"], ["mean"], axes=[0])]  # fmt: skip
    proto = several(nodes, {"x": ((2, 3), "float32")}, {"axes": np.array([0])}, opset=14)
    compare(proto, {"x": floats(2, 3)})


def test_a_logarithm_of_sums_of_infinities() -> None:
    node = helper.make_node("ReduceLogSumExp", ["x"], ["y"], axes=[1], keepdims=0)
    x = np.array([[-INF, -INF], [-INF, 1], [INF, 1], [900, 900], [NAN, 1]], "float32")
    got = opinfo.compile(from_model(model([node], {"x": ((5, 2), "float32")}), {}), []).run(x)
    np.testing.assert_allclose(got, [-INF, 1, INF, 900 + np.log(2), NAN], rtol=1e-6)


ACTIVATIONS: list[tuple[str, dict[str, Any]]] = [
    ("Elu", {"alpha": -0.5}), ("Selu", {}), ("Selu", {"alpha": 0.5, "gamma": -2.0}),
    ("ThresholdedRelu", {"alpha": -1.0}), ("Shrink", {"lambd": -0.5, "bias": 0.25}),
    ("Shrink", {"lambd": 0.5, "bias": 0.25}), ("Hardmax", {"axis": 0}),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_activations_of_infinities_and_nan(dtype: str) -> None:
    x = np.array([-INF, -2, -1, -0.25, 0, 0.75, 3, INF], dtype)
    nodes = [helper.make_node(op, ["x"], [f"y{k}"], **attrs)
             for k, (op, attrs) in enumerate(ACTIVATIONS)]  # fmt: skip
    got = opinfo.compile(from_model(several(nodes, {"x": ((8,), dtype)}), {}), []).run(x)
    for (op, attrs), y in zip(ACTIVATIONS, got, strict=True):
        np.testing.assert_allclose(y, FORMULAS[op](x, **attrs), rtol=1e-6, err_msg=op)
    unknown = opinfo.compile(from_model(several(nodes[:3], {"x": ((1,), dtype)}), {}), [])
    assert np.isnan(unknown.run(np.array([NAN], dtype))).all()


def elu(x: Array, alpha: float = 1.0) -> Array:
    with np.errstate(over="ignore"):
        return np.where(x < 0, alpha * (np.exp(x) - 1), x)


FORMULAS: dict[str, Any] = {
    "Elu": elu,
    "Selu": lambda x, alpha=1.6732632, gamma=1.0507010: gamma * elu(x, alpha),
    "ThresholdedRelu": lambda x, alpha: np.where(x > alpha, x, 0),
    "Shrink": lambda x, lambd, bias: np.where(
        x < -lambd, x + bias, np.where(x > lambd, x - bias, 0)),
    "Hardmax": lambda x, axis: np.eye(len(x))[np.argmax(x, axis)],
}  # fmt: skip


def test_the_largest_of_only_minus_infinity_is_the_first() -> None:
    nodes = [helper.make_node("Hardmax", ["x"], ["y"], axis=1)]
    x = np.array([[-INF, -INF], [-INF, -3], [2, 2]], "float32")
    for opset in (12, 13):
        proto = several(nodes, {"x": ((3, 2), "float32")}, opset=opset)
        got = opinfo.compile(from_model(proto, {}), []).run(x)
        np.testing.assert_array_equal(got, [[1, 0], [0, 1], [1, 0]])


def test_a_slope_of_a_symbolic_size() -> None:
    node = helper.make_node("PRelu", ["x", "s"], ["y"])
    inputs = {"x": ((2, "n"), "float32"), "s": ((1,), "float32")}
    compare(model([node], inputs), {"x": floats(2, 3), "s": floats(1, seed=1)})


@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_integers_are_divided_by_zero_as_numpy_does(dtype: str) -> None:
    nodes = [helper.make_node("Div", ["x", "y"], ["quotient"]),
             helper.make_node("Mod", ["x", "y"], ["rest"]),
             helper.make_node("Mod", ["x", "y"], ["signed"], fmod=1)]  # fmt: skip
    proto = several(nodes, {"x": ((6,), dtype), "y": ((6,), dtype)})
    x = np.array([7, 0, 5, 4, LEAST if dtype == "int32" else 9, 9]).astype(dtype)
    y = np.array([0, 0, 2, 3, -1, -1 if dtype == "int32" else 255]).astype(dtype)
    got = opinfo.compile(from_model(proto, {}), []).run(x, y)
    with np.errstate(divide="ignore", over="ignore"):
        expected = [np.array([0, 0, 2, 1, LEAST, -9]) if dtype == "int32" else [0, 0, 2, 1, 0, 0],
                    np.mod(x, y), np.fmod(x, y)]  # fmt: skip
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_integers_keep_their_dtype_and_bounds_of_64_bits() -> None:
    nodes = [helper.make_node("Clip", ["x", "low", "high"], ["y"])]
    limits = np.iinfo("int64")
    bounds = {"low": np.array(limits.min + 1), "high": np.array(limits.max - 1)}
    x = np.array([limits.min, -4, limits.max])
    compare(several(nodes, {"x": ((3,), "int64")}, bounds), {"x": x})


def test_an_index_on_a_new_axis() -> None:
    nodes = [helper.make_node("OneHot", ["i", "depth", "values"], ["y"], axis=1),
             helper.make_node("OneHot", ["i", "depth", "values"], ["z"])]  # fmt: skip
    inputs = {"i": ((2, "n"), "int64"), "values": ((2,), "float32")}
    proto = several(nodes, inputs, {"depth": np.array([3])})
    feed = {"i": np.array([[0, -1, 7], [2, -4, 1]]), "values": np.array([-1, 5], "float32")}
    compare(proto, feed)


def test_means_and_deviations() -> None:
    nodes = [helper.make_node("MeanVarianceNormalization", ["x"], ["y"], axes=[-1, 0])]
    x = floats(3, 2, 5) + 1000  # the difference of squares would round to 0 or less
    proto = several(nodes, {"x": ((3, 2, 5), "float32")})
    compare(proto, {"x": x}, tolerance=1e-3)
    tiny = x * np.float32(1e-12)  # as large as the deviation that ONNX's function adds
    compare(proto, {"x": tiny}, tolerance=1e-3)
    x[:, 1] = 3
    compare(proto, {"x": x}, tolerance=1e-3)  # 0 / 0


def test_parts_and_copies_without_elements() -> None:
    split = helper.make_node("Split", ["x", "sizes"], ["a", "b", "c"], axis=0)
    nodes = [split, helper.make_node("Tile", ["x", "none"], ["t"])]
    weights = {"sizes": np.array([0, 3, 0]), "none": np.array([2, 0])}
    proto = model(nodes, {"x": ((3, 2), "float32")}, ["a", "b", "c", "t"], weights)
    compare(proto, {"x": floats(3, 2)})


@pytest.mark.parametrize("sizes", [[1, 1], [-1, 4], [2, 2]])
def test_parts_that_do_not_add_up_are_refused(sizes: list[int]) -> None:
    node = helper.make_node("Split", ["x", "sizes"], ["a", "b"], axis=0, name="s")
    proto = model([node], {"x": ((3, 2), "float32")}, ["a", "b"], {"sizes": np.array(sizes)})
    with pytest.raises(FrontendError, match=r"node 's' .*(contradict|Mismatch)"):
        from_model(proto, {})


@pytest.mark.parametrize("op", ["Max", "Min"])
def test_limits_of_nan(op: str) -> None:
    nodes = [helper.make_node(op, ["x", "y"], ["a"]), helper.make_node(op, ["x", "c"], ["b"]),
             helper.make_node(op, ["c", "x", "y"], ["d"])]  # fmt: skip
    inputs = {"x": ((4,), "float32"), "y": ((4,), "float32")}
    proto = several(nodes, inputs, {"c": np.array(0.5, "float32")})
    compiled = opinfo.compile(from_model(proto, {}), [])
    x, y = np.array([NAN, 1, -1, NAN], "float32"), np.array([2, NAN, 3, NAN], "float32")
    combine = np.maximum if op == "Max" else np.minimum
    expected = [combine(x, y), combine(x, 0.5), combine(combine(x, y), 0.5)]
    for a, b in zip(compiled.run(x, y), expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_constants_are_folded_as_their_operator_set_says() -> None:
    nodes = [helper.make_node("Softmax", ["c"], ["s"], axis=1),
             helper.make_node("Add", ["x", "s"], ["y"])]  # fmt: skip
    x = {"x": ((2, 3, 4), "float32")}
    proto = model(nodes, x, weights={"c": floats(2, 3, 4, seed=1)}, opset=11)
    compare(proto, {"x": floats(2, 3, 4)})


def test_the_first_none_of_some_elements() -> None:
    node = helper.make_node("TopK", ["x", "k"], ["y", "i"], axis=0)
    inputs = {"x": ((3, "n"), "float32")}
    compare(model([node], inputs, ["y", "i"], {"k": np.array([0])}), {"x": floats(3, 2)})
