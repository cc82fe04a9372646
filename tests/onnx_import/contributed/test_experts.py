"""Mixtures of experts, compared with ONNX Runtime, or with numpy where it has no CPU kernel."""

from __future__ import annotations

import math
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

EXPERTS, INNER, DEPTH = 5, 6, 8
SWIGLU = {"activation_type": "swiglu", "activation_alpha": 1.702, "activation_beta": 1.0,
          "swiglu_limit": 0.5}  # fmt: skip
ROWS: Inputs = {"x": (["n", DEPTH], "float32"), "r": (["n", EXPERTS], "float32")}
PARTS: Inputs = {"x": (["b", "s", DEPTH], "float32"), "r": (["n", EXPERTS], "float32")}
BIASED = ["x", "r", "w1", "b1", "w2", "b2"]


def weights(parts: int = 1, inner: int = INNER, depth: int = DEPTH) -> dict[str, Array]:
    """Return matrices and biases by output and input; `parts` of the first make one number."""
    shapes = {"w1": (parts * inner, depth), "b1": (parts * inner,), "w2": (depth, inner),
              "b2": (depth,), "w3": (inner, depth), "b3": (inner,)}  # fmt: skip
    return {name: floats(EXPERTS, *shape, seed=k) for k, (name, shape) in enumerate(shapes.items())}


def used(names: list[str], arrays: dict[str, Array]) -> dict[str, Array]:
    return {name: arrays[name] for name in names if name in arrays}


def feed(*outer: int, seed: int = 0) -> dict[str, Array]:
    """Return rows, and scores of which no two are near each other."""
    scores = np.random.default_rng(seed).permuted(
        np.tile(np.linspace(-2, 2, EXPERTS), (math.prod(outer), 1)), axis=1
    )
    return {"x": 2 * floats(*outer, DEPTH, seed=seed), "r": scores.astype("float32")}


def tied(experts: int) -> Array:
    """Return scores that are equal, or nearly: the shares of 0 and 1e-9 are equal in float32."""
    zeros, ones = [0.0] * (experts - 2), [1.0] * (experts - 2)
    rows = [[0, 0, *zeros], [1, 1, *zeros], [*zeros, 1, 1], [0, 1, *ones], [1e-9, 0, *zeros],
            [*zeros, 0, 1e-9], [*zeros, 0, -1e-9], [20, 20.000002, *zeros], [-0.0, 0, *zeros],
            [-1e30] * experts]  # fmt: skip
    return np.array(rows, "float32")


@pytest.mark.part
@pytest.mark.parametrize("normalised", [0, 1])
@pytest.mark.parametrize("count", [1, 2])
def test_equal_experts(count: int, normalised: int) -> None:
    """The last ones are chosen."""
    node = contributed("MoE", BIASED, ["y"], k=count, activation_type="relu",
                       normalize_routing_weights=normalised)  # fmt: skip
    scores = tied(EXPERTS)
    x = np.tile(floats(1, DEPTH, seed=3), (len(scores), 1))
    compare(model([node], ROWS, weights=used(BIASED, weights())), {"x": x, "r": scores})


def test_activations() -> None:
    kinds = ("relu", "gelu", "silu", "identity")
    nodes = [contributed("MoE", BIASED, [kind], k=2, activation_type=kind) for kind in kinds]
    proto = model(nodes, ROWS, kinds, used(BIASED, weights()))
    compare(proto, feed(7), feed(1, seed=1))


def test_shares_of_a_row() -> None:
    """By default, a row has one expert, and its share is that among all experts."""
    names = ["x", "r", "w1", "", "w2"]
    whole = {"k": EXPERTS, "normalize_routing_weights": 1, "activation_type": "relu"}
    arrays, few = used(names, weights()), {"k": 1, "activation_type": "relu"}
    other = contributed("MoE", names, ["z"], **whole)
    defaults, explicit = (
        model([contributed("MoE", names, ["y"], **attrs), other], PARTS, "yz", arrays)
        for attrs in ({}, few)
    )
    values = feed(2, 3)
    for a, b in zip(outputs(defaults, values), reference(explicit, values), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)


def test_gates_that_take_turns_with_what_they_multiply() -> None:
    nodes = [contributed("MoE", BIASED, [name], k=2, normalize_routing_weights=1, swiglu_fusion=1,
                         **attrs)
             for name, attrs in (("y", SWIGLU), ("z", {"activation_type": "swiglu"}))]  # fmt: skip
    proto = model(nodes, PARTS, "yz", used(BIASED, weights(2)))
    compare(proto, feed(2, 3), feed(1, 1, seed=1))


def of_experts(values: dict[str, Array], arrays: dict[str, Array], count: int, act: Any) -> Array:
    """Return the definition in float64, a row at a time; shares are normalised."""
    rows = []
    for x, scores in zip(values["x"].reshape(-1, DEPTH), values["r"], strict=True):
        chosen = np.argsort(-scores)[:count]
        shares = np.exp(scores[chosen].astype("float64"))
        total = np.zeros(DEPTH)
        for e, share in zip(chosen, shares / shares.sum(), strict=True):
            first = arrays["w1"][e].astype("float64") @ x + arrays["b1"][e]
            third = arrays["w3"][e].astype("float64") @ x + arrays["b3"][e]
            total += share * (arrays["w2"][e] @ act(first, third) + arrays["b2"][e])
        rows.append(total)
    return np.stack(rows).reshape(values["x"].shape)


