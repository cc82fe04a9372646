"""LinearAttention, compared with ONNX Runtime, and with numpy where it has no kernel."""

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
DEPTH, WIDTH = 4, 6
RULES = {"linear": "", "gated": "g", "delta": "b", "gated_delta": "gb"}


def inputs_of(heads: tuple[int, int, int], gates: int, rates: int) -> Inputs:
    queries, keys, values = heads
    sizes = {"q": queries * DEPTH, "k": keys * DEPTH, "v": values * WIDTH, "g": values * gates,
             "b": rates}  # fmt: skip
    rows = {name: (["n", "t", size], "float32") for name, size in sizes.items()}
    return {**rows, "s": (["n", values, DEPTH, WIDTH], "float32")}


def feed(inputs: Inputs, batch: int, steps: int) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    extents: dict[Any, int] = {"n": batch, "t": steps}
    for k, (name, (dims, dtype)) in enumerate(inputs.items()):
        arrays[name] = floats(*(extents[d] if d in extents else int(d) for d in dims), seed=k)
        if name == "g":
            arrays[name] = -np.abs(arrays[name])
        if name == "b":
            arrays[name] = np.abs(arrays[name])
        arrays[name] = arrays[name].astype(dtype)
    return arrays


def expected(arrays: dict[str, Array], heads: tuple[int, int, int], rule: str) -> list[Array]:
    """Return results and matrices by the schema, step by step, in float64."""
    queries, keys, values = heads
    wide = {name: a.astype("float64") for name, a in arrays.items()}
    batch, steps = wide["q"].shape[:2]
    q, k, v = (wide[name].reshape(batch, steps, count, -1)
               for name, count in zip("qkv", heads, strict=True))  # fmt: skip
    state = wide.get("s", np.zeros((batch, values, DEPTH, WIDTH))).copy()
    count = max(queries, values)
    q = np.repeat(q, count // queries, 2)
    k = np.repeat(k, values // keys, 2)
    out = np.zeros((batch, steps, count, WIDTH))
    for t in range(steps):
        if "g" in RULES[rule]:
            gate = wide["g"][:, t].reshape(batch, values, -1, 1)
            state *= np.exp(gate)
        change = v[:, t]
        if "b" in RULES[rule]:
            rate = wide["b"][:, t, :, None]
            change = rate * (change - np.einsum("nhij,nhi->nhj", state, k[:, t]))
        state += np.einsum("nhi,nhj->nhij", k[:, t], change)
        shared = np.repeat(state, count // values, 1)
        out[:, t] = DEPTH**-0.5 * np.einsum("nhi,nhij->nhj", q[:, t], shared)
    return [out.reshape(batch, steps, -1), state]


def node_of(rule: str, heads: tuple[int, int, int], past: bool, **attrs: Any) -> Any:
    names = ["q", "k", "v", "s" if past else "", *(c if c in RULES[rule] else "" for c in "gb")]
    own = {"q_num_heads": heads[0], "kv_num_heads": heads[2], "update_rule": rule, **attrs}
    return contributed("LinearAttention", names, ["y", "state"], name="here", **own)


FORMS = [("linear", (2, 2, 2), 1, 1, False), ("gated", (2, 2, 2), DEPTH, 1, True),
         ("delta", (4, 2, 2), 1, 2, True), ("gated_delta", (2, 2, 2), 1, 2, False),
         ("gated_delta", (2, 2, 4), 1, 1, True),
         ("gated_delta", (4, 1, 2), DEPTH, 2, True)]  # fmt: skip


@pytest.mark.parametrize(("rule", "heads", "gates", "rates", "past"), FORMS)
def test_rules(rule: str, heads: tuple[int, int, int], gates: int, rates: int, past: bool) -> None:
    everything = inputs_of(heads, gates, rates)
    node = node_of(rule, heads, past, chunk_size=2)
    inputs = {name: everything[name] for name in node.input if name}
    proto = model([node], inputs, ["y", "state"])
    feeds = [feed(inputs, *sizes) for sizes in ((2, 5), (1, 1), (3, 2))]
    got = outputs(proto, *feeds)
    for k, arrays in enumerate(feeds):
        for oracle in (expected(arrays, heads, rule), reference(proto, arrays)):
            for a, b in zip(got[2 * k : 2 * k + 2], oracle, strict=True):
                assert a.shape == b.shape
                np.testing.assert_allclose(a, b, atol=2e-5)


@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_halves(kind: str) -> None:
    """Matrices may be float32, as they are sums over all steps."""
    everything = inputs_of((2, 2, 2), 1, 2)
    inputs: Inputs = {name: (dims, kind if name == "s" else "float16")
                      for name, (dims, _) in everything.items()}  # fmt: skip
    proto = model([node_of("gated_delta", (2, 2, 2), True)], inputs, ["y", "state"])
    arrays = feed(inputs, 2, 5)
    got = outputs(proto, arrays)
    assert [str(a.dtype) for a in got] == ["float16", kind]
    for a, b in zip(got, expected(arrays, (2, 2, 2), "gated_delta"), strict=True):
        np.testing.assert_allclose(a, b, atol=5e-3 if a.dtype == "float16" else 2e-5)


@pytest.mark.parametrize(
    ("rule", "heads", "gates", "rates", "attrs", "reason"),
    [("linear", (3, 2, 2), 1, 1, {}, "q_num_heads is 3 and kv_num_heads 2, expected one a multi"),
     ("linear", (2, 3, 4), 1, 1, {}, "the key has 12 elements, expected 4 for each of 4 heads"),
     ("gated", (2, 2, 2), 3, 1, {}, "decay has 6 elements, expected 2 or 8, one for each head"),
     ("delta", (2, 2, 2), 1, 3, {}, "beta has 3 elements, expected 1 or 2, one for all heads"),
     ("linear", (2, 2, 2), 1, 1, {"update_rule": "gated"}, "its input 'decay' is missing"),
     ("linear", (2, 2, 2), 1, 1, {"update_rule": "softmax"}, "update_rule is 'softmax', expected"),
     ("linear", (2, 2, 2), 1, 1, {"state_window": 2}, "'state_window' is 2, expected 0: export"),
     ("linear", (2, 2, 2), 1, 1, {"q_num_heads": 0}, "'q_num_heads' is 0, expected at least 1")],
)  # fmt: skip
def test_refusals(
    rule: str, heads: tuple[int, int, int], gates: int, rates: int, attrs: Any, reason: str
) -> None:
    node = node_of(rule, heads, False, **attrs)
    everything = inputs_of(heads, gates, rates)
    inputs = {name: everything[name] for name in node.input if name}
    with pytest.raises(FrontendError, match=f"here.*{reason}"):
        from_model(model([node], inputs), {})
