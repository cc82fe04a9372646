"""Fourier transforms and other operators that become products, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from onnx import helper
from tvm import relax

from opinfo.frontend import FrontendError
from opinfo.frontend.formats.from_onnx import from_model
from opinfo.testing.unoptimised import unoptimised
from tests.onnx_import.against_runtime import compare, floats, model

make = helper.make_node


@pytest.mark.part
@pytest.mark.parametrize("axis", [1, 2, -2])
@pytest.mark.parametrize("parts, attrs", [
    (1, {}), (1, {"onesided": 1}), (1, {"inverse": 1}), (2, {}), (2, {"inverse": 1}),
])  # fmt: skip
def test_transforms_of_an_axis(axis: int, parts: int, attrs: dict[str, int]) -> None:
    node = make("DFT", ["x", "", "axis"], ["y"], **attrs)
    proto = model([node], {"x": (["n" if axis % 4 == 2 else 3, 5, 6, parts], "float32")},
                  weights={"axis": np.array(axis)}, opset=20)  # fmt: skip
    compare(proto, {"x": floats(3, 5, 6, parts)})


@pytest.mark.parametrize("length", [4, 9])
def test_a_transform_crops_its_axis_or_adds_zeros(length: int) -> None:
    nodes = [make("DFT", ["x", "length"], ["y"], axis=1, onesided=1)]
    proto = model(nodes, {"x": (["n", 6, 1], "float32")}, weights={"length": np.array(length)})
    compare(proto, {"x": floats(2, 6, 1)}, {"x": floats(3, 6, 1)})


def test_a_transform_is_undone_by_its_inverse() -> None:
    """In float64, to its precision."""
    nodes = [make("DFT", ["x", "", "axis"], ["t"]),
             make("DFT", ["t", "", "axis"], ["i"], inverse=1),
             make("Sub", ["i", "x"], ["y"])]  # fmt: skip
    proto = model(nodes, {"x": ([2, 300, 2], "float64")}, weights={"axis": np.array(1)}, opset=20)
    mod = from_model(proto, {})
    x = np.random.default_rng(0).standard_normal((2, 300, 2))
    assert np.abs(_run(mod, x)).max() < 1e-13


def _run(mod: Any, x: np.ndarray) -> np.ndarray:
    machine = relax.VirtualMachine(unoptimised(mod), tvm.cpu())
    found: np.ndarray = machine["main"](tvm.runtime.tensor(x)).numpy()
    return found


@pytest.mark.part
@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("given", ["window", "length", "both", "computed"])
def test_transforms_of_windows(onesided: int, given: str) -> None:
    window = "" if given == "length" else "window"
    length = "" if given in ("window", "computed") else "length"
    nodes = [make("STFT", ["x", "step", window, length], ["y"], onesided=onesided)]
    weights = {"step": np.array(3), "length": np.array(8)}
    inputs: dict[str, Any] = {"x": (["b", "n", 1], "float32")}
    feeds: list[dict[str, Any]] = [{"x": floats(1, 20, 1)}, {"x": floats(2, 33, 1)}]
    if given == "computed":
        inputs["window"] = ([8], "float32")
        feeds = [{**feed, "window": floats(8, seed=1)} for feed in feeds]
    else:
        weights["window"] = floats(8, seed=1)
    compare(model(nodes, inputs, weights=weights), *feeds)


def test_transforms_of_windows_of_complex_numbers() -> None:
    nodes = [make("STFT", ["x", "step", "", "length"], ["y"], onesided=0)]
    weights = {"step": np.array(2), "length": np.array(5)}
    compare(model(nodes, {"x": ([1, 19, 2], "float32")}, weights=weights), {"x": floats(1, 19, 2)})


@pytest.mark.parametrize("shape, attrs, why", [
    (["b", "n", 1], {"axis": 1}, "a transform of a symbolic size"),
    ([1, 100_000, 1], {"axis": 1}, "a transform of 100000 elements, expected 1 to 2048"),
    ([1, 8, 3], {"axis": 1}, "the last axis has 3 elements, expected 1 or 2"),
    ([1, 8, 2], {"axis": 1, "onesided": 1}, "one-sided DFT requires real input"),
    ([1, 8, 1], {"axis": 2}, "axis attribute value 2 is invalid for a tensor of rank 3"),
])  # fmt: skip
def test_other_transforms_are_refused(shape: Any, attrs: dict[str, int], why: str) -> None:
    proto = model([make("DFT", ["x"], ["y"], **attrs)], {"x": (shape, "float32")})
    with pytest.raises(FrontendError, match=why):
        from_model(proto, {})


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [-1, 1])
def test_norms_are_divided_by_and_zeros_stay(p: int, axis: int) -> None:
    x = floats(3, 4, 5)
    x[1] = 0
    proto = model([make("LpNormalization", ["x"], ["y"], p=p, axis=axis)],
                  {"x": (["n", 4, 5], "float32")})  # fmt: skip
    compare(proto, {"x": x})


@pytest.mark.parametrize("image, block, attrs", [
    ([5, 6], [2, 3], {}),
    ([5, 6], [2, 3], {"strides": [2, 2], "pads": [1, 0, 0, 1]}),
    ([7, 8], [3, 2], {"strides": [3, 3]}),  # the last row and column are in no block
    ([9], [4], {"strides": [2]}),
    ([4, 3, 5], [2, 1, 3], {}),
])  # fmt: skip
def test_blocks_are_added_up(image: list[int], block: list[int], attrs: dict[str, Any]) -> None:
    rank = len(image)
    pads = attrs.get("pads", [0] * 2 * rank)
    count = 1
    for k in range(rank):
        space = image[k] + pads[k] + pads[rank + k] - block[k]
        count *= space // attrs.get("strides", [1] * rank)[k] + 1
    depth = 2 * int(np.prod(block))
    proto = model([make("Col2Im", ["x", "image", "block"], ["y"], **attrs)],
                  {"x": (["n", depth, count], "float32")}, opset=18,
                  weights={"image": np.array(image), "block": np.array(block)})  # fmt: skip
    compare(proto, {"x": floats(1, depth, count)}, {"x": floats(2, depth, count)})


def test_an_operator_that_onnx_defines_by_others_for_its_types() -> None:
    """Their bodies depend on the dtypes, ranks and attributes of a call."""
    nodes = [make("CenterCropPad", ["x", "shape"], ["c"], axes=[1, 2]),
             make("RotaryEmbedding", ["c", "cos", "sin"], ["y"], num_heads=2)]  # fmt: skip
    weights = {"shape": np.array([3, 8]), "cos": floats(2, 3, 2, seed=1),
               "sin": floats(2, 3, 2, seed=2)}  # fmt: skip
    proto = model(nodes, {"x": ([2, 5, 6], "float32")}, weights=weights, opset=23)
    compare(proto, {"x": floats(2, 5, 6)})


@pytest.mark.parametrize("step, length, window, why", [
    (0, 8, 8, r"frame_step is \[0\], expected one number from 1"),
    (2, -1, 8, "the window must match the frame_length"),
    (2, 64, 64, "frames of 64 elements, expected at most the signal's 20"),
    (2, 8, 5, "the window must match the frame_length"),
])  # fmt: skip
def test_windows_that_do_not_fit_are_refused(step: int, length: int, window: int, why: str) -> None:
    nodes = [make("STFT", ["x", "step", "window", "length"], ["y"])]
    weights = {"step": np.array(step), "length": np.array(length), "window": floats(window)}
    proto = model(nodes, {"x": ([1, 20, 1], "float32")}, weights=weights)
    with pytest.raises(FrontendError, match=why):
        from_model(proto, {})


@pytest.mark.parametrize("block, strides, depth", [([0, 2], [1, 1], 12), ([2, 2], [0, 1], 12),
                                                   ([2, 2], [1, 1], 13)])  # fmt: skip
def test_blocks_that_do_not_fit_are_refused(
    block: list[int], strides: list[int], depth: int
) -> None:
    proto = model([make("Col2Im", ["x", "image", "block"], ["y"], strides=strides)],
                  {"x": ([1, depth, 9], "float32")}, opset=18,
                  weights={"image": np.array([4, 4]), "block": np.array(block)})  # fmt: skip
    with pytest.raises(
        FrontendError,
        match=r"expected numbers from 1, and channels for whole|must contain only positive",
    ):
        from_model(proto, {})