def swiglu(gate: Array, linear: Array) -> Array:
    gate, linear = np.minimum(gate, 0.5), np.clip(linear, -0.5, 0.5)
    result: Array = gate / (1 + np.exp(-1.702 * gate)) * (linear + 1)
    return result


def silu(gate: Array, linear: Array) -> Array:
    result: Array = gate / (1 + np.exp(-gate)) * linear
    return result


def test_forms_without_a_kernel_of_onnx_runtime() -> None:
    """Mixtral has a third product; in the last node, all gates come before what they multiply."""
    third, joined = weights(), weights(2)
    part = {"1": slice(INNER), "3": slice(INNER, None)}
    split = joined | {f"{name}{k}": joined[f"{name}1"][:, own] for name in "wb"
                      for k, own in part.items()}  # fmt: skip
    names = [*BIASED, "w3", "b3"]
    pairs = [name if name in "xr" else f"{name}_pair" for name in BIASED]
    common = {"k": 2, "normalize_routing_weights": 1}
    nodes = [contributed("MoE", names, ["y"], **common, **SWIGLU),
             contributed("MoE", names, ["z"], **common, activation_type="silu"),
             contributed("MoE", pairs, ["u"], **common, **SWIGLU, swiglu_fusion=2)]  # fmt: skip
    arrays = used(names, third) | {f"{name}_pair": joined[name] for name in BIASED[2:]}
    got = outputs(model(nodes, PARTS, "yzu", arrays), feed(2, 3))
    for a, own, act in zip(got, (third, third, split), (swiglu, silu, swiglu), strict=True):
        expected = of_experts(feed(2, 3), own, 2, act)
        np.testing.assert_allclose(a, expected, rtol=0, atol=1e-5)


def test_halves() -> None:
    """Matrices stay in float16, and sums are in float32."""
    node = contributed("MoE", BIASED, ["y"], k=2, normalize_routing_weights=1, swiglu_fusion=1,
                       **SWIGLU)  # fmt: skip
    arrays = {name: a.astype("float16") for name, a in used(BIASED, weights(2)).items()}
    values = {name: a.astype("float16") for name, a in feed(4).items()}
    halves: Inputs = {name: (sizes, "float16") for name, (sizes, _) in ROWS.items()}
    got = outputs(model([node], halves, weights=arrays), values)[0]
    wide = model([node], ROWS, weights={k: a.astype("float32") for k, a in arrays.items()})
    expected = reference(wide, {k: a.astype("float32") for k, a in values.items()})[0]
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-3 * abs(expected).max())


def test_the_backend_of_experts_takes_the_products() -> None:
    node = contributed("MoE", BIASED, ["y"], k=2, activation_type="silu")
    proto = model([node], ROWS, weights=used(BIASED, weights()))
    compiled: Any = opinfo.compile(from_model(proto, {}), ["experts", "tvm"])
    taken = [r.backend for r in compiled.dispatched.taken]
    assert taken.count("experts") == 2, compiled.report()
    result: Any = compiled.run(*feed(7).values())
    np.testing.assert_allclose(result, reference(proto, feed(7))[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("names", "attrs", "reason"),
    [(BIASED, {"k": 6}, "k is 6, expected 1 to 5, the number of experts"),
     (BIASED, {"k": 2, "use_sparse_mixer": 1}, "'use_sparse_mixer' is 1, expected 0"),
     (BIASED, {"activation_type": "tanh"}, "'activation_type' is 'tanh', expected one of relu"),
     (BIASED, {"activation_type": "swiglu"}, "'swiglu_fusion' is 0 without fc3_experts_weights"),
     (BIASED, {"swiglu_fusion": 1}, "'swiglu_fusion' is 1 with relu, expected 0"),
     ([*BIASED, "w3"], {"swiglu_fusion": 1, **SWIGLU}, "'swiglu_fusion' is 1 with fc3_experts"),
     ([*BIASED, "", "b3"], {}, "fc3_experts_bias without fc3_experts_weights"),
     (["x", "r", "w3", "", "w3"], {}, "input 2 has the shape"),
     (["x", "r", "w1", "b2", "w2"], {}, "input 3 has the shape"),
     (["x", "x", "w1", "", "w2"], {}, "expected a size of 5, got 8")],
)  # fmt: skip
def test_refusals(names: list[str], attrs: dict[str, Any], reason: str) -> None:
    node = contributed("MoE", names, ["y"], name="here", **attrs)
    inputs = {name: ROWS[name] for name in names if name in ROWS}
    proto = model([node], inputs, weights=used(names, weights()))
    with pytest.raises(FrontendError, match=f"here.*{reason}"):
        from_model(proto, {})
