"""Steps of decoders with caches that have room for later keys, compared with numpy.

ONNX Runtime's CPU kernel is the oracle, too, unless queries, keys and values are packed.
"""

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
    reference,
)

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
HEADS, SIZE, ROWS = 2, 4, 6
WIDE = HEADS * SIZE
STEP = ["query", "key", "value", "mask", "shift", "old_key", "old_value", "past", "one", "", "bias"]
RESULTS = ["y", "keys", "values"]


def sizes_of(dtype: str = "float32") -> Inputs:
    old = (["b", HEADS, ROWS, SIZE], dtype)
    return {
        "query": (["b", 1, WIDE], dtype), "key": (["b", 1, WIDE], dtype),
        "value": (["b", 1, WIDE], dtype), "packed": (["b", 1, 3 * WIDE], dtype),
        "mask": (["b", "t"], "int32"), "shift": ([1, HEADS, 1, "t"], dtype), "old_key": old,
        "old_value": old, "past": ([1], "int32"), "short_key": (["b", HEADS, "p", SIZE], dtype),
        "short_value": (["b", HEADS, "p", SIZE], dtype), "bias": ([3 * WIDE], dtype),
        "one": ([1], "int32"), "both": ([2, "b", HEADS, ROWS, SIZE], dtype),
        "input": (["b", 1, 5], dtype), "all": ([2, "b", HEADS, "p", SIZE], dtype),
    }  # fmt: skip


def feed(names: list[str], batch: int, past: int, dtype: str = "float32") -> dict[str, Array]:
    """Return inputs of a step after `past` keys; rows of the cache behind them are not zero."""
    extents: dict[Any, int] = {"b": batch, "t": past + 1, "p": past}
    arrays = {}
    for k, name in enumerate(names):
        if name and name != "one":
            dims, kind = sizes_of(dtype)[name]
            arrays[name] = floats(
                *(extents[d] if d in extents else int(d) for d in dims), seed=k
            ).astype(kind)
    if "past" in arrays:
        arrays["past"] = np.array([past], "int32")
    if "mask" in arrays:
        arrays["mask"] = np.random.default_rng(past).integers(0, 2, (batch, past + 1), "int32")
        arrays["mask"][:, -1] = 1
    return arrays


def expected(arrays: dict[str, Array], scale: float = SIZE**-0.5) -> list[Array]:
    """Return result and cache by the schema, in float64."""
    wide = {name: a.astype("float64") for name, a in arrays.items()}
    parts = ([wide[name] for name in ("query", "key", "value")] if "query" in wide
             else np.split(wide["packed"], 3, -1))  # fmt: skip
    biases = np.split(wide["bias"], 3) if "bias" in wide else [0.0] * 3
    q, k, v = ((p + own).reshape(len(p), HEADS, 1, SIZE)
               for p, own in zip(parts, biases, strict=True))  # fmt: skip
    if "old_key" in wide:
        past = int(arrays["past"][0])
        keys, values = wide["old_key"].copy(), wide["old_value"].copy()
        keys[:, :, past], values[:, :, past] = k[:, :, 0], v[:, :, 0]
    else:
        past = wide["short_key"].shape[2]
        keys, values = (np.concatenate([wide[f"short_{name}"], new], 2)
                        for name, new in (("key", k), ("value", v)))  # fmt: skip
    scores = scale * q @ keys[:, :, : past + 1].swapaxes(2, 3) + wide.get("shift", 0.0)
    if "mask" in wide:
        scores = scores + np.where(arrays["mask"] > 0, 0, -10000.0)[:, None, None]
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    y = (weights @ values[:, :, : past + 1]).swapaxes(1, 2).reshape(len(q), 1, WIDE)
    return [y, keys, values]


def checked(names: list[str], dtype: str, runtime: bool, **attrs: Any) -> None:
    node = contributed("DecoderMaskedMultiHeadAttention", names, RESULTS, num_heads=HEADS, **attrs)
    inputs = {name: sizes_of(dtype)[name] for name in names if name and name != "one"}
    proto = model([node], inputs, RESULTS, {"one": np.array([1], "int32")})
    feeds = [feed(names, *step, dtype) for step in ((2, 3), (1, 0), (3, ROWS - 1))]
    got = outputs(proto, *feeds)
    for k, arrays in enumerate(feeds):
        own = expected(arrays, attrs.get("scale", SIZE**-0.5))
        oracles = [own, *([reference(proto, arrays)] if runtime else [])]
        for oracle in oracles:
            for a, b in zip(got[3 * k : 3 * k + 3], oracle, strict=True):
                assert a.dtype == dtype
                np.testing.assert_allclose(a, b, atol=1e-5 if dtype == "float32" else 5e-3)


