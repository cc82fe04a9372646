"""RelativePositionBias, for which ONNX Runtime has no CPU kernel: the oracle counts by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from onnx import helper

from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats.from_onnx import from_model
from opinfo.frontend.onnx_operators.attention.distance_bias import bucket_of_distances
from tests.models.weights import Array
from tests.onnx_import.against_runtime import Inputs, contributed, floats, model, outputs

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")

HEADS = 2


def bucket(distance: int, buckets: int, furthest: int, both: bool) -> int:
    """Return the bucket of a key so far behind a query, as T5 defines it."""
    first = 0
    if both:
        buckets //= 2
        first = buckets if distance > 0 else 0
    distance, exact = abs(distance), buckets // 2
    if distance < exact:
        return first + distance
    share = math.log(distance / exact) / math.log(furthest / exact)
    return first + min(exact + int(share * (buckets - exact) + 1e-9), buckets - 1)


def biases(table: Array, length: int, furthest: int, both: bool) -> Array:
    """Return [1, heads, length, length] for a table of [heads, buckets]."""
    numbers = [[bucket(key - query, table.shape[1], furthest, both) for key in range(length)]
               for query in range(length)]  # fmt: skip
    result: Array = table[:, np.array(numbers)][None]
    return result


def net(table: Array, **attrs: Any) -> Any:
    """Return a model that adds the bias of a table of [heads, buckets] to scores."""
    shape, axis = helper.make_node("Shape", ["x"], ["shape"]), {"axis": 0}
    nodes = [shape, helper.make_node("Gather", ["shape", "two"], ["n"], **axis),
             contributed("RelativePositionBias", ["table", "n", "n"], ["y"], name="here",
                         **attrs),
             helper.make_node("Add", ["x", "y"], ["z"])]  # fmt: skip
    inputs: Inputs = {"x": ([1, HEADS, "s", "s"], "float32")}
    weights = {"table": table.reshape(table.shape[::-1]), "two": np.array(2)}
    return model(nodes, inputs, ["z"], weights)


@pytest.mark.parametrize(
    ("buckets", "furthest", "both"), [(32, 128, True), (8, 20, False), (7, 9, False)]
)
def test_distances(buckets: int, furthest: int, both: bool) -> None:
    table = floats(HEADS, buckets)
    proto = net(table, max_distance=furthest, is_bidirectional=int(both))
    zeros = [{"x": np.zeros((1, HEADS, n, n), "float32")} for n in (150, 1)]
    for got, n in zip(outputs(proto, *zeros), (150, 1), strict=True):
        np.testing.assert_array_equal(got, biases(table, n, furthest, both))


def test_buckets_begin_at_powers() -> None:
    """A logarithm that is rounded down would be in the bucket before."""
    numbers = bucket_of_distances(16, 128)
    assert [int(numbers[8 << k]) for k in range(4)] == [8, 10, 12, 14]
    assert [int(numbers[(8 << k) - 1]) for k in range(1, 5)] == [9, 11, 13, 15]


@pytest.mark.parametrize("furthest", [16, 8, 0])
def test_distances_that_are_refused(furthest: int) -> None:
    proto = net(floats(HEADS, 32), max_distance=furthest)
    with pytest.raises(FrontendError, match=rf"here.*'max_distance' is {furthest} with 32 buckets"):
        from_model(proto, {})
