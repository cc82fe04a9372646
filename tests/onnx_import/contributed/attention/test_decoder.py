"""A decoder as generators of ONNX Runtime export it, compiled by opinfo and called with caches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from tests.models.weights import Array
from tests.onnx_import.against_runtime import floats, model, reference
from tests.onnx_import.contributed.attention.test_grouped_query import (
    GROUPS,
    HEADS,
    NARROW,
    SIZE,
    WIDE,
    feed,
    inputs_of,
    nodes,
)
from tests.onnx_import.contributed.attention.test_grouped_query import WEIGHTS as TABLES

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")

DEEP = 2 * WIDE


def few_bits(name: str, depth: int, columns: int, weights: dict[str, Array]) -> list[str]:
    """Add a matrix of four bits, and return the names of its parts."""
    rng = np.random.default_rng(len(weights))
    weights[f"{name}_w"] = rng.integers(0, 256, (columns, depth // 32, 16), "uint8")
    weights[f"{name}_s"] = rng.uniform(0.005, 0.02, (columns, depth // 32)).astype("float32")
    return [f"{name}_w", f"{name}_s"]


def decoder() -> onnx.ModelProto:
    """One layer: an embedding, norms, projections of few bits, attention, a gated network."""
    weights: dict[str, Array] = {**TABLES, "table": floats(9, WIDE), "gain": 1 + floats(WIDE)}

    def product(x: str, y: str, depth: int, columns: int) -> onnx.NodeProto:
        return helper.make_node(
            "MatMulNBits", [x, *few_bits(y, depth, columns, weights)], [y], K=depth, N=columns,
            bits=4, block_size=32, domain="com.microsoft")  # fmt: skip

    operands = ["qkv", "", "", "old_key", "old_value", "last", "total", "cosine", "sine"]
    layer = [
        helper.make_node("Gather", ["table", "ids"], ["x"]),
        helper.make_node("SimplifiedLayerNormalization", ["x", "gain"], ["n"], epsilon=1e-6),
        product("n", "qkv", WIDE, WIDE + 2 * NARROW),
        *nodes(operands, do_rotary=1),
        product("y", "o", WIDE, WIDE),
        helper.make_node("SkipSimplifiedLayerNormalization", ["x", "o", "gain"],
                         ["m", "", "", "r"], domain="com.microsoft"),
        product("m", "gate", WIDE, DEEP),
        product("m", "up", WIDE, DEEP),
        helper.make_node("QuickGelu", ["gate"], ["g"], alpha=1.0, domain="com.microsoft"),
        helper.make_node("Mul", ["g", "up"], ["h"]),
        product("h", "d", DEEP, WIDE),
        helper.make_node("Add", ["r", "d"], ["out"]),
    ]  # fmt: skip
    inputs = {"ids": (["b", "s"], "int64"), **inputs_of(operands)}
    return model(layer, inputs, ["out", "keys", "values"], weights)


def test_a_decoder(tmp_path: Path) -> None:
    proto = decoder()
    onnx.save(proto, tmp_path / "decoder.onnx")
    compiled = opinfo.compile(opinfo.load(tmp_path / "decoder.onnx"), ["weight_only"])
    cache = np.zeros((1, GROUPS, 0, SIZE), "float32")
    rows = [np.array([[1, 8, 0, 3]]), np.array([[5]]), np.array([[2]])]
    names = inputs_of(["old_key", "old_value"])
    arrays: dict[str, Array] = {"old_key": cache, "old_value": cache}
    for step, ids in enumerate(rows):
        count = 4 + step
        arrays |= {"ids": ids, "mask": feed(names, 1, 0, [count])["mask"]}
        got = compiled.run(*(arrays[entry.name] for entry in proto.graph.input))
        expected = reference(proto, arrays)
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(np.from_dlpack(a), b, rtol=0, atol=1e-3 * abs(b).max())
        arrays["old_key"], arrays["old_value"] = expected[1:]
    assert HEADS > GROUPS and expected[1].shape[2] == 6
