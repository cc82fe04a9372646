"""MultiHeadAttention, Attention and RotaryEmbedding of ONNX Runtime, compared with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

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

HEADS, SIZE = 2, 8
HIDDEN = HEADS * SIZE
#: A batch, queries, keys and keys of earlier calls.
LENGTHS = ((2, 3, 5, 4), (1, 1, 2, 1), (3, 4, 1, 2))


def mask(*shape: int, most: int = 2, seed: int = 3) -> Array:
    """Return random integers of which the first along the last axis is not 0."""
    numbers = np.random.default_rng(seed).integers(0, most, shape).astype("int32")
    numbers[..., 0] = 1
    return numbers


#: Inputs by name: sizes over the lengths, and the dtype.
SIZES: Inputs = {
    "query": (["b", "s", HIDDEN], "float32"), "key": (["b", "l", HIDDEN], "float32"),
    "value": (["b", "l", 12], "float32"), "bias": ([2 * HIDDEN + 12], "float32"),
    "full": (["b", "l", HIDDEN], "float32"), "biases": ([3 * HIDDEN], "float32"),
    "flags": (["b", "l"], "int32"), "ends": (["b"], "int32"), "each": (["b", "s", "l"], "int32"),
    "all": (["b", "t"], "int32"), "shift": (["b", HEADS, "s", "l"], "float32"),
    "shared": ([1, 1, "s", "l"], "float32"), "old_key": (["b", HEADS, "p", SIZE], "float32"),
    "old_value": (["b", HEADS, "p", SIZE], "float32"),
    "cache": (["b", HEADS, "l", SIZE], "float32"), "values": (["b", HEADS, "l", SIZE], "float32"),
}  # fmt: skip


def feed(names: list[str], lengths: tuple[int, int, int, int]) -> dict[str, Array]:
    batch, queries, keys, past = lengths
    sizes: dict[Any, int] = {"b": batch, "s": queries, "l": keys, "p": past, "t": past + keys}
    arrays: dict[str, Array] = {}
    for k, name in enumerate(names):
        dims, dtype = SIZES[name]
        shape = [sizes[d] if d in sizes else int(d) for d in dims]
        if name == "ends":
            arrays[name] = np.minimum(np.arange(1, batch + 1), keys).astype("int32")
        else:
            arrays[name] = floats(*shape, seed=k) if dtype == "float32" else mask(*shape)
    return arrays


CASES = [
    (["query", "key", "value"], {}),
    (["query", "key", "value", "bias"], {"scale": 0.3}),
    (["query", "key", "value", "", "flags"], {}),
    (["query", "key", "value", "", "ends"], {"mask_filter_value": -50.0}),
    (["query", "key", "value", "", "each", "shift"], {}),
    (["query", "key", "value", "", "", "shared"], {}),
    (["query", "cache", "values"], {}),
    (["query", "cache", "values", "", "flags"], {}),
    (["query", "key", "full", "", "", "", "old_key", "old_value"], {}),
    (["query", "key", "full", "biases", "all", "", "old_key", "old_value"], {"unidirectional": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("names", "attrs"), CASES)
def test_multi_head_attention(names: list[str], attrs: dict[str, Any]) -> None:
    used = [name for name in names if name]
    wanted = ["y", "k", "v"] if "old_key" in names else ["y"]
    node = contributed("MultiHeadAttention", names, wanted, num_heads=HEADS, **attrs)
    proto = model([node], {name: SIZES[name] for name in used}, wanted)
    alike = "unidirectional" in attrs
    compare(proto, *(feed(used, (b, s, s if alike else n, p)) for b, s, n, p in LENGTHS))


def test_causal_masks_need_as_many_keys_as_queries() -> None:
    names = ["query", "key", "value"]
    node = contributed("MultiHeadAttention", names, ["y"], num_heads=HEADS, unidirectional=1)
    sizes: Inputs = {name: ([1, 3 if name == "query" else 5, HIDDEN], "float32") for name in names}
    with pytest.raises(FrontendError, match="its sizes contradict each other"):
        from_model(model([node], sizes), {})


def test_heads_that_are_packed() -> None:
    """Packed keys and values are those that ONNX Runtime gets apart, as its CPU kernels need."""
    apart = [floats(2, 3, HIDDEN, seed=k) for k in range(3)]
    five = [array.reshape(2, 3, HEADS, 1, SIZE) for array in apart]
    node = contributed("MultiHeadAttention", ["q", "k", "v"], ["y"], num_heads=HEADS)
    inputs: Inputs = {name: (["b", "s", HIDDEN], "float32") for name in "qkv"}
    expected = reference(model([node], inputs), dict(zip("qkv", apart, strict=True)))
    for names, arrays in ((["qkv"], [np.concatenate(five, 3)]),
                          (["q", "kv"], [apart[0], np.concatenate(five[1:], 3)])):  # fmt: skip
        sizes: list[Any] = ["b", "s", HEADS, 4 - len(names), SIZE]
        own: Inputs = {"q": (["b", "s", HIDDEN], "float32"), names[-1]: (sizes, "float32")}
        node = contributed("MultiHeadAttention", names, ["y"], num_heads=HEADS)
        proto = model([node], {name: own[name] for name in names})
        got = outputs(proto, dict(zip(names, arrays, strict=True)))[0]
        np.testing.assert_allclose(got, expected[0], rtol=0, atol=1e-6)


def test_scores_are_an_output() -> None:
    node = contributed("MultiHeadAttention", ["query", "key", "value", "", "flags"],
                       ["y", "", "", "scores"], num_heads=HEADS)  # fmt: skip
    names = ["query", "key", "value", "flags"]
    proto = model([node], {name: SIZES[name] for name in names}, ["y", "scores"])
    proto.graph.output[1].type.tensor_type.elem_type = TensorProto.FLOAT
    compare(proto, feed(names, (2, 3, 5, 0)))


WEIGHTS = {"w": floats(5, 3 * HIDDEN, seed=7), "b": floats(3 * HIDDEN, seed=8),
           "narrow": floats(5, 2 * HIDDEN + 6, seed=9)}  # fmt: skip


@pytest.mark.parametrize(
    ("names", "weights", "attrs"),
    [
        (["x", "w", "b"], ["w", "b"], {"do_rotary": 0, "rotary_embedding_dim": 4}),
        (["x", "narrow", ""], ["narrow"], {"qkv_hidden_sizes": [HIDDEN, HIDDEN, 6]}),
        (["x", "w", "b", "all"], ["w", "b"], {"unidirectional": 1}),
        (["x", "w", "b", "ends"], ["w", "b"], {}),
        (["x", "w", "b", "one"], ["w", "b"], {}),
        (["x", "w", "b", "bounds"], ["w", "b"], {}),
        (["x", "w", "b", "all", "past"], ["w", "b"], {"scale": 0.2, "unidirectional": 1}),
        (["x", "w", "b", "", "", "shift"], ["w", "b"], {}),
    ],
)
def test_attention(names: list[str], weights: list[str], attrs: dict[str, Any]) -> None:
    wanted = ["y", "present"] if "past" in names else ["y"]
    node = contributed("Attention", names, wanted, num_heads=HEADS, **attrs)
    keys = "t" if "past" in names else "s"
    sizes: Inputs = {
        "x": (["b", "s", 5], "float32"), "all": (["b", keys], "int32"), "ends": (["b"], "int32"),
        "one": (["b", 1], "int32"), "bounds": ([4], "int32"),
        "past": ([2, "b", HEADS, "p", SIZE], "float32"),
        "shift": ([1, HEADS, "s", "s"], "float32")}  # fmt: skip
    if "bounds" in names:
        sizes = {**sizes, "x": ([2, "s", 5], "float32")}
    used = [name for name in names if name and name not in WEIGHTS]
    proto = model([node], {name: sizes[name] for name in used}, wanted,
                  {name: WEIGHTS[name] for name in weights})  # fmt: skip
    past = 2 if "past" in names else 0
    arrays = {"x": floats(2, 4, 5), "all": mask(2, 4 + past), "ends": np.array([2, 4], "int32"),
              "one": mask(2, 1), "bounds": np.array([3, 4, 1, 0], "int32"),
              "past": floats(2, 2, HEADS, past, SIZE, seed=2),
              "shift": floats(1, HEADS, 4, 4, seed=1)}  # fmt: skip
    compare(proto, {name: arrays[name] for name in used})


@pytest.mark.parametrize(
    ("shape", "places", "attrs"),
    [
        (["b", "s", HIDDEN], "each", {}),
        (["b", "s", HIDDEN], "first", {"interleaved": 1}),
        (["b", HEADS, "s", SIZE], "each", {"interleaved": 1}),
        (["b", "s", HIDDEN], "each", {"num_heads": HEADS, "rotary_embedding_dim": 4}),
    ],
)
def test_rotary_embedding(shape: list[Any], places: str, attrs: dict[str, Any]) -> None:
    node = contributed("RotaryEmbedding", ["x", places, "cosine", "sine"], ["y"], **attrs)
    inputs: Inputs = {"x": (shape, "float32"),
                      places: (["b", "s"] if places == "each" else [1], "int64")}  # fmt: skip
    pairs = attrs.get("rotary_embedding_dim", SIZE) // 2
    angles = 3 * floats(9, pairs)
    proto = model([node], inputs, weights={"cosine": np.cos(angles), "sine": np.sin(angles)})
    x = floats(*({"b": 2, "s": 3}.get(d, d) for d in shape))
    rows = np.array([[0, 5, 8], [2, 1, 7]] if places == "each" else [4])
    compare(proto, {"x": x, places: rows})


def test_halves_are_those_of_floats() -> None:
    """In float16, results are at most two roundings from those of ONNX Runtime in float32."""
    names = ["query", "key", "value", "", "flags"]
    node = contributed("MultiHeadAttention", names, ["y"], num_heads=HEADS)
    used = [name for name in names if name]
    inputs = {name: SIZES[name] for name in used}
    arrays = feed(used, (2, 3, 5, 0))
    halves = {k: a.astype("float16") if a.dtype == "float32" else a for k, a in arrays.items()}
    wide = {k: a.astype("float32") if a.dtype == "float16" else a for k, a in halves.items()}
    expected = reference(model([node], inputs), wide)[0]
    own: Inputs = {k: (dims, "float16" if dtype == "float32" else dtype)
                   for k, (dims, dtype) in inputs.items()}  # fmt: skip
    got = outputs(model([node], own), halves)[0]
    assert got.dtype == np.float16
    np.testing.assert_allclose(got.astype("float32"), expected, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("op", "names", "attrs", "reason"),
    [
        ("MultiHeadAttention", ["query", "key", "value"], {"heads": 2}, "unknown attribute"),
        ("MultiHeadAttention", ["query", "key", "value"], {"num_heads": 3},
         "has 16 elements, expected a multiple of its 3 heads"),
        ("MultiHeadAttention", ["query", "key"], {"num_heads": 2}, "input 2 is missing"),
        ("MultiHeadAttention", ["query", "key", "value", *[""] * 5, "ends"], {"num_heads": 2},
         "'past_sequence_length' has no lowering: export the model without it"),
        ("Attention", ["query", "w"], {"num_heads": 2, "do_rotary": 1},
         "its attribute 'do_rotary' is 1, expected 0"),
    ],
)  # fmt: skip
def test_refusals(op: str, names: list[str], attrs: dict[str, Any], reason: str) -> None:
    node = contributed(op, names, ["y"], name="here", **{"num_heads": 2, **attrs})
    used = [name for name in names if name and name != "w"]
    proto = model([node], {name: SIZES[name] for name in used},
                  weights={"w": floats(HIDDEN, 3 * HIDDEN)})  # fmt: skip
    with pytest.raises(FrontendError, match=f"here.*{reason}"):
        from_model(proto, {})
