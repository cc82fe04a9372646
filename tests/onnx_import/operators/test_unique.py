"""The different elements of tensors, whose number is data, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats.from_onnx import from_model
from tests.models.weights import Array
from tests.onnx_import.against_runtime import contributed, model, outputs, reference

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
RESULTS = ["y", "first", "inverse", "counts"]


def values(dtype: str, *sizes: int, most: int = 5) -> Array:
    numbers = np.random.default_rng(sum(sizes)).integers(-most, most, sizes)
    return (numbers.astype("float64") / 2 if "float" in dtype else numbers).astype(dtype)


def checked(node: Any, sizes: list[Any], results: list[str], *feeds: Array) -> None:
    proto = model([node], {"x": (sizes, str(feeds[0].dtype))}, results)
    got = outputs(proto, *({"x": x} for x in feeds))
    for k, x in enumerate(feeds):
        expected = reference(proto, {"x": x})
        for a, b in zip(got[k * len(results) : (k + 1) * len(results)], expected, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


@pytest.mark.part
@pytest.mark.parametrize("dtype", ["float32", "int64", "int8"])
@pytest.mark.parametrize("order", [None, 0, 1])
def test_elements(order: int | None, dtype: str) -> None:
    node = helper.make_node(
        "Unique", ["x"], RESULTS, **({} if order is None else {"sorted": order})
    )
    feeds = [values(dtype, 4, 7), values(dtype, 1, 1), np.full((3, 5), 2, dtype)]
    checked(node, ["n", "m"], RESULTS, *feeds)


def test_a_vector_along_its_axis() -> None:
    node = helper.make_node("Unique", ["x"], ["y", "", "i"], axis=-1, sorted=0)
    x = values("float32", 9)
    got = outputs(model([node], {"x": ((9,), "float32")}, ["y", "i"]), {"x": x})
    np.testing.assert_array_equal(got[0][got[1]], x)
    order = [v for k, v in enumerate(x) if v not in x[:k]]
    np.testing.assert_array_equal(got[0], order)


def test_the_operator_of_the_runtime() -> None:
    """Its results are in the order in which elements appear."""
    results = ["y", "inverse", "counts"]
    feeds = [values("float32", n) for n in (11, 1, 30)]
    checked(contributed("Unique", ["x"], results), ["n"], results, *feeds)


def test_a_compiled_model() -> None:
    """What follows has the number of different elements as a symbolic size."""
    nodes = [helper.make_node("Unique", ["x"], ["u"]), helper.make_node("Mul", ["u", "u"], ["y"])]
    proto = model(nodes, {"x": (["n"], "float32")})
    compiled = opinfo.compile(from_model(proto, {}), race=False)
    for n in (12, 3):
        x = values("float32", n)
        np.testing.assert_allclose(compiled.run(x), np.unique(x) ** 2)


@pytest.mark.parametrize("attrs", [{"axis": 0}, {"axis": -1, "sorted": 0}])
def test_slices_are_refused(attrs: dict[str, int]) -> None:
    node = helper.make_node("Unique", ["x"], ["y"], name="here", **attrs)
    with pytest.raises(FrontendError, match=r"here.*slices of 2 dimensions, expected a vector, or"):
        from_model(model([node], {"x": ((3, 4), "float32")}), {})


@pytest.mark.parametrize("axis", [2, -3])
def test_an_axis_that_is_not_there_is_refused_with_those_that_are(axis: int) -> None:
    """ONNX's message says neither which axis it got nor which it expects."""
    node = helper.make_node("Unique", ["x"], ["y"], name="here", axis=axis)
    with pytest.raises(FrontendError, match=f"here.*: axis is {axis}, expected -2 to 1, as its"):
        from_model(model([node], {"x": ((3, 4), "float32")}), {})


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_nan_is_one_element_and_the_largest(dtype: str) -> None:
    """As in numpy; ONNX Runtime takes NaN for equal to everything."""
    x = np.array([np.nan, 1, np.nan, -np.inf, 1, np.inf, np.nan], dtype)
    proto = model([helper.make_node("Unique", ["x"], RESULTS)], {"x": (["n"], dtype)}, RESULTS)
    expected = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    for got, wanted in zip(outputs(proto, {"x": x}), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
