"""Sizes and bounds that are data: ranges, fills, expansions, shapes and slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import opinfo
from opinfo.frontend.formats.from_onnx import from_model
from tests.models.weights import Array
from tests.onnx_import.against_runtime import compare, floats, model, outputs

make = helper.make_node
NAN, INF = float("nan"), float("inf")


def _scalars(dtype: str, *numbers: float) -> dict[str, Array]:
    names = ("start", "limit", "step")
    return {name: np.array(x, dtype) for name, x in zip(names, numbers, strict=True)}


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_ranges_of_data(dtype: str) -> None:
    """They rise, fall, end at once, and pass a limit that is not a multiple of the step."""
    proto = model([make("Range", ["start", "limit", "step"], ["y"])],
                  {name: ([], dtype) for name in ("start", "limit", "step")})  # fmt: skip
    runs: list[tuple[float, float, float]] = [
        (0, 5, 1),
        (2, 11, 3),
        (7, -4, -2),
        (3, 3, 1),
        (5, 2, 1),
        (2, 5, -1),
        (-3, 4, 7),
    ]
    runs += [(0.5, 2.1, 0.25)] if dtype.startswith("float") else []
    compare(proto, *(_scalars(dtype, *run) for run in runs))


@pytest.mark.parametrize(("dtype", "numbers"), [
    ("int64", (0, 5, 0)), ("float32", (0, 5, 0)), ("float32", (0, INF, 1)),
    ("float32", (NAN, 5, 1)), ("int64", (0, 1 << 41, 1)),
])  # fmt: skip
def test_a_range_without_a_count_fails(dtype: str, numbers: tuple[float, ...]) -> None:
    proto = model([make("Range", ["start", "limit", "step"], ["y"])],
                  {name: ([], dtype) for name in ("start", "limit", "step")})  # fmt: skip
    with pytest.raises(Exception, match="match_cast"):
        outputs(proto, _scalars(dtype, *numbers))


def test_a_mask_of_as_many_positions_as_the_data_says() -> None:
    """As text to speech does: the longest of the lengths decides how many frames there are."""
    nodes = [
        make("ReduceMax", ["lengths"], ["most"], keepdims=0),
        make("Range", ["zero", "most", "one"], ["places"]),
        make("Unsqueeze", ["lengths", "axis"], ["column"]),
        make("Less", ["places", "column"], ["mask"]),
        make("Cast", ["mask"], ["ones"], to=1), make("MatMul", ["w", "ones"], ["y"]),
        make("Softmax", ["y"], ["z"], axis=-1),
    ]  # fmt: skip
    weights = {"zero": np.array(0), "one": np.array(1), "axis": np.array([1]), "w": floats(3, 2)}
    proto = model(nodes, {"lengths": ([2], "int64")}, ["y", "z"], weights)
    feeds = [{"lengths": np.array(pair)} for pair in ((3, 5), (1, 1), (9, 2))]
    compare(proto, *feeds)
    compiled = opinfo.compile(from_model(proto, {}), [])
    for feed, count in zip(feeds, (5, 1, 9), strict=True):
        assert compiled.run(feed["lengths"])[0].shape == (3, count)


def test_fills_and_expansions_of_data() -> None:
    nodes = [make("ConstantOfShape", ["s"], ["y"], value=helper.make_tensor("v", 1, [1], [2.5])),
             make("Expand", ["x", "s"], ["z"])]  # fmt: skip
    proto = model(nodes, {"s": ([2], "int64"), "x": ([1], "float32")}, ["y", "z"])
    compare(proto, *({"s": np.array(s), "x": floats(1)} for s in ((2, 3), (4, 1), (0, 5))))
    with pytest.raises(Exception, match="match_cast"):
        outputs(proto, {"s": np.array([2, -1]), "x": floats(1)})


@pytest.mark.parametrize("steps", [[1, 1], [2, 3], [-1, -2]])
def test_slices_by_data_are_clamped(steps: list[int]) -> None:
    nodes = [make("Slice", ["x", "from", "to", "axes", "steps"], ["y"])]
    weights = {"axes": np.array([0, -1]), "steps": np.array(steps)}
    inputs: Any = {"x": (["n", 2, 5], "float32"), "from": ([2], "int64"), "to": ([2], "int64")}
    proto = model(nodes, inputs, weights=weights)
    last, first = np.iinfo("int64").max, np.iinfo("int64").min
    end = last if steps[1] > 0 else 9  # backwards, ONNX Runtime takes the largest number for 0
    bounds = [((0, 0), (2, 3)), ((-3, 1), (-1, end)), ((4, 9), (0, -9)), ((2, -1), (first, first)),
              ((last, 3), (1, first)), ((1, 2), (1, 2))]  # fmt: skip
    compare(proto, *({"x": floats(n, 2, 5), "from": np.array(a), "to": np.array(b)}
                     for n in (4, 7) for a, b in bounds))  # fmt: skip


@pytest.mark.parametrize("allowzero", [0, 1])
def test_shapes_of_data(allowzero: int) -> None:
    proto = model([make("Reshape", ["x", "s"], ["y"], allowzero=allowzero)],
                  {"x": (["n", 6], "float32"), "s": ([3], "int64")})  # fmt: skip
    shapes = [(3, 2, 4), (-1, 2, 2), (2, 12, -1)] + ([] if allowzero else [(0, 2, 3), (4, 0, -1)])
    compare(proto, *({"x": floats(4, 6), "s": np.array(s)} for s in shapes))
    if allowzero:
        compare(proto, {"x": floats(0, 6), "s": np.array([3, 0, 2])})
    for wrong in ((5, 5, 1), (-1, -1, 2), (-2, -3, 4), (5, -1, 1)):
        with pytest.raises(Exception, match="match_cast"):
            outputs(proto, {"x": floats(4, 6), "s": np.array(wrong)})


@pytest.mark.parametrize("own", [("n", 4), (3, 4), ("n", 1), ("n", "m")])
def test_an_expansion_by_data_keeps_what_the_shape_has_as_1(own: tuple[Any, Any]) -> None:
    proto = model([make("Expand", ["x", "s"], ["y"])], {"x": (own, "float32"), "s": ([3], "int64")})
    x = floats(3, 1 if own[1] == 1 else 4)
    compare(proto, *({"x": x, "s": np.array(s)} for s in ((1, 1, 1), (2, 3, 1), (5, 1, 4))))
    for wrong in ((1, 7, 1), (1, 2, 4), (1, 0, 1), (2, 4, 4)):
        with pytest.raises(Exception, match="match_cast"):
            outputs(proto, {"x": x, "s": np.array(wrong)})


def test_an_expansion_of_numbers_by_the_sizes_of_another_tensor_is_checked() -> None:
    nodes = [make("Shape", ["other"], ["s"]), make("Expand", ["x", "s"], ["y"])]
    proto = model(nodes, {"x": ([3, 4], "float32"), "other": (["n", "m"], "float32")})
    compare(proto, *({"x": floats(3, 4), "other": floats(*s)} for s in ((3, 4), (1, 4), (1, 1))))
    for wrong in ((7, 9), (3, 2), (0, 4)):
        with pytest.raises(Exception, match="match_cast"):
            outputs(proto, {"x": floats(3, 4), "other": floats(*wrong)})
