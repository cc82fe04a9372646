"""Non-maximum suppression with limits of every origin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION

from .against_runtime import compare, floats, model

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
LIMITS: dict[str, tuple[tuple[int], str]] = {
    "most": ((1,), "int64"), "overlap": ((1,), "float32"), "least": ((1,), "float32")
}  # fmt: skip


def limits(most: int, overlap: float, least: float) -> dict[str, Any]:
    """Return limits as arrays of one element."""
    values = zip(LIMITS.items(), (most, overlap, least), strict=True)
    return {name: np.array([value], dtype) for (name, (_, dtype)), value in values}


def boxes(batch: int, n: int, seed: int) -> Any:
    """Return boxes of two corners, and of which some are equal."""
    corner = floats(batch, n, 2, seed=seed)
    size = np.abs(floats(batch, n, 2, seed=seed + 1)) + np.float32(0.1)
    result = np.concatenate([corner, corner + size], 2)
    result[:, -1] = result[:, 0]
    return result


@pytest.mark.parametrize("centred", [0, 1])
def test_limits_that_are_inputs(centred: int) -> None:
    node = helper.make_node("NonMaxSuppression", ["b", "s", *LIMITS], ["y"],
                            center_point_box=centred)  # fmt: skip
    sizes = {"b": ((2, "n", 4), "float32"), "s": ((2, 3, "n"), "float32")}
    feeds = [
        {"b": boxes(2, n, seed), "s": floats(2, 3, n, seed=seed + 2), **limits(*given)}
        for seed, (n, given) in enumerate(
            [(9, (4, 0.3, 0.0)), (7, (100, 0.0, -0.5)), (8, (0, 0.5, 0.0)), (5, (3, 1.0, 2.0))]
        )
    ]
    compare(model([node], {**sizes, **LIMITS}), *feeds)


@pytest.mark.parametrize("given", ["", "most", "most overlap"])
def test_limits_that_are_missing_or_constant(given: str) -> None:
    node = helper.make_node("NonMaxSuppression", ["b", "s", *given.split()], ["y"])
    inputs = {"b": ((1, 6, 4), "float32"), "s": ((1, 2, 6), "float32")}
    weights = {k: v for k, v in limits(4, 0.4, 0.0).items() if k in given.split()}
    proto = model([node], inputs, weights=weights)
    compare(proto, {"b": boxes(1, 6, 3), "s": floats(1, 2, 6, seed=9)})


def test_an_overlap_equal_to_the_threshold_is_kept() -> None:
    node = helper.make_node("NonMaxSuppression", ["b", "s", *LIMITS], ["y"])
    inputs = {"b": ((1, 2, 4), "float32"), "s": ((1, 1, 2), "float32"), **LIMITS}
    pair = np.array([[[0, 0, 1, 1], [0, 0, 1, 0.5]]], "float32")
    scores = np.array([[[0.5, 0.9]]], "float32")
    proto = model([node], inputs)
    compare(proto, {"b": pair, "s": scores, **limits(9, 0.5, 0.0)},
            {"b": pair, "s": scores, **limits(9, 0.49, 0.0)})  # fmt: skip
