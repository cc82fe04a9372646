"""Nodes that `benchmarks.onnx_fuzz` found to be imported wrongly, or to raise."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.formats.from_onnx import from_model
from opinfo.frontend.onnx_graph.legality import contradicts_types
from opinfo.frontend.onnx_graph.values import TensorValue, constant

from .against_runtime import compare, floats, model

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")


@pytest.mark.parametrize("dtype", ["uint8", "uint64", "int8"])
def test_the_sign_of_integers(dtype: str) -> None:
    x = np.array([0, 1, 2, 127, 255], "uint8").astype(dtype)
    compare(model([helper.make_node("Sign", ["x"], ["y"])], {"x": ((5,), dtype)}), {"x": x})


@pytest.mark.parametrize("mode", ["VALID", "SAME_UPPER", "SAME_LOWER", "NOTSET"])
def test_a_transposed_convolution_of_a_requested_size(mode: str) -> None:
    """By ONNX, `output_shape` decides whatever `auto_pad` is."""
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], auto_pad=mode,
                            output_shape=[8], strides=[3])  # fmt: skip
    proto = model([node], {"x": ((1, 2, 4), "float32")}, weights={"w": floats(2, 1, 3)})
    compare(proto, {"x": floats(1, 2, 4)})


def test_equal_bools() -> None:
    inputs = {"a": ((2, 3), "bool"), "b": ((3,), "bool")}
    a, b = np.array([[True, False, True], [False, False, True]]), np.array([True, False, False])
    compare(model([helper.make_node("Equal", ["a", "b"], ["y"])], inputs), {"a": a, "b": b})


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_quotients_by_the_number_zero(zero: float) -> None:
    x = np.array([0, 1, -2, np.inf, np.nan], "float32")
    proto = model([helper.make_node("Div", ["x", "c"], ["y"])], {"x": ((5,), "float32")},
                  weights={"c": np.array(zero, "float32")})  # fmt: skip
    mod = from_model(proto, {})
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(opinfo.compile(mod, []).run(x), x / np.float32(zero))


def test_layer_normalization_of_doubles() -> None:
    weights = {"s": floats(4).astype("float64"), "b": floats(4, seed=1).astype("float64")}
    node = helper.make_node("LayerNormalization", ["x", "s", "b"], ["y"])
    proto = model([node], {"x": ((3, 4), "float64")}, weights=weights)
    compare(proto, {"x": floats(3, 4, seed=2).astype("float64")}, tolerance=1e-12)


@pytest.mark.parametrize(
    ("opset", "dtype", "expected"),
    [(18, "float32", False), (18, "float64", True), (13, "float32", True)],
)
def test_only_what_onnx_confirms_is_folded(opset: int, dtype: str, expected: bool) -> None:
    """Operator set 13 has no Mish, so ONNX infers nothing there."""
    node, x = helper.make_node("Mish", ["x"], ["y"]), floats(3)
    assert contradicts_types(node, [constant(x)], [x.astype(dtype)], opset) is expected


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize(("op", "dtype"), [("ArgMax", "uint8"), ("ArgMax", "int32"),
                                           ("ArgMin", "int8"), ("ArgMin", "int64")])  # fmt: skip
def test_places_of_integers_that_all_are_the_limit(op: str, dtype: str, last: int) -> None:
    limit = np.iinfo(dtype).min if op == "ArgMax" else np.iinfo(dtype).max
    node = helper.make_node(op, ["x"], ["y"], axis=1, select_last_index=last)
    x = np.full((3, 4), limit, dtype)
    x[1, 2], x[2] = 5, [1, 7, 7, 1]
    mod = from_model(model([node], {"x": (("n", 4), dtype)}), {})
    extreme = np.max if op == "ArgMax" else np.min
    where = [np.flatnonzero(row == extreme(row)) for row in x]
    expected = [[places[-1] if last else places[0]] for places in where]
    np.testing.assert_array_equal(opinfo.compile(mod, []).run(x), expected)


@pytest.mark.parametrize("sizes", [(5,), (4, 5)])
def test_a_transposed_convolution_with_dilations(sizes: tuple[int, ...]) -> None:
    rank = len(sizes)
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], dilations=[2, 3][:rank],
                            strides=[2, 1][:rank], pads=[1] * (2 * rank), group=2)  # fmt: skip
    weights = {"w": floats(4, 3, *[2, 3][:rank])}
    proto = model([node], {"x": (("n", 4, *sizes), "float32")}, weights=weights)
    compare(proto, {"x": floats(2, 4, *sizes)}, {"x": floats(1, 4, *sizes, seed=1)})


def test_powers_of_constants_are_those_of_inputs() -> None:
    """The power 0.5 of -inf is inf by IEEE 754, its root is NaN."""
    x = np.array([-np.inf, -0.0, 4], "float32")
    weights = {"c": x, "e": np.array(0.5, "float32")}
    proto = model([helper.make_node("Pow", ["c", "e"], ["y"])], {}, weights=weights)
    np.testing.assert_array_equal(opinfo.compile(from_model(proto, {}), []).run(), [np.inf, 0, 2])


def test_a_range_of_vectors_of_one_element_is_folded() -> None:
    """ONNX says scalars; its own function of `AffineGrid` has vectors, which runtimes take."""
    node = helper.make_node("Range", ["start", "limit", "delta"], ["y"])
    ends: list[TensorValue | None] = [constant(np.array([v], "float32")) for v in (1, 11, 2)]
    assert not contradicts_types(node, ends, [np.arange(1, 11, 2, dtype="float32")], 18)
