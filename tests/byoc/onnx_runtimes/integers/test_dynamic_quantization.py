"""Dynamic quantisation, alone and in an LSTM: what is recovered, and what is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from onnx import helper
from tvm import relax

from opinfo.byoc.compile import compile_module
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.prepare.prepare import Preparer, prepare
from opinfo.byoc.prepare.raising.raise_products import may_dequantize
from opinfo.frontend.formats.from_onnx import from_model

from ....layout import nets
from ....onnx_import.against_runtime import model as onnx_model
from .integer_models import written

op, nn = relax.op, relax.op.nn
RANDOM = np.random.default_rng(0)
Emit = Callable[[Any], Any]
#: Where the chain of a dynamic quantisation may differ, and what then is not recovered.
CHANGES = ("steps", "flat", "axis", "bound", "span", "point", "late", "clip")


def _chain(emit: Emit, x: Any, change: str = "") -> Any:
    """Dynamic quantisation as the importer writes it, changed in one place."""
    zero, steps = relax.const(0.0), relax.const(254.0 if change == "steps" else 255.0)
    axis = [1] if change == "axis" else None
    low = emit(op.minimum(emit(op.min(x, axis)), zero))
    high = emit(op.maximum(emit(op.max(x)), relax.const(1.0 if change == "bound" else 0.0)))
    low = emit(op.min(low)) if change == "axis" else low
    span = emit(op.add(high, low) if change == "span" else op.subtract(high, low))
    flat = emit(op.equal(low, high))
    one = relax.const(2.0 if change == "flat" else 1.0)
    scale = emit(op.where(flat, one, emit(op.divide(span, steps))))
    point = emit(op.subtract(zero, emit(op.divide(low, scale))))
    point = emit(op.clip(point, 0.0, 255.0))
    point = point if change == "point" else emit(op.round(point))
    codes = emit(op.divide(x, scale))
    if change == "late":
        codes = emit(op.round(emit(op.add(codes, point))))
    else:
        codes = emit(op.add(emit(op.round(codes)), point))
    return emit(relax.Tuple([emit(op.clip(codes, 1.0 if change == "clip" else 0.0, 255.0)), scale]))


def test_a_dynamic_quantization_is_recovered() -> None:
    (nodes,) = written(nets.net(lambda e, r, x: _chain(e, x), (3, 16)))
    assert nodes == ["DynamicQuantizeLinear", "Cast"]


@pytest.mark.parametrize("change", CHANGES)
def test_another_chain_is_not(change: str) -> None:
    mod = nets.net(lambda e, r, x: _chain(e, x, change), (3, 16))
    (nodes,) = written(mod)
    assert "Clip" in nodes
    if change not in ("point", "late", "clip"):
        assert "DynamicQuantizeLinear" not in nodes


def _lstm(size: int = 6, units: int = 4) -> Any:
    """DynamicQuantizeLSTM in both directions over any number of steps."""
    width = 4 * units
    arrays = {
        "W": RANDOM.integers(-128, 128, (2, size, width)).astype("int8"),
        "R": RANDOM.integers(-128, 128, (2, units, width)).astype("int8"),
        "B": RANDOM.standard_normal((2, 2 * width)).astype("float32"),
        "s": np.array([0.01, 0.02], "float32"), "z": np.zeros(2, "int8"),
    }  # fmt: skip
    inputs = ["x", "W", "R", "B", "", "", "", "", "s", "z", "s", "z"]
    node = helper.make_node("DynamicQuantizeLSTM", inputs, ["y", "h", "c"], hidden_size=units,
                            direction="bidirectional", domain="com.microsoft")  # fmt: skip
    return onnx_model([node], {"x": (["n", 1, size], "float32")}, ["y", "h", "c"], arrays)


def test_an_lstm_with_dynamic_quantization_is_written_as_it_was() -> None:
    proto = _lstm()
    mod = from_model(proto, {})
    (region,) = written(mod)
    assert region.count("DynamicQuantizeLSTM") == 2 and "MatMul" not in region
    compiled = compile_module(mod, ["onnxruntime"])
    # ONNX Runtime's own session saturates on CPUs without VNNI.
    plain = compile_module(mod, []).machine()["main"]
    for steps in (1, 9):
        x = RANDOM.standard_normal((steps, 1, 6)).astype("float32")
        got = compiled.machine()["main"](tvm.runtime.tensor(x))
        for ours, exact in zip(got, plain(tvm.runtime.tensor(x)), strict=True):
            np.testing.assert_allclose(ours.numpy(), exact.numpy(), rtol=0, atol=1e-6)


def test_an_lstm_of_integers_has_no_weights_of_few_bits() -> None:
    """Its PrimFunc takes int8, but models with it are raced and go to runtimes."""
    mod = from_model(_lstm(), {})
    assert may_dequantize(mod) and not Preparer(mod).few_bits


def test_several_sequences_stay_with_tvm() -> None:
    proto = _lstm()
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 2
    left = dispatch(prepare(from_model(proto, {}), ["onnxruntime"]), ["onnxruntime"]).left
    reason = "the batch is 2, expected 1: ONNX Runtime may round groups of sequences apart"
    assert [reason in o.why for o in left if o.op == "relax.nn.quantized_lstm"] == [True] * 2
