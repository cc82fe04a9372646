"""SparseAttention, compared with ONNX Runtime, whose cache is input and output at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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
)

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
HEADS, GROUPS, SIZE, BLOCK, BLOCKS, ROWS = 4, 2, 16, 16, 3, 40
NAMES = ["q", "k", "v", "old_key", "old_value", "rows", "columns", "total", "lengths"]
RESULTS = ["y", "keys", "values"]
#: Blocks that are seen: all, and the own one with the first; every second head has the other.
LAYOUTS = np.array([[[1, 0, 0], [1, 1, 0], [1, 1, 1]], [[1, 0, 0], [0, 1, 0], [1, 0, 1]]], bool)
ANGLES = 3 * floats(ROWS + 8, SIZE // 2)


def compressed(layouts: Array) -> dict[str, Array]:
    """Return layouts in compressed rows, padded with -1."""
    ends = np.cumsum(layouts.sum(2), 1)
    columns = np.full((len(layouts), ends.max()), -1)
    for k, layout in enumerate(layouts):
        columns[k, : ends[k, -1]] = np.nonzero(layout)[1]
    return {"rows": np.concatenate([np.zeros((len(layouts), 1)), ends], 1).astype("int32"),
            "columns": columns.astype("int32"), "cosine": np.cos(ANGLES),
            "sine": np.sin(ANGLES)}  # fmt: skip


def inputs_of(dtype: str, packed: bool) -> Inputs:
    cache = (["b", GROUPS, ROWS, SIZE], dtype)
    width = (HEADS + 2 * GROUPS if packed else HEADS) * SIZE
    parts: Inputs = {"q": (["b", "s", width], dtype)}
    if not packed:
        parts = {**parts, **{name: (["b", "s", GROUPS * SIZE], dtype) for name in "kv"}}
    return {**parts, "old_key": cache, "old_value": cache, "total": ([1], "int32"),
            "lengths": (["b"], "int32")}  # fmt: skip


def feed(inputs: Inputs, queries: int, lengths: list[int]) -> dict[str, Array]:
    extents: dict[Any, int] = {"b": len(lengths), "s": queries}
    arrays: dict[str, Array] = {}
    for k, (name, (dims, dtype)) in enumerate(inputs.items()):
        sizes = [extents[d] if d in extents else int(d) for d in dims]
        arrays[name] = floats(*sizes, seed=k).astype(dtype)
    return {**arrays, "total": np.array([max(lengths)], "int32"),
            "lengths": np.array(lengths, "int32")}  # fmt: skip


def of_runtime(proto: Any, arrays: dict[str, Array]) -> list[Array]:
    """Return the results of ONNX Runtime, which writes to the caches that it is given."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    binding, own = session.io_binding(), {}
    for name, array in arrays.items():
        own[name] = onnxruntime.OrtValue.ortvalue_from_numpy(array.copy())
        binding.bind_ortvalue_input(name, own[name])
    binding.bind_output("y")
    for name, old in (("keys", "old_key"), ("values", "old_value")):
        binding.bind_ortvalue_output(name, own[old])
    session.run_with_iobinding(binding)
    results: list[Array] = binding.copy_outputs_to_cpu()
    return results


