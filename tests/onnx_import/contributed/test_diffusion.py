"""Layers of diffusion models in ONNX Runtime's domain; it has CPU kernels for none of them.

The oracle is numpy in float64, by the schemas.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats.from_onnx import from_model
from tests.models.weights import Array
from tests.onnx_import.against_runtime import Inputs, contributed, floats, model, outputs

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")

CHANNELS = 12
VECTORS: dict[str, Array] = {"gamma": floats(CHANNELS, seed=1), "beta": floats(CHANNELS, seed=2),
                             "bias": floats(CHANNELS, seed=3)}  # fmt: skip


def normalised(
    x: Array, groups: int, last: bool, silu: bool, epsilon: float, affine: tuple[Array, Array]
) -> Array:
    """Return groups of channels normalised, in float64."""
    data = np.asarray(x, "float64") if last else np.moveaxis(np.asarray(x, "float64"), 1, 3)
    batch, height, width, channels = data.shape
    parts = data.reshape(batch, height, width, groups, channels // groups)
    centred = parts - parts.mean((1, 2, 4), keepdims=True)
    deviation = np.sqrt((centred**2).mean((1, 2, 4), keepdims=True) + epsilon)
    result = (centred / deviation).reshape(data.shape) * affine[0] + affine[1]
    result = result / (1 + np.exp(-result)) if silu else result
    return result if last else np.moveaxis(result, 3, 1)


def close(got: Array, expected: Array, tolerance: float = 1e-5) -> None:
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * abs(expected).max())


@pytest.mark.parametrize(
    ("last", "silu", "attrs"),
    [(True, True, {"groups": 4, "epsilon": 0.1}),
     (True, False, {"groups": 1, "channels_last": 1}),
     (False, True, {"groups": 6, "channels_last": 0})],
)  # fmt: skip
def test_groups_of_channels(last: bool, silu: bool, attrs: dict[str, Any]) -> None:
    node = contributed("GroupNorm", ["x", "gamma", "beta"], ["y"], activation=int(silu), **attrs)
    sizes = ["b", "h", "w", "c"] if last else ["b", "c", "h", "w"]
    proto = model([node], {"x": (sizes, "float32")}, weights=VECTORS)
    feeds = [3 * floats(*((b, h, w, CHANNELS) if last else (b, CHANNELS, h, w)), seed=h) + 2
             for b, h, w in ((2, 3, 5), (1, 4, 1))]  # fmt: skip
    for x, got in zip(feeds, outputs(proto, *({"x": x} for x in feeds)), strict=True):
        epsilon = attrs.get("epsilon", 1e-5)
        affine = VECTORS["gamma"], VECTORS["beta"]
        close(got, normalised(x, attrs["groups"], last, silu, epsilon, affine))


@pytest.mark.parametrize("kinds", [("float16", "float32"), ("float16", "float16"),
                                   ("float32", "float16")])  # fmt: skip
def test_images_and_factors_of_other_dtypes(kinds: tuple[str, str]) -> None:
    """The result has the dtype of the image, and is rounded once."""
    x, weights = floats(2, 4, 3, CHANNELS).astype(kinds[0]), {
        name: vector.astype(kinds[1]) for name, vector in VECTORS.items()}  # fmt: skip
    node = contributed("GroupNorm", ["x", "gamma", "beta"], ["y"], activation=1, groups=3)
    proto = model([node], {"x": (["b", "h", "w", CHANNELS], kinds[0])}, weights=weights)
    (got,) = outputs(proto, {"x": x})
    assert got.dtype == kinds[0]
    affine = weights["gamma"].astype("float64"), weights["beta"].astype("float64")
    close(got, normalised(x, 3, True, True, 1e-5, affine), 2.0**-11 if "16" in kinds[0] else 1e-5)


PLACES: tuple[tuple[bool, list[Any]], ...] = (
    (True, ["b", "h", "w", CHANNELS]), (True, ["b", 1, 1, CHANNELS]), (True, ["b", CHANNELS]),
    (False, ["b", CHANNELS, "h", "w"]), (False, ["b", CHANNELS, 1, 1]), (False, ["b", CHANNELS]),
)  # fmt: skip


@pytest.mark.part
@pytest.mark.parametrize(("last", "sizes"), PLACES)
@pytest.mark.parametrize("bias", [True, False])
def test_groups_of_a_sum(last: bool, sizes: list[Any], bias: bool) -> None:
    names = ["x", "gamma", "beta", "skip"] + ["bias"] * bias
    node = contributed("SkipGroupNorm", names, ["y", "s"], activation=1, groups=3,
                       channels_last=int(last))  # fmt: skip
    image = PLACES[0 if last else 3][1]
    inputs: Inputs = {"x": (image, "float32"), "skip": (sizes, "float32")}
    proto = model([node], inputs, ["y", "s"], VECTORS)
    numbers = {"b": 2, "h": 3, "w": 5}
    x, skip = (floats(*(numbers.get(d, d) for d in dims), seed=k)
               for k, dims in enumerate((image, sizes)))  # fmt: skip
    got, total = outputs(proto, {"x": x, "skip": skip})
    wide = skip if skip.ndim == 4 else np.expand_dims(skip, (1, 2) if last else (2, 3))
    expected = x.astype("float64") + wide
    if bias:
        expected += VECTORS["bias"] if last else VECTORS["bias"][:, None, None]
    close(total, expected)
    affine = VECTORS["gamma"], VECTORS["beta"]
    close(got, normalised(expected, 3, last, True, 1e-5, affine))


@pytest.mark.parametrize(
    ("attrs", "reason"),
    [({"groups": 5, "activation": 0}, "groups is 5, expected a divisor of the 12 channels"),
     ({"groups": 3, "activation": 2}, "'activation' is 2, expected 0 or 1 for SiLU"),
     ({"groups": 3}, "'activation' is None, expected 0 or 1 for SiLU"),
     ({"groups": 3, "activation": 0, "layout": 1}, "unknown attribute 'layout'")],
)  # fmt: skip
def test_norms_that_are_refused(attrs: dict[str, int], reason: str) -> None:
    node = contributed("GroupNorm", ["x", "gamma", "beta"], ["y"], name="here", **attrs)
    proto = model([node], {"x": (["b", "h", "w", CHANNELS], "float32")}, weights=VECTORS)
    with pytest.raises(FrontendError, match=f"here.*{reason}"):
        from_model(proto, {})


def test_a_skip_of_other_sizes_is_refused() -> None:
    node = contributed("SkipGroupNorm", ["x", "gamma", "beta", "skip"], ["y"], name="here",
                       activation=0, groups=3)  # fmt: skip
    inputs: Inputs = {"x": (["b", 4, 5, CHANNELS], "float32"),
                      "skip": (["b", 4, 1, CHANNELS], "float32")}  # fmt: skip
    with pytest.raises(FrontendError, match=r"here.*expected a size of 5, got 1"):
        from_model(model([node], inputs, weights=VECTORS), {})


def erf(x: Array) -> Array:
    return np.vectorize(math.erf)(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("columns", [8, "d"])
def test_halves_of_a_sum(columns: Any) -> None:
    """The first half is multiplied by the Gelu of the second."""
    node = contributed("BiasSplitGelu", ["x", "b"], ["y"])
    x, bias = 3 * floats(2, 3, 8), floats(8, seed=1)
    proto = model([node], {"x": (["n", "s", columns], "float32")}, weights={"b": bias})
    total = x.astype("float64") + bias
    first, second = total[..., :4], total[..., 4:]
    close(outputs(proto, {"x": x})[0], first * second / 2 * (1 + erf(second / 2**0.5)))


def test_three_terms() -> None:
    node = contributed("BiasAdd", ["x", "b", "z"], ["y"])
    x, bias, skip = (floats(*shape, seed=len(shape)) for shape in ((2, 3, 8), (8,), (2, 3, 8)))
    inputs: Inputs = {"x": (["n", "s", 8], "float32"), "z": (["n", "s", 8], "float32")}
    got = outputs(model([node], inputs, weights={"b": bias}), {"x": x, "z": skip})[0]
    close(got, x.astype("float64") + bias + skip)
    inputs = {"x": (["n", 3, 8], "float32"), "z": (["n", 1, 8], "float32")}
    with pytest.raises(FrontendError, match="expected a size of 3, got 1"):
        from_model(model([node], inputs, weights={"b": bias}), {})


@pytest.mark.parametrize(
    ("op", "columns", "bias", "reason"),
    [("BiasSplitGelu", 7, 7, "the last axis has 7 elements, expected an even number"),
     ("BiasSplitGelu", 8, 4, r"input 1 has the shape \(4\), expected \(8\)"),
     ("BiasAdd", 8, 1, r"input 1 has the shape \(1\), expected \(8\)")],
)  # fmt: skip
def test_sums_that_are_refused(op: str, columns: int, bias: int, reason: str) -> None:
    names = ["x", "b", "x"][: 3 if op == "BiasAdd" else 2]
    proto = model([contributed(op, names, ["y"], name="here")],
                  {"x": (["n", "s", columns], "float32")}, weights={"b": floats(bias)})  # fmt: skip
    with pytest.raises(FrontendError, match=f"here.*{reason}"):
        from_model(proto, {})
