"""MRotaryEmbedding of vision-language models, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats.from_onnx import from_model
from tests.models.weights import Array
from tests.onnx_import.against_runtime import Inputs, compare, contributed, floats, model

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
HEADS, PAIRS, ROWS = 2, 8, 12
ANGLES = 3 * floats(ROWS, PAIRS)
TABLES: dict[str, Array] = {"c": np.cos(ANGLES), "s": np.sin(ANGLES)}
PLACES: Inputs = {"p": ([3, "b", "l"], "int64")}


def feed(inputs: Inputs, batch: int, length: int) -> dict[str, Array]:
    dims, dtype = inputs["x"]
    extents: dict[Any, int] = {"b": batch, "l": length}
    x = floats(*(extents[d] if d in extents else int(d) for d in dims)).astype(dtype)
    return {"x": x, "p": np.random.default_rng(length).integers(0, ROWS, (3, batch, length))}


@pytest.mark.part
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("sizes", "attrs"),
    [(["b", HEADS, "l", 2 * PAIRS], {"mrope_section": [2, 3, 3]}),
     (["b", "l", HEADS * 2 * PAIRS], {"mrope_section": [4, 2, 2], "mrope_layout": 1,
                                        "num_heads": HEADS}),
     (["b", "l", HEADS * 20], {"mrope_section": [8, 0, 0], "num_heads": HEADS,
                               "rotary_embedding_dim": 2 * PAIRS, "interleaved": 1})],
)  # fmt: skip
def test_sections(sizes: list[Any], attrs: dict[str, Any], dtype: str) -> None:
    node = contributed("MRotaryEmbedding", ["x", "p", "c", "s"], ["y"], **attrs)
    inputs: Inputs = {"x": (sizes, dtype), **PLACES}
    weights = {name: table.astype(dtype) for name, table in TABLES.items()}
    compare(model([node], inputs, weights=weights), feed(inputs, 2, 5), feed(inputs, 1, 1),
            tolerance=1e-5 if dtype == "float32" else 2e-3)  # fmt: skip


@pytest.mark.parametrize(
    ("attrs", "reason"),
    [({"mrope_section": [2, 2, 2]}, r"mrope_section is \[2, 2, 2\], expected three numbers .* 8"),
     ({}, r"mrope_section is \[\], expected three"),
     ({"mrope_section": [2, 3, 3], "mrope_layout": 2}, "mrope_layout is 2, expected 0 for sec"),
     ({"mrope_section": [2, 3, 3], "scale": 2.0}, "'scale' is 2.0, expected 1.0"),
     ({"mrope_section": [2, 3, 3], "rotary_embedding_dim": 16}, "set without num_heads")],
)  # fmt: skip
def test_refusals(attrs: dict[str, Any], reason: str) -> None:
    node = contributed("MRotaryEmbedding", ["x", "p", "c", "s"], ["y"], name="here", **attrs)
    inputs: Inputs = {"x": (["b", HEADS, "l", 2 * PAIRS], "float32"), **PLACES}
    with pytest.raises(FrontendError, match=f"here.*{reason}"):
        from_model(model([node], inputs, weights=TABLES), {})