def expected(arrays: dict[str, Array], layouts: Array, scale: float) -> list[Array]:
    """Return results and caches by the schema without rotations, query by query, in float64."""
    wide = {name: a.astype("float64") for name, a in arrays.items()}
    batch, queries = wide["q"].shape[:2]
    q, k, v = (wide[name].reshape(batch, queries, -1, SIZE) for name in "qkv")
    keys, values = wide["old_key"].copy(), wide["old_value"].copy()
    out = np.zeros((batch, queries, HEADS, SIZE))
    for b, length in enumerate(arrays["lengths"]):
        first = length - queries
        keys[b, :, first:length] = k[b].swapaxes(0, 1)
        values[b, :, first:length] = v[b].swapaxes(0, 1)
        for i, h in np.ndindex(queries, HEADS):
            place, own = first + i, h // (HEADS // GROUPS)
            seen = np.repeat(layouts[h % len(layouts)][place // BLOCK], BLOCK)[: place + 1]
            scores = np.where(seen, scale * keys[b, own, : place + 1] @ q[b, i, h], -np.inf)
            weights = np.exp(scores - scores.max())
            out[b, i, h] = weights / weights.sum() @ values[b, own, : place + 1]
    return [out.reshape(batch, queries, -1), keys, values]


def node_of(packed: bool, **attrs: Any) -> Any:
    names = [NAMES[0], *(["", ""] if packed else NAMES[1:3]), *NAMES[3:]]
    names += ["cosine", "sine"] if attrs.get("do_rotary") else []
    own = {"num_heads": HEADS, "kv_num_heads": GROUPS, "sparse_block_size": BLOCK, **attrs}
    return contributed("SparseAttention", names, RESULTS, name="here", **own)


FORMS: list[tuple[int, bool, dict[str, Any]]] = [
    (2, False, {}), (1, True, {"do_rotary": 1}), (2, True, {"scale": 0.1}),
    (2, False, {"do_rotary": 1, "rotary_interleaved": 1})]  # fmt: skip


@pytest.mark.parametrize(("layouts", "packed", "attrs"), FORMS)
def test_layouts(layouts: int, packed: bool, attrs: dict[str, Any]) -> None:
    """Prompts, steps after them, and steps of several tokens."""
    inputs = inputs_of("float32", packed)
    weights = compressed(LAYOUTS[2 - layouts :])
    proto = model([node_of(packed, **attrs)], inputs, RESULTS, weights)
    feeds = [feed(inputs, *step) for step in
             ((20, [20]), (36, [36, 36]), (1, [37]), (3, [40]))]  # fmt: skip
    got = outputs(proto, *feeds)
    for k, arrays in enumerate(feeds):
        for a, b in zip(got[3 * k : 3 * k + 3], of_runtime(proto, arrays), strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, atol=1e-5)


def test_halves() -> None:
    inputs, weights = inputs_of("float16", False), compressed(LAYOUTS)
    arrays = feed(inputs, 1, [37])
    got = outputs(model([node_of(False)], inputs, RESULTS, weights), arrays)
    wide = {name: a.astype("float32") if a.dtype == np.float16 else a for name, a in arrays.items()}
    expected = of_runtime(
        model([node_of(False)], inputs_of("float32", False), RESULTS, weights), wide
    )
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == "float16"
        np.testing.assert_allclose(a, b, atol=5e-3)


def test_sequences_of_other_lengths() -> None:
    """ONNX Runtime's CPU kernel differs from its schema for the shorter ones."""
    inputs = inputs_of("float32", False)
    proto = model([node_of(False)], inputs, RESULTS, compressed(LAYOUTS))
    feeds = [feed(inputs, *step) for step in ((1, [37, 18]), (3, [10, 40, 33]))]
    got = outputs(proto, *feeds)
    for k, arrays in enumerate(feeds):
        for a, b in zip(got[3 * k : 3 * k + 3], expected(arrays, LAYOUTS, 0.25), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize(
    ("weights", "attrs", "reason"),
    [({}, {"sparse_block_size": 24}, "'sparse_block_size' is 24, expected one of 16, 32, 64, 128"),
     ({"rows": [[0, 1, 3, 2]] * 2}, {}, r"layout 0 are \[0, 1, 3, 2\], expected numbers from 0"),
     ({"columns": [[0, 0, 1, 0, 1, 3]] * 2}, {}, "layout 0 are .* expected 0 to 2"),
     ({"rows": [[0, 0, 2, 4]] * 2}, {}, "block 0 of layout 0 sees no block up to its own"),
     ({"rows": [[0, 1, 2, 3]] * 3, "columns": [[0, 1, 2]] * 3}, {}, "3 layouts for 4 heads"),
     ({"rows": [0, 1]}, {}, r"its layouts have the shapes \(2,\) and"),
     ({}, {"kv_num_heads": 3}, "num_heads is 4, expected a multiple of kv_num_heads, 3")],
)  # fmt: skip
def test_refusals(weights: dict[str, Any], attrs: dict[str, Any], reason: str) -> None:
    arrays = compressed(LAYOUTS) | {k: np.array(v, "int32") for k, v in weights.items()}
    proto = model([node_of(False, **attrs)], inputs_of("float32", False), RESULTS, arrays)
    with pytest.raises(FrontendError, match=f"here.*{reason}"):
        from_model(proto, {})
