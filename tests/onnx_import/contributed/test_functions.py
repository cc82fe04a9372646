"""Operators of ONNX Runtime's domain that ONNX has, too, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

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
)

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")

WEIGHTS: dict[str, Array] = {
    "one": np.array(1), "low": np.array(-1, "int32"), "high": np.array([2], "int32"),
    "pads": np.array([[1, 0, 0, 2, 0, 1]]), "value": np.array([2.5], "float32"),
    "start": np.array([1.5], "float32"), "stop": np.array(9, "float32"),
    "step": np.array([2], "float32"), "few": np.array(3, "int16"), "many": np.array(7, "int16"),
}  # fmt: skip


def test_tensors() -> None:
    """Names of sizes stay; ONNX has `Trilu` from operator set 14 on only."""
    nodes = [contributed("Trilu", ["x"], ["u"]), contributed("Trilu", ["x", "one"], ["v"], upper=0),
             contributed("ExpandDims", ["x", "low"], ["e"]),
             contributed("ExpandDims", ["x", "high"], ["f"]),
             contributed("GatherND", ["x", "i"], ["g"]), contributed("SampleOp", ["x"], ["s"]),
             contributed("Pad", ["x", "pads", "value"], ["p"]),
             contributed("Pad", ["x", "pads"], ["q"], mode="edge"),
             contributed("Range", ["start", "stop", "step"], ["r"]),
             contributed("Range", ["few", "many"], ["t"])]  # fmt: skip
    inputs: Inputs = {"x": (["b", 4, "n"], "float32"), "i": (["k", 2], "int32")}
    feeds = [{"x": floats(b, 4, n), "i": np.array(points, "int32")}
             for b, n, points in ((3, 5, [[0, 1], [-1, 3]]), (1, 2, [[0, -4]]))]  # fmt: skip
    compare(model(nodes, inputs, "uvefgspqrt", WEIGHTS, opset=13), *feeds)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_ranges_of_sizes(dtype: str) -> None:
    """The numbers of a range come from a size, whose name the result has."""
    nodes = [helper.make_node("Shape", ["x"], ["shape"], end=1),
             helper.make_node("Squeeze", ["shape"], ["size"]),
             helper.make_node("Cast", ["size"], ["n"], to=6 if dtype == "int32" else 7),
             contributed("Range", ["zero", "n"], ["y"])]  # fmt: skip
    proto = model(nodes, {"x": (["n", 2], "float32")}, weights={"zero": np.array(0, dtype)})
    mod = compare(proto, {"x": floats(3, 2)}, {"x": floats(5, 2)})
    assert str(mod["main"].ret_ty.shape[0]) == "n"


def test_products_of_16_bits() -> None:
    """Sums wrap around as int32, as in ONNX Runtime."""
    node, rng = contributed("MatMulInteger16", ["a", "b"], ["y"]), np.random.default_rng(0)
    a, b = (rng.integers(-32768, 32767, shape).astype("int16") for shape in ((2, 3, 4), (4, 5)))
    a[0, 0] = b[:, 0] = -32768
    inputs: Inputs = {"a": (["n", 3, 4], "int16"), "b": ([4, 5], "int16")}
    compare(model([node], inputs), {"a": a, "b": b})
    with pytest.raises(FrontendError, match="inputs are uint16 and int16, expected int16"):
        from_model(model([node], {**inputs, "a": (["n", 3, 4], "uint16")}), {})


def test_grids() -> None:
    forms: list[dict[str, Any]] = [
        {}, {"mode": "bilinear", "padding_mode": "reflection", "align_corners": 1},
        {"mode": "nearest", "padding_mode": "border"}, {"mode": "bicubic"},
    ]  # fmt: skip
    nodes = [contributed("GridSample", ["x", "g"], [f"y{k}"], **form)
             for k, form in enumerate(forms)]  # fmt: skip
    inputs: Inputs = {"x": (["n", 2, 5, 6], "float32"), "g": (["n", 3, 4, 2], "float32")}
    proto = model(nodes, inputs, [f"y{k}" for k in range(len(forms))], opset=13)
    compare(proto, {"x": floats(2, 2, 5, 6), "g": 1.3 * floats(2, 3, 4, 2)})


def test_transforms_of_real_numbers() -> None:
    """ONNX Runtime has no CPU kernel for them."""
    node = contributed("Rfft", ["x"], ["y"], signal_ndim=1, onesided=1, normalized=0)
    x = floats(2, 3, 8)
    got = outputs(model([node], {"x": (["b", 3, 8], "float32")}), {"x": x})[0]
    expected = np.fft.rfft(x.astype("float64"))
    np.testing.assert_allclose(got[..., 0] + 1j * got[..., 1], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("op", "attrs", "reason"),
    [("Rfft", {"signal_ndim": 2}, "'signal_ndim' is 2, expected 1"),
     ("Trilu", {"lower": 1}, "unknown attribute 'lower'; the attributes are: upper"),
     ("Pad", {"axes": [0]}, "unknown attribute 'axes'"),
     ("Unique", {}, "slices of 3 dimensions, expected a vector, or no axis"),
     ("Irfft", {}, "has no lowering to Relax: its result has another size"),
     ("GreedySearch", {}, "has no lowering to Relax: it runs a decoder"),
     ("MurmurHash3", {}, "MurmurHash3 of domain 'com.microsoft' has no lowering to Relax")],
)  # fmt: skip
def test_refusals(op: str, attrs: dict[str, Any], reason: str) -> None:
    node = contributed(op, ["x", "pads"] if op == "Pad" else ["x"], ["y"], name="here", **attrs)
    with pytest.raises(FrontendError, match=f"here.*{reason}"):
        from_model(model([node], {"x": (["n", 4, 4], "float32")}, weights=WEIGHTS), {})
