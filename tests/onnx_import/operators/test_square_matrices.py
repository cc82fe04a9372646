"""Inverses and determinants, compared with ONNX Runtime and with numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats.from_onnx import from_model
from tests.models.weights import Array
from tests.onnx_import.against_runtime import (
    Inputs,
    contributed,
    floats,
    model,
    outputs,
    reference,
)

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
NODES = {"Inverse": contributed("Inverse", ["x"], ["y"], name="here"),
         "Det": helper.make_node("Det", ["x"], ["y"], name="here")}  # fmt: skip


def matrices(*sizes: int, dtype: str = "float32") -> Array:
    """Return matrices whose pivots are not on the diagonal."""
    *outer, n = sizes
    orders = np.random.default_rng(n).permuted(np.tile(np.arange(n), (*outer, 1)), axis=-1)
    result: Array = (floats(*outer, n, n, seed=n) + 3 * np.eye(n)[orders]).astype(dtype)
    return result


@pytest.mark.part
@pytest.mark.parametrize("op", NODES)
@pytest.mark.parametrize(
    ("sizes", "dtype"),
    [((), "float32"), (("b",), "float32"), (("b", 2), "float32"), (("b",), "float64"),
     (("b",), "float16")],
)  # fmt: skip
def test_matrices(op: str, sizes: tuple[Any, ...], dtype: str) -> None:
    inputs: Inputs = {"x": ([*sizes, "n", "n"], dtype)}
    proto = model([NODES[op]], inputs)
    feeds = [{"x": matrices(*(3 if size == "b" else size for size in sizes), n, dtype=dtype)}
             for n in (1, 2, 5, *([] if dtype == "float16" else [17]))]  # fmt: skip
    tolerance = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-12}[dtype]
    for got, arrays in zip(outputs(proto, *feeds), feeds, strict=True):
        wide = arrays["x"].astype("float64")
        oracles = [np.linalg.inv(wide) if op == "Inverse" else np.linalg.det(wide)]
        if op == "Inverse" or dtype == "float32":  # it has no other determinants
            oracles += reference(proto, arrays)
        for expected in oracles:
            assert got.shape == expected.shape and got.dtype == dtype
            limit = tolerance * np.abs(expected).max()
            np.testing.assert_allclose(got, expected, rtol=0, atol=limit)


def test_a_determinant_of_zero() -> None:
    x = np.array([[[1, 2], [2, 4]], [[0, 0], [0, 0]], [[0, 1], [0, 2]]], "float32")
    got = outputs(model([NODES["Det"]], {"x": ((3, 2, 2), "float32")}), {"x": x})[0]
    np.testing.assert_array_equal(got, [0, 0, 0])


@pytest.mark.parametrize("op", NODES)
@pytest.mark.parametrize(
    ("sizes", "reason"),
    [((2, 3), "2 rows and 3 columns, expected as many of both|must have the same size"),
     ((4,), "its input has 1 dimensions, expected at least 2|rank")],
)  # fmt: skip
def test_other_shapes_are_refused(op: str, sizes: tuple[int, ...], reason: str) -> None:
    with pytest.raises(FrontendError, match=f"here.*({reason})"):
        from_model(model([NODES[op]], {"x": (sizes, "float32")}), {})