FORMS = {"all": STEP, "plain": [*STEP[:3], "", "", *STEP[5:8]],
         "mask": [*STEP[:4], "", *STEP[5:8]], "packed": ["packed", "", "", "", "", *STEP[5:8]],
         "packed_bias": ["packed", "", "", "", "", *STEP[5:8], "", "", "bias"]}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_caches_with_room(form: str) -> None:
    runtime = "packed" not in form
    checked(FORMS[form], "float32", runtime, past_present_share_buffer=1)


def test_caches_that_grow() -> None:
    names = [*STEP[:5], "short_key", "short_value"]
    checked(names, "float32", False, scale=0.3)


def test_halves() -> None:
    checked(FORMS["mask"], "float16", False, past_present_share_buffer=1)


def test_keys_of_an_encoder() -> None:
    names = ["query", "short_key", "short_value", "flags"]
    node = contributed("DecoderMaskedMultiHeadAttention", names, ["y"], num_heads=HEADS)
    inputs = {name: sizes_of()[name] for name in names[:3]} | {"flags": (["b", "p"], "int32")}
    proto = model([node], inputs)
    feeds = [
        feed(names[:3], b, p) | {"flags": np.ones((b, p), "int32")} for b, p in ((2, 5), (1, 1))
    ]
    feeds[0]["flags"][1, 2:] = 0
    for got, arrays in zip(outputs(proto, *feeds), feeds, strict=True):
        np.testing.assert_allclose(got, reference(proto, arrays)[0], atol=1e-5)


@pytest.mark.parametrize("room", [True, False])
def test_projections(room: bool) -> None:
    """ONNX Runtime has it on GPUs only."""
    names = ["input", "w", "v", "mask", "both" if room else "all", "", "past"]
    node = contributed("DecoderMaskedSelfAttention", names, ["y", "present"], num_heads=HEADS,
                       past_present_share_buffer=int(room))  # fmt: skip
    inputs = {name: sizes_of()[name] for name in (names[0], *names[3:5], "past")}
    weights = {"w": floats(5, 3 * WIDE), "v": floats(3 * WIDE, seed=1)}
    proto = model([node], inputs, ["y", "present"], weights)
    feeds = [feed(list(inputs), 2, 3), feed(list(inputs), 1, 1)]
    got = outputs(proto, *feeds)
    for k, arrays in enumerate(feeds):
        old = arrays[names[4]]
        parts = {"packed": arrays["input"] @ weights["w"] + weights["v"], "mask": arrays["mask"]}
        cache = ({"old_key": old[0], "old_value": old[1], "past": arrays["past"]} if room else
                 {"short_key": old[0], "short_value": old[1]})  # fmt: skip
        y, keys, values = expected({**parts, **cache})
        np.testing.assert_allclose(got[2 * k], y, atol=1e-5)
        np.testing.assert_allclose(got[2 * k + 1], [keys, values], atol=1e-5)


@pytest.mark.parametrize(
    ("names", "attrs", "reason"),
    [(STEP[:3], {"num_heads": 3}, "8 elements, expected a multiple of its 3 heads"),
     ([*STEP[:7]], {"past_present_share_buffer": 1}, "past_sequence_length is missing, expected"),
     ([*STEP[:8], "two"], {}, "beam_width is 2, expected 1: reorder the cache outside"),
     ([*STEP[:8], "", "mask"], {}, "its input 'cache_indirection' has no lowering"),
     ([*STEP[:6]], {}, "past_key or past_value is missing, expected both or none"),
     (["query", "old_key", "old_value", "", "", "old_key", "old_value"], {},
      "past_key beside keys that are a cache already"),
     (STEP[:3], {"output_qk": 1}, "'output_qk' is 1, expected 0"),
     (["input"], {}, "packed heads of 5 elements, expected three equal parts")],
)  # fmt: skip
def test_refusals(names: list[str], attrs: dict[str, Any], reason: str) -> None:
    own = {"num_heads": HEADS, **attrs}
    node = contributed("DecoderMaskedMultiHeadAttention", names, RESULTS[:1], name="here", **own)
    inputs = {name: sizes_of()[name] for name in names if name in sizes_of() and name != "one"}
    weights = {"one": np.array([1], "int32"), "two": np.array([2], "int32")}
    with pytest.raises(FrontendError, match=f"here.*{reason}"):
        from_model(model([node], inputs, weights=weights), {})
