"""GroupQueryAttention, with caches of exporters, compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import helper

from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats.from_onnx import from_model
from tests.models.weights import Array
from tests.onnx_import.against_runtime import Inputs, floats, model, outputs, reference

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")

HEADS, GROUPS, SIZE = 4, 2, 32
WIDE, NARROW = HEADS * SIZE, GROUPS * SIZE
ANGLES = 3 * floats(16, SIZE // 2)
WEIGHTS = {"cosine": np.cos(ANGLES), "sine": np.sin(ANGLES), "one": np.array([1], "int64"),
           "axis": np.array([1], "int64"), "sink": floats(HEADS, seed=9),
           "few_cosine": np.cos(ANGLES[:, :8]), "few_sine": np.sin(ANGLES[:, :8])}  # fmt: skip
OPERANDS = ["query", "key", "value", "old_key", "old_value", "last", "total"]


def nodes(inputs: list[str], **attrs: Any) -> list[Any]:
    """Return nodes that take the lengths from a mask, as exporters write them, and attend."""
    make = helper.make_node
    return [
        make("ReduceSum", ["mask", "axis"], ["count"], keepdims=0),
        make("Sub", ["count", "one"], ["most"]),
        make("Cast", ["most"], ["last"], to=6),
        make("Shape", ["mask"], ["extents"]),
        make("Gather", ["extents", "one"], ["width"]),
        make("Cast", ["width"], ["total"], to=6),
        make("GroupQueryAttention", inputs, ["y", "keys", "values"], domain="com.microsoft",
             num_heads=HEADS, kv_num_heads=GROUPS, name="attend", **attrs),
    ]  # fmt: skip


def inputs_of(names: list[str], dtype: str = "float32") -> Inputs:
    sizes: Inputs = {
        "query": (["b", "s", WIDE], dtype), "packed": (["b", "s", WIDE + 2 * NARROW], dtype),
        "key": (["b", "s", NARROW], dtype), "value": (["b", "s", NARROW], dtype),
        "old_key": (["b", GROUPS, "p", SIZE], dtype), "mask": (["b", "t"], "int64"),
        "old_value": (["b", GROUPS, "p", SIZE], dtype), "places": (["b", "s"], "int64"),
        "shift": (["b", 1, "s", "t"], dtype),
    }  # fmt: skip
    return {name: sizes[name] for name in [*names, "mask"] if name in sizes}


def feed(names: Inputs, queries: int, past: int, counts: list[int]) -> dict[str, Array]:
    """Return inputs of sequences that have counts of keys in all, the cache `past` rows."""
    batch, total = len(counts), max(counts)
    sizes: Mapping[Any, int] = {"b": batch, "s": queries, "p": past, "t": total}
    arrays: dict[str, Array] = {}
    for k, (name, (dims, dtype)) in enumerate(names.items()):
        data = floats(*(sizes.get(d, d) for d in dims), seed=k)
        arrays[name] = data.astype(dtype)
    arrays["mask"] = (np.arange(total) < np.array(counts)[:, None]).astype("int64")
    if "places" in names:
        first = np.maximum(np.array(counts) - queries, 0)
        arrays["places"] = first[:, None] + np.arange(queries)
    return arrays


def compare(proto: Any, names: Inputs, *steps: tuple[int, int, list[int]]) -> None:
    """Compare rows that sequences have; those of padding are not defined."""
    feeds = [feed(names, *step) for step in steps]
    everything = outputs(proto, *feeds)
    for number, ((queries, _, counts), arrays) in enumerate(zip(steps, feeds, strict=True)):
        expected, got = reference(proto, arrays), everything[3 * number : 3 * number + 3]
        for a, b in zip(got, expected, strict=True):
            assert a.shape == b.shape
        for k, count in enumerate(counts):
            for a, b in zip(got[1:], expected[1:], strict=True):
                np.testing.assert_allclose(a[k, :, :count], b[k, :, :count], rtol=0, atol=1e-5)
            rows = min(queries, count)
            np.testing.assert_allclose(got[0][k, :rows], expected[0][k, :rows], rtol=0, atol=1e-5)


#: A prompt; a padded prompt of two sequences; a step with a growing cache, with one that has room.
PROMPT, PADDED = (5, 0, [5]), (5, 0, [5, 3])
STEPS = ((1, 6, [7]), (1, 9, [4, 7]), (3, 4, [7]))


@pytest.mark.parametrize(
    ("inputs", "attrs", "steps"),
    [
        (OPERANDS, {}, (PROMPT, *STEPS)),
        ([*OPERANDS, "cosine", "sine"], {"do_rotary": 1}, (PADDED, *STEPS)),
        ([*OPERANDS, "few_cosine", "few_sine"], {"do_rotary": 1}, (PROMPT, *STEPS)),
        ([*OPERANDS, "few_cosine", "few_sine"], {"do_rotary": 1, "rotary_interleaved": 1},
         (PROMPT, *STEPS)),
        (["packed", "", "", *OPERANDS[3:], "cosine", "sine"],
         {"do_rotary": 1, "rotary_interleaved": 1, "scale": 0.3}, (PADDED, *STEPS[:1])),
        (OPERANDS, {"local_window_size": 3, "softcap": 2.0}, (PADDED, *STEPS)),
        ([*OPERANDS, "", "", "", "shift"], {"smooth_softmax": 1}, (PROMPT, STEPS[0])),
        ([*OPERANDS, "", "", "", "shift"], {}, (PROMPT, *STEPS[:2])),
        ([*OPERANDS, "", "", "", "", "sink"], {}, (PROMPT, STEPS[1])),
        ([*OPERANDS, "cosine", "sine", "places"], {"do_rotary": 1}, (PROMPT, *STEPS[:2])),
        ([*OPERANDS[:3], "", "", *OPERANDS[5:]], {}, (PROMPT, PADDED)),
    ],
)  # fmt: skip
def test_group_query_attention(inputs: list[str], attrs: dict[str, Any], steps: Any) -> None:
    names = inputs_of(inputs)
    proto = model(nodes(inputs, **attrs), names, ["y", "keys", "values"], WEIGHTS)
    compare(proto, names, *steps)


def test_halves_are_those_of_onnx_runtime() -> None:
    inputs = [*OPERANDS, "half_cosine", "half_sine"]
    halves = {f"half_{k}": WEIGHTS[k].astype("float16") for k in ("cosine", "sine")}
    names = inputs_of(inputs, "float16")
    proto = model(nodes(inputs, do_rotary=1), names, ["y", "keys", "values"], WEIGHTS | halves)
    arrays = feed(names, 3, 0, [3])
    for a, b in zip(outputs(proto, arrays), reference(proto, arrays), strict=True):
        assert a.dtype == b.dtype == np.float16
        np.testing.assert_allclose(a.astype("float32"), b.astype("float32"), rtol=4e-3, atol=2e-3)


def test_a_total_that_is_data_is_refused() -> None:
    names = {**inputs_of(OPERANDS), "last": (["b"], "int32"), "total": ([], "int32")}
    node = nodes(OPERANDS)[-1]
    proto = model([node], {k: v for k, v in names.items() if k != "mask"}, ["y", "keys", "values"])
    with pytest.raises(
        FrontendError, match=r"attend.*total_sequence_length is computed at run time"
    ):
        from_model(proto, {})


def test_a_cache_of_few_bits_is_refused() -> None:
    proto = model(nodes(OPERANDS, k_quant_type="PER_TENSOR"), inputs_of(OPERANDS),
                  ["y", "keys", "values"], WEIGHTS)  # fmt: skip
    with pytest.raises(FrontendError, match="'k_quant_type' is PER_TENSOR, expected NONE"):
        from_model(proto, {})
