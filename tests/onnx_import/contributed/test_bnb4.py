"""Matrices of bitsandbytes, compared with ONNX Runtime."""

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


def weights(columns: int, depth: int, block: int, seed: int = 0) -> dict[str, Array]:
    """Return all codes in random order, and the maxima of blocks."""
    rng, count = np.random.default_rng(seed), columns * depth
    return {"w": rng.integers(0, 256, -(-count // 2), "uint8"),
            "m": rng.uniform(0.1, 2, -(-count // block)).astype("float32")}  # fmt: skip


def node_of(columns: int, depth: int, block: int, kind: int, **attrs: Any) -> Any:
    own = {"N": columns, "K": depth, "block_size": block, "quant_type": kind, **attrs}
    given = {name: value for name, value in own.items() if value is not None}
    return contributed("MatMulBnb4", ["x", "w", "m"], ["y"], name="here", **given)


@pytest.mark.part
@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize(("columns", "depth", "block"), [(8, 64, 16), (6, 24, 32), (3, 5, 16)])
def test_products(columns: int, depth: int, block: int, kind: int) -> None:
    """Blocks may go on from row to row, and the number of codes may be odd."""
    proto = model([node_of(columns, depth, block, kind)], {"x": (["b", 2, depth], "float32")},
                  weights=weights(columns, depth, block))  # fmt: skip
    compare(proto, *({"x": floats(b, 2, depth)} for b in (1, 3)))


def test_a_product_that_is_not_transposed() -> None:
    """The schema's other product; on CPUs, ONNX Runtime has the first one only."""
    arrays = weights(6, 32, 32)
    matrix = reference(model([node_of(6, 32, 32, 1)], {"x": ([32, 32], "float32")},
                             weights=arrays), {"x": np.eye(32, dtype="float32")})[0].T  # fmt: skip
    proto = model([node_of(6, 32, 32, 1, transB=0)], {"x": (["b", 6], "float32")}, weights=arrays)
    x = floats(4, 6)
    np.testing.assert_allclose(outputs(proto, {"x": x})[0], x @ matrix, atol=1e-5)


def test_halves() -> None:
    arrays = weights(8, 64, 64)
    wide = model([node_of(8, 64, 64, 1)], {"x": (["b", 64], "float32")}, weights=arrays)
    narrow = {"w": arrays["w"], "m": arrays["m"].astype("float16")}
    proto = model([node_of(8, 64, 64, 1)], {"x": (["b", 64], "float16")}, weights=narrow)
    x = floats(3, 64).astype("float16")
    got, expected = outputs(proto, {"x": x})[0], reference(wide, {"x": x.astype("float32")})[0]
    assert got.dtype == "float16"
    np.testing.assert_allclose(got, expected, rtol=0, atol=4e-3 * abs(expected).max())


def test_a_compiled_model() -> None:
    """With the default backends, as users call it."""
    proto = model([node_of(16, 64, 32, 1)], {"x": (["b", 64], "float32")},
                  weights=weights(16, 64, 32))  # fmt: skip
    x = floats(3, 64)
    compiled = opinfo.compile(from_model(proto, {}), race=False)
    np.testing.assert_allclose(compiled.run(x), reference(proto, {"x": x})[0], atol=1e-4)


X: Inputs = {"x": (["b", 64], "float32")}


@pytest.mark.parametrize(
    ("attrs", "reason"),
    [({"quant_type": 2}, "'quant_type' is 2, expected 0 for FP4 or 1 for NF4"),
     ({"quant_type": None}, "'quant_type' is missing, expected 0"),
     ({"block_size": 24}, "'block_size' is 24, expected a power of 2 from 16 on"),
     ({"block_size": 8}, "'block_size' is 8, expected a power of 2"),
     ({"N": 0}, "'N' is 0, expected at least 1"),
     ({"N": 16}, r"input 1 has the shape \(256\), expected \(512\)"),
     ({"block_size": 16}, r"input 2 has the shape \(16\), expected \(32\)"),
     ({"N": 16, "K": 32}, "expected a size of 32, got 64"),
     ({"bits": 4}, "unknown attribute 'bits'")],
)  # fmt: skip
def test_refusals(attrs: dict[str, Any], reason: str) -> None:
    own = {"columns": 8, "depth": 64, "block": 32, "kind": 1, **attrs}
    proto = model([node_of(**own)], X, weights=weights(8, 64, 32))
    with pytest.raises(FrontendError, match=f"here.*{reason}"):
        from_model(proto, {})
