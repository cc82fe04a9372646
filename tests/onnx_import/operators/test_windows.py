"""Pools, transposed and deformable convolutions, and regions of interest, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats.from_onnx import from_model

from ..against_runtime import compare, floats, model
from .against_reference import check

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
make = helper.make_node


@pytest.mark.part
@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize("include", [0, 1])
def test_means_of_windows_with_gaps(include: int, ceil: int) -> None:
    node = make("AveragePool", ["x"], ["y"], kernel_shape=[3, 2], dilations=[2, 3], strides=[2, 1],
                pads=[1, 1, 2, 0], count_include_pad=include, ceil_mode=ceil)  # fmt: skip
    proto = model([node], {"x": ([1, 2, "h", "w"], "float32")}, opset=19)
    compare(proto, {"x": floats(1, 2, 9, 10)}, {"x": floats(1, 2, 8, 7)})


def test_means_and_norms_of_windows_with_gaps_in_static_sizes() -> None:
    common: dict[str, Any] = {"kernel_shape": [3], "dilations": [2], "pads": [2, 1]}
    nodes = [make("AveragePool", ["x"], ["y"], **common), make("LpPool", ["x"], ["z"], **common)]
    proto = model(nodes, {"x": ([2, 3, 11], "float32")}, ["y", "z"], opset=19)
    compare(proto, {"x": floats(2, 3, 11)})


@pytest.mark.part
@pytest.mark.parametrize("is_constant", [False, True])
@pytest.mark.parametrize(("stride", "group", "pads"), [(1, 1, [1, 0, 2, 1]), (2, 2, [0, 1, 1, 2])])
def test_transposed_kernels_with_gaps(
    stride: int, group: int, pads: list[int], is_constant: bool
) -> None:
    node = make("ConvTranspose", ["x", "w", "b"], ["y"], dilations=[2, 3], strides=[stride] * 2,
                group=group, pads=pads, output_padding=[stride - 1, 0])  # fmt: skip
    inputs: dict[str, Any] = {"x": ([2, 4, "h", "w"], "float32")}
    weights = {"w": floats(4, 3, 3, 2, seed=1), "b": floats(3 * group, seed=2)}
    if not is_constant:
        inputs["w"] = (weights["w"].shape, "float32")
    own = {k: v for k, v in weights.items() if k not in inputs}
    feeds = [{"x": floats(2, 4, *sizes), "w": weights["w"]} for sizes in ((5, 6), (2, 3))]
    proto = model([node], inputs, weights=own)
    compare(proto, *({k: feed[k] for k in inputs} for feed in feeds))


@pytest.mark.parametrize("rank", [1, 3])
def test_transposed_kernels_with_gaps_in_other_dimensions(rank: int) -> None:
    node = make("ConvTranspose", ["x", "w"], ["y"], dilations=[2] * rank, strides=[2] * rank)
    proto = model([node], {"x": ([1, 2, *[4] * rank], "float32")},
                  weights={"w": floats(2, 3, *[2] * rank, seed=1)})  # fmt: skip
    compare(proto, {"x": floats(1, 2, *[4] * rank)})


def test_blocks_with_gaps() -> None:
    node = make("Col2Im", ["x", "image", "block"], ["y"], dilations=[1, 3], pads=[0, 1, 0, 1])
    weights = {"image": np.array([5, 6]), "block": np.array([2, 2])}
    proto = model([node], {"x": (["n", 8, 20], "float32")}, weights=weights, opset=18)
    compare(proto, {"x": floats(2, 8, 20)})
    weights = {"image": np.array([5, 6]), "block": np.array([2, 5])}
    proto = model([node], {"x": (["n", 10, 5], "float32")}, weights=weights, opset=18)
    with pytest.raises(FrontendError, match=r"blocks that reach over \[2, 13\] elements"):
        from_model(proto, {})


ROIS = np.array([[0, 0, 5, 4], [1, 2, 7.5, 6.5], [-3, -2, 20, 9], [3, 3, 2, 2], [6, 6, 6, 6]],
                "float32")  # fmt: skip


@pytest.mark.part
@pytest.mark.parametrize("transform", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize(("mode", "ratio"), [("max", 0), ("max", 2), ("avg", 0), ("avg", 2)])
def test_regions_of_scaled_images(mode: str, ratio: int, transform: str) -> None:
    """The last two regions have no samples where their extent is not made 1."""
    node = make("RoiAlign", ["x", "r", "i"], ["y"], mode=mode, sampling_ratio=ratio,
                spatial_scale=0.5, output_height=3, output_width=2,
                coordinate_transformation_mode=transform)  # fmt: skip
    inputs: dict[str, Any] = {"x": (["n", 3, "h", "w"], "float32"), "r": (["k", 4], "float32"),
                              "i": (["k"], "int64")}  # fmt: skip
    feed = {
        "x": floats(2, 3, 8, 7) + np.float32(0.2),
        "r": ROIS * 2,
        "i": np.array([0, 1, 1, 0, 1]),
    }
    compare(model([node], inputs), feed)


def test_other_modes_of_regions_are_refused() -> None:
    node = make("RoiAlign", ["x", "r", "b"], ["y"], mode="min")
    inputs = {"x": ((1, 1, 8, 8), "float32"), "r": ((2, 4), "float32"), "b": ((2,), "int64")}
    with pytest.raises(FrontendError, match=r"\(RoiAlign\): mode is 'min', expected 'avg' or 'max"):
        from_model(model([node], inputs), {})


DEFORMED = {
    "plain": (1, 1, {}), "of several groups": (2, 4, {"pads": [1, 1, 1, 1]}),
    "with gaps and steps": (2, 1, {"strides": [2, 1], "dilations": [1, 2], "pads": [1, 1, 0, 1]}),
}  # fmt: skip


@pytest.mark.part
@pytest.mark.parametrize("opset", [19, 22])
@pytest.mark.parametrize("what", DEFORMED)
def test_displaced_windows(what: str, opset: int) -> None:
    group, shared, attrs = DEFORMED[what]
    pads = attrs.get("pads", [0] * 4)
    gaps, steps = (attrs.get(name, [1, 1]) for name in ("dilations", "strides"))
    sizes = [(n + pads[k] + pads[k + 2] - (kernel - 1) * gaps[k] - 1) // steps[k] + 1
             for k, (n, kernel) in enumerate(((7, 3), (6, 2)))]  # fmt: skip
    feed = {"x": floats(2, 4, 7, 6), "o": 3 * floats(2, shared * 12, *sizes, seed=1),
            "m": floats(2, shared * 6, *sizes, seed=2)}  # fmt: skip
    weights = {"w": floats(6, 4 // group, 3, 2, seed=3), "b": floats(6, seed=4)}
    node = make("DeformConv", ["x", "w", "o", "b", "m"], ["y"], group=group, offset_group=shared,
                kernel_shape=[3, 2], **attrs)  # fmt: skip
    inputs: dict[str, Any] = {
        "x": (["n", 4, "h", "w"], "float32"), "o": (["n", shared * 12, "p", "q"], "float32"),
        "m": (["n", shared * 6, "p", "q"], "float32"),
    }  # fmt: skip
    compare(model([node], inputs, weights=weights, opset=opset), feed)


@pytest.mark.parametrize(
    ("sizes", "attrs", "reason"),
    [
        (
            (2, 2, 3, 3),
            {"group": 1, "offset_group": 3},
            "2 channels in 1 groups, with offsets for 3",
        ),
        ((3, 2, 3, 3), {"kernel_shape": [2, 3]}, r"kernel_shape is \[2, 3\], but the weights have"),
    ],
)
def test_contradictory_displacements_are_refused(
    sizes: tuple[int, ...], attrs: dict[str, Any], reason: str
) -> None:
    node = make("DeformConv", ["x", "w", "o"], ["y"], **attrs)
    inputs = {"x": ((1, 2, 5, 5), "float32"), "o": ((1, 18, 3, 3), "float32")}
    with pytest.raises(FrontendError, match=reason):
        from_model(model([node], inputs, weights={"w": floats(*sizes)}, opset=19), {})


def test_a_window_of_minus_infinity() -> None:
    """TVM's pools start and pad with the lowest finite number, those of ONNX Runtime partly."""
    nodes = [make("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
             make("GlobalMaxPool", ["x"], ["z"])]  # fmt: skip
    proto = model(nodes, {"x": ([1, 2, "h", 7], "float32")}, ["y", "z"])
    x = floats(1, 2, 6, 7)
    x[0, 0] = x[0, 1, :4] = -np.inf
    check(proto, {"x": x})
