"""Convolutions over earlier positions, with a state, compared with ONNX Runtime."""

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
    compare,
    contributed,
    floats,
    model,
    outputs,
    reference,
)

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")

CHANNELS = 3
WEIGHTS: dict[str, Array] = {"w": floats(CHANNELS, 1, 4), "b": floats(CHANNELS, seed=1),
                             "v": floats(CHANNELS, 1, 3, seed=2)}  # fmt: skip


def test_steps_and_sequences() -> None:
    """A step has one position, fewer than the state; a prompt may have no state."""
    nodes = [contributed("CausalConvWithState", ["x", "w", "b", "p"], ["a", "b0"],
                         activation="silu"),
             contributed("CausalConvWithState", ["x", "v", "", "q"], ["c", "d"], dilation=2),
             contributed("CausalConvWithState", ["x", "w", "b"], ["e", "f"],
                         activation="swish")]  # fmt: skip
    inputs: Inputs = {"x": (["n", CHANNELS, "s"], "float32"),
                      "p": (["n", CHANNELS, 3], "float32"),
                      "q": (["n", CHANNELS, 4], "float32")}  # fmt: skip
    feeds = [
        {"x": floats(n, CHANNELS, s), "p": floats(n, CHANNELS, 3, seed=3),
         "q": floats(n, CHANNELS, 4, seed=4)}
        for n, s in ((2, 5), (1, 1), (2, 2))
    ]  # fmt: skip
    compare(model(nodes, inputs, ["a", "b0", "c", "d", "e", "f"], WEIGHTS), *feeds)


def test_channels_last() -> None:
    node = contributed("CausalConvWithState", ["x", "w", "b", "p"], ["y", "s"], channels_last=1)
    inputs: Inputs = {"x": (["n", "s", "c"], "float32"), "p": (["n", 3, "c"], "float32")}
    proto = model([node], inputs, ["y", "s"], WEIGHTS)
    compare(proto, {"x": floats(2, 5, CHANNELS), "p": floats(2, 3, CHANNELS, seed=3)})


def test_halves() -> None:
    node = contributed("CausalConvWithState", ["x", "w", "b", "p"], ["y", "s"], activation="silu")
    kinds = {"x": [2, CHANNELS, 5], "p": [2, CHANNELS, 3]}
    halves = {name: a.astype("float16") for name, a in WEIGHTS.items()}
    feed = {name: floats(*sizes, seed=len(name)).astype("float16") for name, sizes in kinds.items()}
    got = outputs(model([node], {k: (v, "float16") for k, v in kinds.items()}, "ys", halves), feed)
    wide = {name: a.astype("float32") for name, a in halves.items()}
    expected = reference(model([node], {k: (v, "float32") for k, v in kinds.items()}, "ys", wide),
                         {name: a.astype("float32") for name, a in feed.items()})  # fmt: skip
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == np.float16
        np.testing.assert_allclose(a, b, rtol=0, atol=2.0**-11 * abs(b).max())


@pytest.mark.parametrize(
    ("names", "attrs", "reason"),
    [(["x", "w"], {"state_window": 2}, "'state_window' is 2, expected 0"),
     (["x", "w"], {"activation": "relu"}, "'activation' is 'relu', expected none, silu or swish"),
     (["x", "w"], {"dilation": 0}, "'dilation' is 0, expected at least 1"),
     (["x", "b"], {}, r"its weights have the shape \[3\], expected \[channels, 1, taps\]"),
     (["x", "w", "", "p"], {}, "expected a size of 3, got 2")],
)  # fmt: skip
def test_refusals(names: list[str], attrs: dict[str, Any], reason: str) -> None:
    node = contributed("CausalConvWithState", names, ["y", "s"], name="here", **attrs)
    inputs: Inputs = {"x": (["n", CHANNELS, "s"], "float32"),
                      "p": (["n", CHANNELS, 2], "float32")}  # fmt: skip
    used = {name: inputs[name] for name in names if name in inputs}
    with pytest.raises(FrontendError, match=f"here.*{reason}"):
        from_model(model([node], used, ["y", "s"], WEIGHTS), {})
