"""Mixtures of experts of few bits, compared with ONNX Runtime, or with numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.checks.notes import without_notes
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
from tests.onnx_import.contributed.test_experts import tied

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")

EXPERTS, INNER, DEPTH = 4, 64, 128
ROWS: Inputs = {"x": (["n", DEPTH], "float32"), "r": (["n", EXPERTS], "float32")}
SHARES = {"k": 2, "normalize_routing_weights": 1}
SWIGLU = {"activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": 1.702,
          "activation_beta": 1.0, "swiglu_limit": 7.0}  # fmt: skip
NAMES = ["x", "r", "q1", "s1", "b1", "q2", "s2", "b2", "", "", "", "z1", "z2"]


def packed(values: Array, bits: int) -> Array:
    """Return bytes of values of few bits, the first in the lowest bits."""
    per = 8 // bits
    result = np.zeros((*values.shape[:-1], values.shape[-1] // per), "uint8")
    for k in range(per):
        result |= (values[..., k::per] << (bits * k)).astype("uint8")
    return result


def layers(bits: int, block: int, points: bool, parts: int) -> tuple[dict[str, Array], list[Array]]:
    """Return the operands of two layers, and their matrices in float64."""
    rng, arrays, matrices = np.random.default_rng(bits + block), dict[str, Array](), []
    for k, (columns, depth) in enumerate(((parts * INNER, DEPTH), (DEPTH, INNER)), 1):
        groups = depth // block if block else 1
        values = rng.integers(0, 1 << bits, (EXPERTS, columns, depth))
        scales = rng.uniform(0.1, 0.4, (EXPERTS, columns, groups)).astype("float32") / (1 << bits)
        zeros = rng.integers(0, 1 << bits, scales.shape)
        zeros = zeros if points else np.full_like(zeros, 1 << (bits - 1))
        wide = values.reshape(EXPERTS, columns, groups, -1) - zeros[..., None]
        matrices.append((wide * scales[..., None].astype("float64")).reshape(values.shape))
        arrays |= {f"q{k}": packed(values, bits), f"b{k}": floats(EXPERTS, columns, seed=k),
                   f"s{k}": scales if block else scales[..., 0]}  # fmt: skip
        if points:
            arrays[f"z{k}"] = packed(zeros if block else zeros[..., 0], bits)
    return arrays, matrices


def nodes_of(arrays: dict[str, Array], **attrs: Any) -> Any:
    names = [name if name in arrays or name in "xr" else "" for name in NAMES]
    while not names[-1]:
        names.pop()
    return contributed("QMoE", names, ["y"], name="here", **{**SHARES, **attrs})


def feed(count: int) -> dict[str, Array]:
    scores = np.random.default_rng(count).permuted(np.tile(np.arange(EXPERTS), (count, 1)), axis=1)
    return {"x": floats(count, DEPTH, seed=count), "r": scores.astype("float32") / 2}


FORMS = [(4, 0, False), (4, 0, True), (4, 32, False), (4, 16, True), (8, 0, True), (2, 16, True)]


@pytest.mark.parametrize(("bits", "block", "points"), FORMS)
def test_bits_and_blocks(bits: int, block: int, points: bool) -> None:
    arrays, _ = layers(bits, block, points, 2)
    attrs = {"expert_weight_bits": bits, **({"block_size": block} if block else {}), **SWIGLU}
    proto = model([nodes_of(arrays, **attrs)], ROWS, weights=arrays)
    expected = reference(proto, feed(6))[0]
    got = outputs(proto, feed(6))[0]
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5 * abs(expected).max())


def test_bytes_in_blocks() -> None:
    """ONNX Runtime rounds the rows to 8 bits then, so the oracle is numpy."""
    arrays, (first, second) = layers(8, 32, True, 1)
    node = nodes_of(arrays, expert_weight_bits=8, block_size=32, activation_type="relu")
    got = outputs(model([node], ROWS, weights=arrays), feed(5))[0]
    values, expected = feed(5), np.zeros((5, DEPTH))
    for row, (x, scores) in enumerate(zip(values["x"], values["r"], strict=True)):
        chosen = np.argsort(-scores)[:2]
        shares = np.exp(scores[chosen]) / np.exp(scores[chosen]).sum()
        for e, share in zip(chosen, shares, strict=True):
            hidden = np.maximum(first[e] @ x + arrays["b1"][e], 0)
            expected[row] += share * (second[e] @ hidden + arrays["b2"][e])
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5 * abs(expected).max())


def test_halves() -> None:
    arrays, _ = layers(4, 32, False, 2)
    node = nodes_of(arrays, block_size=32, **SWIGLU)
    halves = {name: a if a.dtype == np.uint8 else a.astype("float16") for name, a in arrays.items()}
    wide = {name: a if a.dtype == np.uint8 else a.astype("float32") for name, a in halves.items()}
    kinds: Inputs = {name: (sizes, "float16") for name, (sizes, _) in ROWS.items()}
    values = {name: a.astype("float16") for name, a in feed(4).items()}
    got = outputs(model([node], kinds, weights=halves), values)[0]
    expected = reference(model([node], ROWS, weights=wide),
                         {name: a.astype("float32") for name, a in values.items()})[0]  # fmt: skip
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, expected, rtol=0, atol=4e-3 * abs(expected).max())


def test_equal_experts() -> None:
    """The last ones are chosen, of those that have equal scores."""
    arrays, _ = layers(4, 32, False, 2)
    scores = tied(EXPERTS)
    values = {"x": np.tile(floats(1, DEPTH, seed=3), (len(scores), 1)), "r": scores}
    proto = model([nodes_of(arrays, block_size=32, **SWIGLU)], ROWS, weights=arrays)
    expected = reference(proto, values)[0]
    got = outputs(proto, values)[0]
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5 * abs(expected).max())


def test_matrices_stay_packed() -> None:
    """The backend of experts takes the products."""
    arrays, _ = layers(4, 32, False, 2)
    proto = model([nodes_of(arrays, block_size=32, **SWIGLU)], ROWS, weights=arrays)
    compiled: Any = opinfo.compile(from_model(proto, {}), ["experts", "tvm"])
    taken = [r.backend for r in compiled.dispatched.taken]
    assert taken.count("experts") == 2, compiled.report()
    expected = reference(proto, feed(6))[0]
    result: Any = compiled.run(*feed(6).values())
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5 * abs(expected).max())


@pytest.mark.parametrize(
    ("attrs", "reason"),
    [({"expert_weight_bits": 3}, "'expert_weight_bits' is 3, expected one of 2, 4, 8"),
     ({"block_size": 24}, "'block_size' is 24, expected a power of 2 from 16 on"),
     ({"block_size": 256}, "input 2 has rows of 128 values, expected a multiple of the blocks"),
     ({"block_size": 16}, "input 3 has the shape"),
     ({"normalize_routing_weights": 0}, "_weights' is 0, .* expected 1: export matrices of floats"),
     ({"weights_prepacked": 1}, "'weights_prepacked' is 1, expected 0"),
     ({"quant_type": "fp4"}, "'quant_type' is fp4, expected int"),
     ({"activation_type": "silu", "swiglu_fusion": 0}, "input 2 has the shape")],
)  # fmt: skip
def test_refusals(attrs: dict[str, Any], reason: str) -> None:
    arrays, _ = layers(4, 32, False, 2)
    node = nodes_of(arrays, **{"block_size": 32, **SWIGLU, **attrs})
    with pytest.raises(FrontendError, match=f"here.*{reason}"):
        from_model(model([node], ROWS, weights=arrays), {})


def test_weights_of_the_sum_that_are_an_input_are_refused() -> None:
    arrays, _ = layers(4, 32, False, 2)
    node = nodes_of(arrays, block_size=32, **SWIGLU)
    node.input.extend([""] * (14 - len(node.input)) + ["r"])
    with pytest.raises(FrontendError, match=r"here.*'router_weights' has no lowering"):
        from_model(model([node], ROWS, weights=arrays), {})


def test_a_file_that_does_not_say_how_matrices_are_packed_is_noted() -> None:
    """A file for a GPU has the same attributes, and other bytes."""
    arrays, _ = layers(4, 32, False, 2)
    for attrs, count in (({}, 1), ({"weights_prepacked": -1}, 1), ({"weights_prepacked": 0}, 0)):
        node = nodes_of(arrays, block_size=32, **SWIGLU, **attrs)
        _, notes = without_notes(from_model(model([node], ROWS, weights=arrays), {}))
        assert len(notes) == count
        assert all("'y' (QMoE): its attribute 'weights_prepacked' is -1" in n for n in notes)
