"""Caches that are written at positions, maxima with their positions, and half spectra."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats.from_onnx import from_model
from tests.models.weights import Array
from tests.onnx_import.against_runtime import Inputs, compare, floats, model
from tests.onnx_import.operators.against_reference import check, outputs

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")

make = helper.make_node


@pytest.mark.part
@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_cache_is_written(mode: str, dtype: str) -> None:
    node = make("TensorScatter", ["old", "new", "first"], ["y"], mode=mode)
    inputs: Inputs = {"old": (["b", 2, "m", 4], dtype), "new": (["b", 2, "s", 4], dtype),
                      "first": (["b"], "int64")}  # fmt: skip
    first = np.array([0, 3] if mode == "linear" else [4, 2])
    feed: dict[str, Array] = {"old": floats(2, 2, 5, 4).astype(dtype), "first": first,
                              "new": floats(2, 2, 2, 4, seed=1).astype(dtype)}  # fmt: skip
    check(model([node], inputs, opset=24), feed, 0)


def test_a_cache_is_written_at_its_start() -> None:
    node = make("TensorScatter", ["old", "new"], ["y"], axis=1)
    inputs: Inputs = {"old": (["b", 5, 4], "float32"), "new": (["b", "s", 4], "float32")}
    check(model([node], inputs, opset=24), {"old": floats(1, 5, 4), "new": floats(1, 2, 4)}, 0)


def test_an_axis_of_a_cache_is_named_by_its_own_number() -> None:
    inputs: Inputs = {"old": ([1, 2, 5, 4], "float32"), "new": ([1, 2, 2, 4], "float32")}
    proto = model([make("TensorScatter", ["old", "new"], ["y"], axis=-9)], inputs, opset=24)
    with pytest.raises(FrontendError, match=r"-9, expected -4 to 3"):
        from_model(proto, {})


POOLS: list[tuple[list[Any], dict[str, Any]]] = [
    (["n", 2, 6, 5], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ([1, 2, "h", "w"], {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]}),
    ([1, 2, 6, 5], {"kernel_shape": [2, 3], "storage_order": 1, "dilations": [2, 1]}),
    ([1, 2, 6, 5], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    ([2, 1, "w"], {"kernel_shape": [3], "auto_pad": "SAME_UPPER", "strides": [2]}),
    ([1, 1, 4, 3, 3], {"kernel_shape": [2, 2, 2]}),
]


@pytest.mark.parametrize(("dims", "attrs"), POOLS)
def test_maxima_with_positions(dims: list[Any], attrs: dict[str, Any]) -> None:
    node = make("MaxPool", ["x"], ["y", "i"], **attrs)
    proto = model([node], {"x": (dims, "float32")}, ["y", "i"])
    sizes = {"n": 2, "h": 6, "w": 7}
    compare(proto, {"x": floats(*(sizes.get(d, d) for d in dims))})


def test_maxima_go_back_to_their_places() -> None:
    """Of windows that do not meet; the first of two pools, as decoders of segmentation have."""
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [make("MaxPool", ["x"], ["p", "i"], **window),
             make("MaxUnpool", ["p", "i"], ["y"], **window)]  # fmt: skip
    proto = model(nodes, {"x": (["n", 2, "h", 6], "float32")})
    compare(proto, {"x": floats(2, 2, 4, 6)}, {"x": floats(1, 2, 6, 6)})


def test_places_of_another_shape_are_refused() -> None:
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [make("MaxUnpool", ["x", "i", "shape"], ["y"], name="back", **window)]
    proto = model(nodes, {"x": ([1, 1, 2, 2], "float32"), "i": ([1, 1, 2, 2], "int64")},
                  weights={"shape": np.array([1, 1, 5, 5])})  # fmt: skip
    with pytest.raises(FrontendError, match=r"back.*leave it out, and pad the result"):
        from_model(proto, {})


@pytest.mark.parametrize(("bins", "length"), [(5, None), (5, 9), (4, 10), (6, 8), (1, 1)])
def test_half_spectra(bins: int, length: int | None) -> None:
    """The inverse of half a spectrum is real; numpy's `irfft` is the oracle."""
    weights: dict[str, Array] = {"axis": np.array(1)}
    if length is not None:
        weights["length"] = np.array(length)
    names = ["x", "length" if length is not None else "", "axis"]
    node = make("DFT", names, ["y"], inverse=1, onesided=1)
    if bins == 1:
        bins, weights["length"] = 2, np.array(2)
    x = floats(2, bins, 3, 2)
    proto = model([node], {"x": (["n", bins, 3, 2], "float32")}, weights=weights, opset=20)
    got = outputs(proto, {"x": x})[0]
    count = int(weights["length"]) if "length" in weights else None
    expected = np.fft.irfft(x[..., 0] + 1j * x[..., 1], n=count, axis=1)[..., None]
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)


def test_defaults_of_operators_that_are_functions() -> None:
    node = make("SwiGLU", ["a", "b"], ["y"])
    inputs: Inputs = {name: (["n", 4], "float32") for name in "ab"}
    proto = model([node], inputs, opset=28)
    a, b = floats(3, 4), floats(3, 4, seed=1)
    got = outputs(proto, {"a": a, "b": b})[0]
    np.testing.assert_allclose(got, a / (1 + np.exp(-a)) * b, rtol=0, atol=1e-6)


@pytest.mark.parametrize("present", [True, False])
def test_optionals_of_known_presence(present: bool) -> None:
    """The branch that reads the element is taken where there is one."""
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n"])
    read = [make("OptionalGetElement", ["o"], ["t"]), make("Neg", ["t"], ["a"])]
    inside = helper.make_graph(read, "then", [], [helper.make_value_info("a", kind)])
    outside = helper.make_graph([make("Abs", ["x"], ["a"])], "else", [],
                                [helper.make_value_info("a", kind)])  # fmt: skip
    wrapped = make("Optional", ["x"] if present else [], ["o"],
                   **({} if present else {"type": kind}))  # fmt: skip
    nodes = [wrapped, make("OptionalHasElement", ["o"], ["there"]),
             make("If", ["there"], ["y"], then_branch=inside, else_branch=outside)]  # fmt: skip
    proto = model(nodes, {"x": (["n"], "float32")}, opset=18)
    x = floats(3)
    np.testing.assert_array_equal(outputs(proto, {"x": x})[0], -x if present else abs(x))


def test_an_optional_without_an_element_is_not_a_tensor() -> None:
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n"])
    absent = make("Optional", [], ["o"], type=kind)
    read = model([absent, make("Add", ["o", "x"], ["y"])], {"x": (["n"], "float32")}, opset=18)
    message = "input 0 is an optional without an element, expected a tensor"
    with pytest.raises(FrontendError, match=message):
        from_model(read, {})
    returned = model([absent], {"x": (["n"], "float32")}, ["o"], opset=18)
    with pytest.raises(FrontendError, match="output 'o' is an optional without an element"):
        from_model(returned, {})


def test_columns_are_taken() -> None:
    node = make("ArrayFeatureExtractor", ["x", "columns"], ["y"], domain="ai.onnx.ml")
    proto = model([node], {"x": (["n", 5], "float32")}, weights={"columns": np.array([[4, 0]])})
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    compare(proto, {"x": floats(3, 5)})
