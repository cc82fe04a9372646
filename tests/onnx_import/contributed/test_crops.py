"""CropAndResize, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats.from_onnx import from_model
from tests.models.weights import Array
from tests.onnx_import.against_runtime import (
    Inputs,
    compare,
    contributed,
    floats,
    model,
    outputs,
    reference,
)

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
NAMES = ["x", "boxes", "images", "size"]
#: Whole images, parts, turned and empty ones, and some that reach beyond the image.
BOXES = np.array([[0, 0, 1, 1], [0.2, 0.1, 0.7, 0.9], [0.9, 0.8, 0.1, 0.3], [0.5, 0.5, 0.5, 0.5],
                  [-0.25, 0.1, 0.5, 1.25], [0.125, 0.125, 0.375, 0.375]], "float32")  # fmt: skip
INPUTS: Inputs = {"x": (["n", "c", "h", "w"], "float32"), "boxes": (["k", 4], "float32"),
                  "images": (["k"], "int32")}  # fmt: skip


def feed(*sizes: int) -> dict[str, Array]:
    images = (np.arange(len(BOXES)) % sizes[0]).astype("int32")
    return {"x": floats(*sizes), "boxes": BOXES, "images": images}


@pytest.mark.part
@pytest.mark.parametrize("size", [(3, 4), (1, 5), (1, 1), (7, 2)])
@pytest.mark.parametrize("attrs", [{}, {"mode": "nearest", "extrapolation_value": 2.5}])
def test_crops(attrs: dict[str, Any], size: tuple[int, int]) -> None:
    node = contributed("CropAndResize", NAMES, ["y"], **attrs)
    proto = model([node], INPUTS, weights={"size": np.array(size, "int32")})
    compare(proto, feed(2, 3, 9, 5), feed(1, 1, 2, 17), feed(3, 2, 1, 1))


def test_halves() -> None:
    node = contributed("CropAndResize", NAMES, ["y"])
    size = {"size": np.array([3, 4], "int32")}
    halves: Inputs = {**INPUTS, "x": (INPUTS["x"][0], "float16"),
                      "boxes": (INPUTS["boxes"][0], "float16")}  # fmt: skip
    arrays = feed(2, 3, 9, 5)
    narrow = {name: arrays[name].astype("float16") for name in ("x", "boxes")}
    got = outputs(model([node], halves, weights=size), {**arrays, **narrow})[0]
    wide = {name: a.astype("float32") for name, a in narrow.items()}
    expected = reference(model([node], INPUTS, weights=size), {**arrays, **wide})[0]
    assert got.dtype == "float16"
    np.testing.assert_allclose(got, expected, atol=2e-3)


def test_an_image_that_is_not_there() -> None:
    """No other memory is read."""
    node = contributed("CropAndResize", NAMES, ["y"])
    proto = model([node], INPUTS, weights={"size": np.array([2, 2], "int32")})
    arrays = {**feed(2, 3, 4, 4), "images": np.full(len(BOXES), 1 << 28, "int32")}
    with pytest.raises(ValueError, match="images"):
        opinfo.compile(from_model(proto, {}), []).run(*arrays.values())


@pytest.mark.parametrize(
    ("size", "attrs", "reason"),
    [([2, 2], {"mode": "cubic"}, "mode is 'cubic', expected 'bilinear' or 'nearest'"),
     ([2], {}, r"crop_size is \[2\], expected two numbers from 1"),
     ([2, 0], {}, r"crop_size is \[2, 0\], expected two numbers from 1"),
     (None, {}, "crop_size is computed at run time from the input 'size', expected a constant")],
)  # fmt: skip
def test_refusals(size: list[int] | None, attrs: dict[str, Any], reason: str) -> None:
    node = contributed("CropAndResize", NAMES, ["y"], name="here", **attrs)
    inputs = {**INPUTS, "size": ([2], "int32")} if size is None else INPUTS
    weights = {} if size is None else {"size": np.array(size, "int32")}
    with pytest.raises(FrontendError, match=f"here.*{reason}"):
        from_model(model([node], inputs, weights=weights), {})
