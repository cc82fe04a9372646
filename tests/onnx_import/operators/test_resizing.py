"""Resize with all of its attributes, against ONNX Runtime and ONNX's reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats.from_onnx import from_model

from ..against_runtime import compare, floats, model
from .against_reference import check

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
STATIC, SYMBOLIC = [1, 2, 9, 10], [1, 2, "h", "w"]
DIMS = pytest.mark.parametrize("dims", [STATIC, SYMBOLIC], ids=["static", "symbolic"])
X = {"x": floats(1, 2, 9, 10)}


def resized(
    dims: Sequence[Any], scales: Sequence[float] = (), sizes: Sequence[int] = (),
    roi: Sequence[float] = (), dtype: str = "float32", roi_is_input: bool = False, opset: int = 19,
    **attrs: Any,
) -> Any:  # fmt: skip
    """Return a model of one Resize."""
    arrays = {"roi": np.array(roi, "float32"), "scales": np.array(scales, "float32"),
              "sizes": np.array(sizes, "int64")}  # fmt: skip
    names = ["x", *(name if array.size else "" for name, array in arrays.items())]
    while not names[-1]:
        names.pop()
    weights = {k: v for k, v in arrays.items() if v.size}
    inputs: dict[str, Any] = {"x": (dims, dtype)}
    if roi_is_input:
        inputs["roi"] = weights.pop("roi").shape, "float32"
    node = helper.make_node("Resize", names, ["y"], **attrs)
    return model([node], inputs, weights=weights, opset=opset)


@pytest.mark.parametrize(("mode", "exclude", "dims"), [
    ("linear", 0, STATIC), ("linear", 0, SYMBOLIC), ("cubic", 0, STATIC), ("cubic", 1, SYMBOLIC),
])  # fmt: skip
def test_kernels_that_smooth(mode: str, exclude: int, dims: list[Any]) -> None:
    """The width grows, so its kernel is the usual one."""
    proto = resized(dims, [1, 1, 0.4375, 1.5], mode=mode, antialias=1, exclude_outside=exclude)
    compare(proto, X)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_kernels_that_smooth_to_sizes(mode: str) -> None:
    compare(resized(STATIC, sizes=[1, 2, 4, 7], mode=mode, antialias=1), X)


@pytest.mark.parametrize(
    ("transform", "dims"), [("align_corners", SYMBOLIC), ("pytorch_half_pixel", STATIC)]
)
def test_weights_outside_are_left_out(transform: str, dims: list[Any]) -> None:
    proto = resized(dims, sizes=[1, 2, 4, 17], mode="cubic", exclude_outside=1,
                    coordinate_transformation_mode=transform, cubic_coeff_a=-0.5)  # fmt: skip
    compare(proto, X)


@pytest.mark.parametrize(
    ("transform", "dims"), [("asymmetric", STATIC), ("half_pixel_symmetric", SYMBOLIC)]
)
def test_cubic_scales_whose_result_is_rounded(transform: str, dims: list[Any]) -> None:
    proto = resized(dims, [1, 1, 0.75, 1.375], mode="cubic",
                    coordinate_transformation_mode=transform)  # fmt: skip
    compare(proto, X)


@pytest.mark.part
@pytest.mark.parametrize("dims", [STATIC, SYMBOLIC], ids=["static", "symbolic"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_a_scale_that_keeps_the_size_moves_elements(mode: str, dims: list[Any]) -> None:
    """9 * 1.0625 is 9 once it is rounded; ONNX Runtime copies the data."""
    proto = resized(dims, [1, 1, 1.0625, 1.0625], mode=mode, nearest_mode="floor",
                    coordinate_transformation_mode="asymmetric")  # fmt: skip
    check(proto, X)


@pytest.mark.part
@DIMS
@pytest.mark.parametrize(("policy", "mode", "sizes"), [
    ("not_larger", "nearest", [4, 7]), ("not_smaller", "linear", [4, 7]),
    ("not_larger", "cubic", [20, 13]), ("not_smaller", "nearest", [13, 11]),
])  # fmt: skip
def test_one_scale_for_all_axes(policy: str, mode: str, sizes: list[int], dims: list[Any]) -> None:
    proto = resized(dims, sizes=sizes, axes=[2, 3], mode=mode, keep_aspect_ratio_policy=policy)
    compare(proto, X)


REGIONS = {
    "inside": ([0.2, 0.3, 0.7, 0.8], [4, 7]), "outside": ([-0.2, 0.3, 1.1, 1.25], [5, 12]),
    "of one row, reversed": ([0.9, 1.2, 0.15, 0.1], [1, 6]),
}  # fmt: skip


@pytest.mark.part
@pytest.mark.parametrize(
    ("dims", "roi_is_input"), [(STATIC, False), (STATIC, True), (SYMBOLIC, True)]
)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_regions(mode: str, roi_is_input: bool, dims: list[Any]) -> None:
    for roi, sizes in REGIONS.values() if mode == "linear" else list(REGIONS.values())[1:2]:
        proto = resized(dims, sizes=sizes, roi=roi, axes=[2, 3], roi_is_input=roi_is_input,
                        mode=mode, coordinate_transformation_mode="tf_crop_and_resize",
                        extrapolation_value=7.0)  # fmt: skip
        compare(proto, X | ({"roi": np.array(roi, "float32")} if roi_is_input else {}))


@pytest.mark.parametrize("roi_is_input", [False, True])
def test_a_region_of_the_same_size(roi_is_input: bool) -> None:
    """ONNX Runtime copies the data."""
    roi = [0.2, 0.3, 0.8, 0.9]
    proto = resized(STATIC, sizes=[9, 10], roi=roi, axes=[2, 3], roi_is_input=roi_is_input,
                    mode="linear", coordinate_transformation_mode="tf_crop_and_resize")  # fmt: skip
    check(proto, X | ({"roi": np.array(roi, "float32")} if roi_is_input else {}))


@pytest.mark.part
@DIMS
@pytest.mark.parametrize("rounding", ["floor", "round_prefer_ceil"])
def test_centres_of_nearest_elements(rounding: str, dims: list[Any]) -> None:
    weights = {"roi": np.zeros(0, "float32"), "s": np.array([1, 1, 0.5, 1.5], "float32")}
    node = helper.make_node("Resize", ["x", "roi", "s"], ["y"], mode="nearest",
                            nearest_mode=rounding,
                            coordinate_transformation_mode="tf_half_pixel_for_nn")  # fmt: skip
    compare(model([node], {"x": (dims, "float32")}, weights=weights, opset=11), X)


@pytest.mark.part
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32"])
@pytest.mark.parametrize("attrs", [{}, {"exclude_outside": 1}, {"antialias": 1}])
def test_smooth_integers_stay_in_their_range(dtype: str, attrs: dict[str, Any]) -> None:
    """Cubic weights exceed the range of the data; halves may be rounded to both sides."""
    low, high = (0, 256) if dtype == "uint8" else (-128, 128)
    x = np.random.default_rng(0).choice([low, high - 1], (1, 2, 9, 10)).astype(dtype)
    check(resized(STATIC, sizes=[1, 2, 5, 17], dtype=dtype, mode="cubic", **attrs), {"x": x}, 1.0)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"sizes": [1, 2, 4, 5], "antialias": 1}, "antialias of nearest elements, expected mode"),
        (
            {"sizes": [1, 2, 4, 5], "coordinate_transformation_mode": "tf_crop_and_resize"},
            "tf_crop_and_resize without a region, expected a roi of 8 numbers",
        ),
        (
            {"scales": [1, 1, 0.7, 0.7], "coordinate_transformation_mode": "tf_crop_and_resize",
             "roi": [0, 0, 0, 0, 1, 1, 1, 1]},
            "tf_crop_and_resize with a scale whose result is rounded, expected sizes",
        ),
        (
            {"sizes": [1, 2, 4, 5], "coordinate_transformation_mode": "centre"},
            "coordinate_transformation_mode 'centre' has no lowering",
        ),
    ],
)  # fmt: skip
def test_what_has_no_meaning_is_refused(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(FrontendError, match=rf"\(Resize\): {reason}"):
        from_model(resized(STATIC, **arguments), {})


def test_smoothing_to_symbolic_sizes_is_refused() -> None:
    proto = resized(SYMBOLIC, sizes=[1, 2, 4, 5], mode="linear", antialias=1)
    with pytest.raises(
        FrontendError, match=r"\(Resize\): antialias to sizes, with a symbolic size"
    ):
        from_model(proto, {})


def _from_sizes(ratio: Sequence[Any], inputs: dict[str, Any], **weights: Any) -> Any:
    """A Resize whose scales are `ratio`, of float(h, w) of the input x as `f`."""
    node = helper.make_node
    nodes = [node("Shape", ["x"], ["s"]), node("Slice", ["s", "two", "four"], ["hw"]),
             node("Cast", ["hw"], ["f"], to=1), *ratio,
             node("Concat", ["ones", "r"], ["scales"], axis=0),
             node("Resize", ["x", "", "scales"], ["y"], "up", mode="linear")]  # fmt: skip
    own = {"two": np.array([2]), "four": np.array([4]), "ones": np.ones(2, "float32")}
    arrays = {name: np.array(value, "float32") for name, value in weights.items()}
    return model(nodes, {"x": (SYMBOLIC, "float32"), **inputs}, weights=own | arrays)


@pytest.mark.parametrize("factor", [2.0, 1.5])
def test_scales_that_are_ratios_of_one_size(factor: float) -> None:
    """Old exporters write a factor as floor(factor * float(h)) / float(h)."""
    node = helper.make_node
    ratio = [node("Mul", ["f", "factor"], ["g"]), node("Div", ["g", "f"], ["r"])]
    compare(_from_sizes(ratio, {}, factor=factor), X, {"x": floats(1, 2, 4, 6)})


def test_scales_that_differ_by_size_are_refused_with_a_mend() -> None:
    """float32(64 / 49) * 49 is less than 64, so the result's size does not follow from integers."""
    node = helper.make_node
    proto = _from_sizes([node("Div", ["size", "f"], ["r"])], {}, size=[64, 64])
    with pytest.raises(FrontendError, match=r"'up' .* depends on symbolic .* --shape x:1,2,64,64$"):
        from_model(proto, {})
    compare(_fixed(proto, [1, 2, 9, 10]), X)


def _fixed(proto: Any, sizes: list[int]) -> Any:
    for dim, size in zip(proto.graph.input[0].type.tensor_type.shape.dim, sizes, strict=True):
        dim.dim_value = size
    return proto


def test_scales_from_an_input_are_refused_with_a_mend() -> None:
    """As of RobustVideoMatting; an initializer with the input's name makes it a constant."""
    node = helper.make_node
    nodes = [node("Concat", ["ones", "k", "k"], ["scales"], axis=0),
             node("Resize", ["x", "", "scales"], ["y"], "up", mode="linear")]  # fmt: skip
    ones = np.ones(2, "float32")
    proto = model(nodes, {"x": (STATIC, "float32"), "k": ([1], "float32")}, weights={"ones": ones})
    mend = r"\(Resize\): .* from the input 'k', .*: add an initializer of that name to the file$"
    with pytest.raises(FrontendError, match=mend):
        from_model(proto, {})
    proto.graph.initializer.append(numpy_helper.from_array(np.array([0.5], "float32"), "k"))
    mod = from_model(proto, {})
    assert [int(d) for d in mod["main"].ret_ty.shape.values] == [1, 2, 4, 5]
