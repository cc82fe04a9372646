"""Quantised layers of ONNX Runtime's domain, and those on the channels last, compared with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats.from_onnx import from_model
from tests.models.weights import Array
from tests.onnx_import.against_runtime import Inputs, contributed, floats, model, outputs, reference

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")


def integers(*shape: int, dtype: str = "uint8", seed: int = 0) -> Array:
    info = np.iinfo(dtype)
    numbers = np.random.default_rng(seed).integers(info.min, info.max, shape, dtype, endpoint=True)
    return np.asarray(numbers)


WEIGHTS: dict[str, Array] = {
    "s": np.array(0.05, "float32"), "t": np.array(0.03, "float32"), "z": np.array(120, "uint8"),
    "y": np.array(7, "uint8"), "w": integers(8, 6, seed=1), "signed": integers(8, 6, dtype="int8"),
    "columns": np.linspace(0.01, 0.1, 6, dtype="float32"), "bias": floats(6), "point":
    np.array(3, "int8"), "points": np.arange(6, dtype="int8"), "turned": integers(6, 8, seed=2),
    "more": np.arange(6, dtype="int32") * 50,
}  # fmt: skip
TEN: Inputs = {"x": ([2, "n", 8], "uint8")}


def check(nodes: list[Any], inputs: Inputs, feed: dict[str, Array], steps: int = 0) -> None:
    """Compare with ONNX Runtime; quantised results may differ by some steps."""
    proto = model(nodes, inputs, ["out"], WEIGHTS)
    got, expected = outputs(proto, feed)[0], reference(proto, feed)[0]
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    tolerance = steps if got.dtype.kind in "iu" else 1e-5 * abs(expected).max()
    np.testing.assert_allclose(got.astype("float64"), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    "inputs",
    [["x", "w", "s", "t"], ["x", "signed", "s", "columns", "z", "points", "bias"],
     ["x", "signed", "s", "t", "z", "point"]],
)  # fmt: skip
def test_products_of_integers(inputs: list[str]) -> None:
    node = contributed("MatMulIntegerToFloat", inputs, ["out"])
    check([node], TEN, {"x": integers(2, 3, 8, seed=4)})


@pytest.mark.parametrize(
    "inputs", [["x", "w", "s"], ["x", "signed", "columns", "points", "bias"]]
)  # fmt: skip
def test_products_that_quantize(inputs: list[str]) -> None:
    node = contributed("DynamicQuantizeMatMul", inputs, ["out"])
    check([node], {"x": ([2, "n", 8], "float32")}, {"x": floats(2, 3, 8)})


@pytest.mark.parametrize(
    ("inputs", "attrs"),
    [(["x", "s", "z", "w", "t", "y", "more", "s", "y"], {}),
     (["x", "s", "z", "turned", "t", "y"], {"transB": 1, "alpha": 0.5})],
)  # fmt: skip
def test_gemm(inputs: list[str], attrs: dict[str, Any]) -> None:
    node = contributed("QGemm", inputs, ["out"], **attrs)
    check([node], {"x": (["n", 8], "uint8")}, {"x": integers(3, 8, seed=4)}, steps=1)


def test_gemm_adds_before_it_rounds() -> None:
    """A product of 33 million and its bias differ by 2, which float32 does not tell apart."""
    depth = 1024
    weights: dict[str, Array] = {
        "w": np.full((depth, 2), 127, "int8"), "s": np.array(1, "float32"), "z":
        np.array(0, "uint8"), "p": np.array(0, "int8"), "more":
        np.full(2, 3 - 255 * 127 * depth, "int32")}  # fmt: skip
    node = contributed("QGemm", ["x", "s", "z", "w", "s", "p", "more"], ["out"])
    x = np.full((1, depth), 255, "uint8")
    proto = model([node], {"x": ([1, depth], "uint8")}, ["out"], weights)
    np.testing.assert_array_equal(outputs(proto, {"x": x})[0], [[3.0, 3.0]])


def test_attention() -> None:
    rng = np.random.default_rng(0)
    weights: dict[str, Array] = {
        "w": rng.integers(-128, 127, (8, 24)).astype("int8"), "b": floats(24),
        "s": np.array(0.02, "float32"), "t": np.full(24, 0.01, "float32"),
        "z": np.array(100, "uint8"), "p": np.zeros(24, "int8")}  # fmt: skip
    node = contributed("QAttention", ["x", "w", "b", "s", "t", "m", "z", "p"], ["out"], num_heads=2)
    proto = model([node], {"x": (["n", 3, 8], "uint8"), "m": (["n"], "int32")}, ["out"], weights)
    feed = {"x": integers(2, 3, 8), "m": np.array([3, 2], "int32")}
    np.testing.assert_allclose(
        outputs(proto, feed)[0], reference(proto, feed)[0], rtol=0, atol=1e-5
    )


IMAGE: Inputs = {"x": (["n", 3, 6, 5], "uint8")}


@pytest.mark.parametrize(
    ("op", "attrs", "steps"),
    [
        ("QLinearLeakyRelu", {"alpha": 0.2}, 1),
        ("QLinearSigmoid", {}, 1),
        ("QLinearSoftmax", {"axis": 2, "opset": 13}, 1),
        ("QLinearSoftmax", {"axis": 2, "opset": 11}, 1),
        ("QLinearGlobalAveragePool", {}, 1),
        ("QLinearGlobalAveragePool", {"channels_last": 1}, 1),
        ("QLinearAveragePool", {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0] * 2}, 1),
        ("QLinearAveragePool", {"kernel_shape": [2, 2], "channels_last": 1}, 1),
        ("QLinearAveragePool", {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1,
                                "count_include_pad": 1}, 1),
    ],
)  # fmt: skip
def test_layers(op: str, attrs: dict[str, Any], steps: int) -> None:
    node = contributed(op, ["x", "s", "z", "t", "y"], ["out"], **attrs)
    check([node], IMAGE, {"x": integers(2, 3, 6, 5)}, steps)


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_elementwise(op: str) -> None:
    node = contributed(op, ["x", "s", "z", "x", "t", "y", "s", "z"], ["out"])
    check([node], IMAGE, {"x": integers(1, 3, 6, 5)}, steps=1)


def test_layers_without_zero_points_or_kernels_of_onnx_runtime() -> None:
    """The oracle is numpy: ONNX Runtime infers no types for the first two, and has no third."""
    x = integers(1, 3, 6, 5)
    wide = x.astype("float64")
    pairs: dict[str, Array] = {"QLinearAdd": wide * 0.08, "QLinearMul": wide * wide * 0.0015}
    for op, exact in pairs.items():
        node = contributed(op, ["x", "s", "", "x", "t", "", "s"], ["out"])
        got = outputs(model([node], IMAGE, ["out"], WEIGHTS), {"x": x})[0]
        assert abs(got - np.clip(np.round(exact / 0.05), 0, 255)).max() <= 1
    node = contributed("QLinearReduceMean", ["x", "s", "", "t", "y"], ["out"], axes=[1, 3],
                       keepdims=0)  # fmt: skip
    got = outputs(model([node], IMAGE, ["out"], WEIGHTS), {"x": x})[0]
    expected = np.clip(np.round(wide.mean((1, 3)) * 0.05 / 0.03) + 7, 0, 255)
    assert got.shape == expected.shape and abs(got - expected).max() <= 1


def test_joined_and_chosen() -> None:
    join = contributed("QLinearConcat", ["t", "y", "x", "s", "z", "x", "t", "z"], ["out"], axis=1)
    check([join], IMAGE, {"x": integers(2, 3, 6, 5)}, steps=1)
    pick = contributed("QLinearWhere", ["c", "x", "s", "z", "x", "t", "y", "s", "z"], ["out"])
    feed = {"c": integers(6, 5) > 100, "x": integers(2, 3, 6, 5)}
    check([pick], {"c": ([6, 5], "bool"), **IMAGE}, feed, steps=1)


def test_sixteen_bits() -> None:
    nodes = [contributed("QuantizeLinear", ["x", "s", "half"], ["q"]),
             contributed("DequantizeLinear", ["q", "s", "half"], ["out"])]  # fmt: skip
    WEIGHTS["half"] = np.array(300, "uint16")
    check(nodes, {"x": (["n", 5], "float32")}, {"x": 100 * floats(4, 5)})


@pytest.mark.parametrize(
    ("mask", "attrs"), [("", {}), ("mask", {"epsilon": 1e-5}), ("positions", {})]
)  # fmt: skip
def test_embeddings(mask: str, attrs: dict[str, Any]) -> None:
    weights: dict[str, Array] = {
        "words": floats(9, 8), "places": floats(7, 8, seed=1), "segments": floats(2, 8, seed=2),
        "gamma": floats(8, seed=3), "beta": floats(8, seed=4)}  # fmt: skip
    names = ["ids", "types", "words", "places", "segments", "gamma", "beta"]
    names += [] if not mask else ["mask"] if mask == "mask" else ["", "positions"]
    node = contributed("EmbedLayerNormalization", names, ["y", "counts", "sum"], **attrs)
    rows: Inputs = {name: (["b", "s"], "int32") for name in ("ids", "types", mask) if name}
    proto = model([node], rows, ["y", "counts", "sum"], weights)
    feed = {"ids": np.array([[0, 8, 3], [1, 1, 2]], "int32"), "types": np.eye(2, 3, dtype="int32"),
            "mask": np.array([[1, 1, 0], [1, 1, 1]], "int32"),
            "positions": np.array([[1, 2, 6], [0, 4, 5]], "int32")}  # fmt: skip
    used = {name: feed[name] for name in rows}
    for a, b in zip(outputs(proto, used), reference(proto, used), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)


@pytest.mark.parametrize("op", ["NhwcFusedConv", "NhwcConv"])
def test_channels_last(op: str) -> None:
    """ONNX Runtime has CPU kernels for neither; they are `FusedConv` of turned images."""
    attrs = {"activation": "Relu"} if op == "NhwcFusedConv" else {}
    image, weights = floats(2, 6, 5, 3), {"w": floats(4, 3, 3, 2, seed=1), "b": floats(4)}
    kernel: dict[str, Any] = {"pads": [1, 0, 1, 1], "strides": [2, 1]}
    other = contributed("FusedConv", ["x", "w", "b"], ["y"], **kernel, **attrs)
    node = contributed(op, ["x", "w", "b"], ["y"], **kernel, **attrs)
    turned = reference(model([other], {"x": (["n", 3, 6, 5], "float32")}, weights=weights),
                       {"x": np.ascontiguousarray(image.transpose(0, 3, 1, 2))})[0]  # fmt: skip
    got = outputs(model([node], {"x": (["n", 6, 5, 3], "float32")}, weights=weights), {"x": image})
    np.testing.assert_allclose(got[0], turned.transpose(0, 2, 3, 1), rtol=0, atol=1e-5)


@pytest.mark.part
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("last", [0, 1])
def test_convolutions_of_integers(last: int, group: int) -> None:
    """As ONNX Runtime's optimiser turns those of ONNX; weights stay as they are."""
    # Without VNNI, ONNX Runtime's sums of two products with larger weights saturate.
    kernel = integers(6, 4 // group, 3, 2, dtype="int8", seed=2) // 2
    arrays = {"k": kernel, "more6": np.arange(6, dtype="int32") * 50, "zeros": np.zeros(6, "int8"),
              "wide": np.array(0.5, "float32")}  # fmt: skip
    names = ["x", "s", "z", "k", "columns", "zeros", "wide", "y", "more6"]
    node = contributed("QLinearConv", names, ["out"], channels_last=last, group=group,
                       pads=[1, 0, 2, 1], strides=[2, 1], kernel_shape=[3, 2])  # fmt: skip
    sizes = ["b", "h", 7, 4] if last else ["b", 4, "h", 7]
    proto = model([node], {"x": (sizes, "uint8")}, ["out"], {**WEIGHTS, **arrays})
    feeds = [{"x": integers(*shape, seed=3)} for shape in
             (((2, 5, 7, 4), (1, 8, 7, 4)) if last else ((2, 4, 5, 7), (1, 4, 8, 7)))]  # fmt: skip
    for got, feed in zip(outputs(proto, *feeds), feeds, strict=True):
        expected = reference(proto, feed)[0]
        assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
        assert len(np.unique(expected)) > 20
        np.testing.assert_allclose(got.astype(int), expected.astype(int), atol=1)


def test_pools_with_the_channels_last() -> None:
    node = contributed("NhwcMaxPool", ["x"], ["out"], kernel_shape=[2, 3], strides=[2, 1])
    check([node], {"x": (["n", 6, 5, 3], "uint8")}, {"x": integers(2, 6, 5, 3)})


def test_numbers_of_activations() -> None:
    """A FusedGemm has them as attributes of their own, a FusedConv as a list."""
    gemm = contributed("FusedGemm", ["x", "m"], ["out"], activation="LeakyRelu",
                       activation_alpha=0.3)  # fmt: skip
    WEIGHTS["m"], WEIGHTS["k"] = floats(8, 3), floats(3, 2, 2, 2)
    check([gemm], {"x": (["n", 8], "float32")}, {"x": floats(4, 8)})
    conv = contributed("FusedConv", ["x", "k"], ["out"], activation="HardSigmoid",
                       activation_params=[0.4, 0.1])  # fmt: skip
    check([conv], {"x": (["n", 2, 4, 4], "float32")}, {"x": 3 * floats(1, 2, 4, 4)})


@pytest.mark.parametrize(("name", "numbers"), [("Clip", []), ("HardSigmoid", [0.2])])
def test_activations_without_their_numbers_are_refused(name: str, numbers: list[float]) -> None:
    given = {"activation_params": numbers} if numbers else {}
    node = contributed("FusedConv", ["x", "k"], ["out"], name="here", activation=name, **given)
    proto = model([node], {"x": (["n", 2, 4, 4], "float32")}, ["out"], {"k": floats(3, 2, 2, 2)})
    message = rf"here.*'{name}' has {len(numbers)} numbers, expected .*: set activation_params"
    with pytest.raises(FrontendError, match=message):
        from_model(proto, {})


@pytest.mark.parametrize(
    "attrs", [{"transBatchA": 1}, {"transA": 1, "transBatchA": 1, "transB": 1}]
)
def test_matrices_whose_batch_is_inside(attrs: dict[str, int]) -> None:
    node = contributed("FusedMatMul", ["a", "b"], ["out"], alpha=0.5, **attrs)
    b = (3, 6, 2) if "transB" in attrs else (3, 4 if "transA" not in attrs else 2, 6)
    check([node], {"a": ([2, 3, 4], "float32"), "b": (b, "float32")},
          {"a": floats(2, 3, 4), "b": floats(*b, seed=1)})  # fmt: skip
