"""Recurrent layers are recognised from a whole PrimFunc, and nothing that resembles one is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.analysis import op_info
from opinfo.analysis.certify.structural_equality import structurally_equal
from opinfo.analysis.proposal.call_op import constructor
from opinfo.analysis.recurrent.cells import GATES
from opinfo.analysis.recurrent.quantized_lstm_operator import NAME as QUANTIZED
from opinfo.analysis.recurrent.quantized_lstm_operator import quantized_lstm
from opinfo.analysis.recurrent.recurrence_operator import NAME, recurrence
from opinfo.analysis.results.op_info import OpInfo, Refusal
from opinfo.testing.mutants import changes_of, edited, parsed
from opinfo.testing.unoptimised import unoptimised

from ...common.prim_funcs import prim_func
from ...part import OneIn

UNITS, SIZE = 4, 6
USUAL = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
LAYERS: dict[str, tuple[str, dict[str, Any]]] = {
    "lstm": ("LSTM", {}),
    "lstm, lengths": ("LSTM", {"lengths": True, "reverse": True}),
    "lstm, peepholes": ("LSTM", {"peepholes": True}),
    "lstm, activations": ("LSTM", {"activations": ("Relu", "Softsign", "HardSigmoid")}),
    "lstm, one gate for two": ("LSTM", {"input_forget": True}),
    "gru": ("GRU", {"reverse": True}),
    "gru, reset after": ("GRU", {"linear_before_reset": True}),
    "rnn": ("RNN", {"activations": ("LeakyRelu",)}),
}


#: LSTMs with dynamic quantisation; whether each column of weights has numbers of its own.
QUANTIZED_LAYERS: dict[str, tuple[bool, dict[str, Any]]] = {
    "quantised": (False, {}),
    "quantised, columns": (True, {"reverse": True}),
    "quantised, lengths": (False, {"lengths": True, "reverse": True}),
    "quantised, peepholes": (True, {"peepholes": True}),
    "quantised, activations": (False, {"activations": ("Relu", "Softsign", "HardSigmoid")}),
    "quantised, one gate for two": (False, {"input_forget": True}),
}


def _prim_func(cell: str, steps: Any, batch: Any, attrs: dict[str, Any]) -> Any:
    """The PrimFunc of a layer, without the names of its buffers."""
    width = GATES[cell] * UNITS
    shapes = [(steps, batch, width), (UNITS, width), (width,), (batch, UNITS)]
    shapes += [(batch, UNITS)] * (cell == "LSTM")
    types = [relax.TensorType(s, "float32") for s in shapes]
    params = _params(types, batch, attrs)
    attrs = {"cell": cell, "activations": USUAL[cell], **attrs}
    return prim_func(lambda *operands: recurrence(operands, **attrs), params)


def _quantized(steps: Any, batch: Any, columns: bool, attrs: dict[str, Any]) -> Any:
    """The PrimFunc of an LSTM with dynamic quantisation."""
    width = 4 * UNITS
    numbers = (width if columns else 1,)
    types = [relax.TensorType((steps, batch, SIZE), "float32")]
    for rows, dtype in ((SIZE, "int8"), (UNITS, "uint8")):
        types += [relax.TensorType((rows, width), dtype), relax.TensorType(numbers, "float32"),
                  relax.TensorType(numbers, dtype)]  # fmt: skip
    types += [relax.TensorType(s, "float32") for s in ((width,), *[(batch, UNITS)] * 2)]
    params = _params(types, batch, attrs)
    attrs = {"activations": USUAL["LSTM"], **attrs}
    return prim_func(lambda *operands: quantized_lstm(operands, **attrs), params)


def _params(types: list[Any], batch: Any, attrs: dict[str, Any]) -> list[Any]:
    lengths = [relax.TensorType((batch,), "int32")] * bool(attrs.get("lengths"))
    peepholes = [relax.TensorType((3 * UNITS,), "float32")] * bool(attrs.get("peepholes"))
    return [relax.Var(f"x{k}", t) for k, t in enumerate([*types, *lengths, *peepholes])]


def _sizes(sizes: Any) -> list[Any]:
    return [tvm.tirx.Var(s, "int64") if isinstance(s, str) else s for s in sizes]


def _layer(layer: str, steps: Any, batch: Any) -> tuple[Any, str, dict[str, Any]]:
    """The PrimFunc of a layer, the name of its operator, and the attributes that are on."""
    if layer in QUANTIZED_LAYERS:
        columns, attrs = QUANTIZED_LAYERS[layer]
        on = {"activations": USUAL["LSTM"], **attrs}
        return _quantized(steps, batch, columns, attrs), QUANTIZED, on
    cell, attrs = LAYERS[layer]
    on = {"cell": cell, "activations": USUAL[cell], **attrs}
    return _prim_func(cell, steps, batch, attrs), NAME, on


@pytest.mark.part
@pytest.mark.parametrize("sizes", [(5, 2), "nb"], ids=["static", "symbolic"])
@pytest.mark.parametrize("layer", [*LAYERS, *QUANTIZED_LAYERS])
def test_a_layer_is_recognised_from_its_loops(layer: str, sizes: Any) -> None:
    func, name, attrs = _layer(layer, *_sizes(sizes))
    info = op_info(func)
    assert isinstance(info, OpInfo), info
    assert (info.name, info.kind, info.certificate.kind) == (name, "kOpaque", "rebuilt")
    assert {k: info.attrs[k] for k in attrs} == attrs
    assert not any(v for k, v in info.attrs.items() if k not in attrs)


@pytest.mark.parametrize("layer", ["lstm", "gru", "quantised, columns"])
def test_a_changed_layer_is_refused(layer: str, one_in: OneIn) -> None:
    func = parsed(_layer(layer, 5, 2)[0].script())
    text, (most, least) = func.script(), (6, 5) if layer in QUANTIZED_LAYERS else (16, 11)
    right = op_info(func)
    assert isinstance(right, OpInfo) and right.name in (NAME, QUANTIZED)
    changed = 0
    for change, mutant in edited(text, one_in(3, changes_of(text)[:most])):
        if structurally_equal(mutant, func):
            continue
        answer = op_info(mutant)
        assert isinstance(answer, Refusal), (change, answer)
        changed += 1
    assert changed >= one_in.least(3, least)


def test_another_loop_over_such_shapes_is_refused_with_its_own_reason() -> None:
    func = _prim_func("RNN", 5, 2, {})
    text = func.script().replace("T.tanh(", "T.cos(")
    answer = op_info(parsed(text))
    assert isinstance(answer, Refusal) and "a running value depends on another" in answer.reason


def test_the_operator_computes_what_its_formula_says() -> None:
    """An LSTM of one step, by its definition."""
    rng = np.random.default_rng(0)
    width = 4 * UNITS
    shapes = [(1, 2, width), (UNITS, width), (width,), (2, UNITS), (2, UNITS)]
    inputs, weights, bias, hidden, state = (rng.uniform(-1, 1, s).astype("float32") for s in shapes)
    func = _prim_func("LSTM", 1, 2, {}).with_attr("global_symbol", "lstm")
    built = unoptimised(tvm.IRModule({"lstm": func}))
    outs = [tvm.runtime.tensor(np.zeros(s, "float32"))
            for s in ((1, 2, UNITS), (2, UNITS), (2, UNITS), (2, width), (2, UNITS))]  # fmt: skip
    built["lstm"](*map(tvm.runtime.tensor, (inputs, weights, bias, hidden, state)), *outs)
    gates = np.split(inputs[0] + hidden @ weights + bias, 4, axis=1)
    into, out, forget = (1 / (1 + np.exp(-g)) for g in gates[:3])
    after = forget * state + into * np.tanh(gates[3])
    np.testing.assert_allclose(outs[2].numpy(), after, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(outs[1].numpy(), out * np.tanh(after), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(outs[0].numpy()[0], outs[1].numpy())


def _levels(x: Any) -> tuple[Any, Any]:
    """The integers nearest to a tensor, less the zero point, and the scale, by ONNX's formula."""
    low, high = min(np.float32(0), x.min()), max(np.float32(0), x.max())
    scale = np.float32(1) if low == high else np.float32((high - low) / np.float32(255))
    point = np.rint(np.clip(-low / scale, 0, 255))
    return np.clip(np.rint(x / scale) + point, 0, 255) - point, scale


