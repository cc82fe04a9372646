"""Attention over tokens without padding, compared with numpy.

ONNX Runtime has kernels for GPUs only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats.from_onnx import from_model
from tests.models.weights import Array
from tests.onnx_import.against_runtime import Inputs, contributed, floats, model, outputs

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
HEADS, SIZE = 2, 4
WIDE = HEADS * SIZE
COUNTS = [[3, 1, 4], [1], [2, 2], [1, 4]]
PACKED: Inputs = {"o": (["b", "s"], "int32"), "c": (["ends"], "int32")}


def places(counts: list[int], length: int) -> dict[str, Array]:
    """Return the places of tokens and then of padding, and where sequences end."""
    inside = np.arange(length)[None] < np.array(counts)[:, None]
    flat = np.concatenate([np.flatnonzero(inside), np.flatnonzero(~inside)])
    return {"o": flat.reshape(inside.shape).astype("int32"),
            "c": np.cumsum([0, *counts]).astype("int32")}  # fmt: skip


def attention(parts: list[Array], counts: list[int], scale: float, bias: Array | None) -> Array:
    """Return what tokens see of their own sequence, in float64, sequence by sequence."""
    results, first = [], 0
    for k, count in enumerate(counts):
        q, key, v = (p[first : first + count].astype("float64").reshape(count, HEADS, -1)
                     for p in parts)  # fmt: skip
        scores = np.einsum("ihd,jhd->hij", q, key) * scale
        if bias is not None:
            scores = scores + bias[k % len(bias), :, :count, :count]
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        results.append(np.einsum("hij,jhd->ihd", weights, v).reshape(count, -1))
        first += count
    return np.concatenate(results)


@pytest.mark.part
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("form", ["plain", "bias"])
def test_attention(form: str, dtype: str) -> None:
    biased = form == "bias"
    attrs: dict[str, Any] = {"scale": 0.3, "qkv_hidden_sizes": [WIDE, WIDE, 6]} if biased else {}
    columns = 2 * WIDE + (6 if biased else WIDE)
    weights = {"w": floats(5, columns).astype(dtype), "v": floats(columns, seed=1).astype(dtype)}
    names = ["x", "w", "v", "o", "c", *(["r"] if biased else [])]
    node = contributed("PackedAttention", names, ["y"], num_heads=HEADS, **attrs)
    inputs: Inputs = {"x": (["t", 5], dtype), **PACKED}
    inputs = {**inputs, "r": ([1, HEADS, "s", "s"], dtype)} if biased else inputs
    feeds, expected = [], []
    for counts in COUNTS:
        length = max(counts) + 1
        feed = {"x": floats(sum(counts), 5).astype(dtype), **places(counts, length)}
        if biased:
            feed["r"] = floats(1, HEADS, length, length, seed=3).astype(dtype)
        feeds.append(feed)
        wide = [feed["x"].astype("float64"), *(weights[k].astype("float64") for k in "wv")]
        parts = np.split(wide[0] @ wide[1] + wide[2], [WIDE, 2 * WIDE], 1)
        expected.append(attention(parts, counts, 0.3 if biased else 0.5, feed.get("r")))
    got = outputs(model([node], inputs, weights=weights), *feeds)
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == dtype
        np.testing.assert_allclose(a, b, atol=1e-5 if dtype == "float32" else 1e-2)


@pytest.mark.parametrize("packed", [False, True])
def test_projected_tokens(packed: bool) -> None:
    names = ["x", "", "", "v", "o", "c"] if packed else ["x", "k", "u", "", "o", "c", "r"]
    node = contributed("PackedMultiHeadAttention", names, ["y"], num_heads=HEADS)
    rows: Inputs = {name: (["t", WIDE], "float32") for name in "xku"}
    inputs: Inputs = ({"x": (["t", HEADS, 3, SIZE], "float32"), **PACKED} if packed else
                      {**rows, **PACKED, "r": (["b", HEADS, "s", "s"], "float32")})  # fmt: skip
    weights = {"v": floats(3 * WIDE, seed=9)} if packed else {}
    feeds, expected = [], []
    for counts in COUNTS:
        length, tokens = max(counts) + 1, sum(counts)
        feed = places(counts, length)
        if packed:
            feed["x"] = floats(tokens, HEADS, 3, SIZE)
            parts = [feed["x"][:, :, k].reshape(tokens, WIDE) + weights["v"][k * WIDE :][:WIDE]
                     for k in range(3)]  # fmt: skip
        else:
            feed |= {name: floats(tokens, WIDE, seed=k) for k, name in enumerate("xku")}
            feed["r"] = floats(len(counts), HEADS, length, length, seed=4)
            parts = [feed[name] for name in "xku"]
        feeds.append(feed)
        expected.append(attention(parts, counts, 0.5, feed.get("r")))
    for a, b in zip(outputs(model([node], inputs, weights=weights), *feeds), expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_a_layer_without_padding() -> None:
    """As ONNX Runtime's optimiser writes it: padding goes, and comes back as zeros."""
    nodes = [contributed("RemovePadding", ["x", "n"], ["t", "o", "c", "l"]),
             contributed("PackedAttention", ["t", "w", "v", "o", "c"], ["a"], num_heads=HEADS),
             contributed("RestorePadding", ["a", "o"], ["y"])]  # fmt: skip
    weights = {"w": floats(5, 3 * WIDE), "v": floats(3 * WIDE, seed=1)}
    proto = model(nodes, {"x": (["b", "s", 5], "float32"), "n": (["b"], "int32")}, "tocly", weights)
    feeds = [{"x": floats(len(counts), max(counts) + 2, 5), "n": np.array(counts, "int32")}
             for counts in COUNTS]  # fmt: skip
    got = outputs(proto, *feeds)
    for k, (counts, feed) in enumerate(zip(COUNTS, feeds, strict=True)):
        t, o, c, longest, y = got[5 * k : 5 * k + 5]
        tokens = np.concatenate([row[:n] for row, n in zip(feed["x"], counts, strict=True)])
        np.testing.assert_array_equal(t, tokens)
        own = places(counts, max(counts) + 2)
        np.testing.assert_array_equal(o, own["o"])
        np.testing.assert_array_equal(c, own["c"])
        np.testing.assert_array_equal(longest, [max(counts)])
        parts = np.split(tokens @ weights["w"] + weights["v"], 3, 1)
        expected, rows = np.zeros_like(y), attention(parts, counts, 0.5, None)
        expected.reshape(-1, WIDE)[own["o"].reshape(-1)[: len(rows)]] = rows
        np.testing.assert_allclose(y, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("op", "names", "attrs", "reason"),
    [("PackedAttention", "x w v o c", {"num_heads": 0}, "'num_heads' is 0, expected at least 1"),
     ("PackedAttention", "x w v o c", {"num_heads": 5}, "has 8 elements, expected a multiple of"),
     ("PackedAttention", "x w v o c", {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 4]},
      r"qkv_hidden_sizes are \[8, 8, 4\], expected three of the sum 24"),
     ("PackedAttention", "x w v c c", {"num_heads": 2}, "token_offset has 1 dimensions, expected"),
     ("PackedMultiHeadAttention", "x x", {"num_heads": 2}, "key or value is missing, expected"),
     ("PackedMultiHeadAttention", "x", {"num_heads": 2}, r"packed heads of the shape \[t, 5\]"),
     ("RemovePadding", "x c", {}, "its input has 2 dimensions, expected 3"),
     ("RestorePadding", "x c", {}, "inputs of 2 and 1 dimensions, expected 2 and 2")],
)  # fmt: skip
def test_refusals(op: str, names: str, attrs: dict[str, Any], reason: str) -> None:
    node = contributed(op, names.split(), ["y"], name="here", **attrs)
    weights = {"w": floats(5, 24), "v": floats(24)}
    proto = model([node], {"x": (["t", 5], "float32"), **PACKED}, weights=weights)
    with pytest.raises(FrontendError, match=f"here.*{reason}"):
        from_model(proto, {})