@pytest.mark.parametrize("columns", [False, True])
def test_the_quantized_operator_computes_what_its_formula_says(columns: bool) -> None:
    """Three steps by the definition, in integers and real numbers."""
    rng = np.random.default_rng(1)
    width, steps = 4 * UNITS, 3
    count = width if columns else 1
    x = rng.uniform(-1, 1, (steps, 1, SIZE)).astype("float32")
    parts = []
    for rows, dtype, low in ((SIZE, "int8", -128), (UNITS, "uint8", 0)):
        codes, zero = (rng.integers(low, low + 256, s).astype(dtype)
                       for s in ((rows, width), (count,)))  # fmt: skip
        parts += [codes, rng.uniform(0.005, 0.02, count).astype("float32"), zero]
    bias, hidden, state = (rng.uniform(-1, 1, s).astype("float32")
                           for s in ((width,), (1, UNITS), (1, UNITS)))  # fmt: skip
    func = _quantized(steps, 1, columns, {}).with_attr("global_symbol", "lstm")
    shapes = [(steps, 1, UNITS), (1, UNITS), (1, UNITS), (1, width), (8,), (SIZE,), (width,), (1,)]
    outs = [tvm.runtime.tensor(np.zeros(s, d))
            for s, d in zip(shapes, ["float32"] * 5 + ["int32"] * 3, strict=True)]  # fmt: skip
    built = unoptimised(tvm.IRModule({"lstm": func}))
    built["lstm"](*map(tvm.runtime.tensor, (x, *parts, bias, hidden, state)), *outs)
    w, ws, wz, r, rs, rz = (p.astype("float64") for p in parts)
    codes, scale = _levels(x)
    inputs = codes[:, 0] @ (w - wz) * scale * ws
    for step in range(steps):
        codes, scale = _levels(hidden)
        gates = inputs[step] + (codes @ (r - rz) * scale * rs)[0] + bias
        into, out, forget = (1 / (1 + np.exp(-g)) for g in np.split(gates, 4)[:3])
        state = forget * state + into * np.tanh(np.split(gates, 4)[3])
        hidden = (out * np.tanh(state)).astype("float32")
        np.testing.assert_allclose(outs[0].numpy()[step], hidden, atol=1e-5)
    np.testing.assert_allclose(outs[2].numpy(), state, atol=1e-5)


def test_operators_of_opinfo_are_not_set_on_tvm() -> None:
    assert not hasattr(relax.op.nn, "recurrence") and not hasattr(relax.op.nn, "quantized_lstm")
    assert constructor(NAME) is recurrence and constructor(QUANTIZED) is quantized_lstm
