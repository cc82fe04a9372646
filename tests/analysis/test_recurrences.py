"""Recurrent layers are recognised from a whole PrimFunc, and nothing that resembles one is."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.analysis import op_info
from opinfo.analysis.certify.structural_equality import structurally_equal
from opinfo.analysis.recurrent.cells import GATES
from opinfo.analysis.recurrent.recurrence_operator import NAME
from opinfo.analysis.results.op_info import OpInfo, Refusal
from opinfo.testing.mutants import mutants, parsed

UNITS = 4
USUAL = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
LAYERS: dict[str, tuple[str, dict[str, Any]]] = {
    "lstm": ("LSTM", {}),
    "lstm, lengths": ("LSTM", {"lengths": True, "reverse": True}),
    "lstm, peepholes": ("LSTM", {"peepholes": True}),
    "lstm, activations": ("LSTM", {"activations": ("Relu", "Softsign", "HardSigmoid")}),
    "lstm, rounded": ("LSTM", {"quantized": True}),
    "lstm, one gate for two": ("LSTM", {"input_forget": True}),
    "gru": ("GRU", {"reverse": True}),
    "gru, reset after": ("GRU", {"linear_before_reset": True}),
    "rnn": ("RNN", {"activations": ("LeakyRelu",)}),
}


def _prim_func(cell: str, steps: Any, batch: Any, attrs: dict[str, Any]) -> Any:
    """The PrimFunc of a layer, without the names of its buffers."""
    width = GATES[cell] * UNITS
    shapes = [(steps, batch, width), (UNITS, width), (width,), (batch, UNITS)]
    shapes += [(batch, UNITS)] * (cell == "LSTM")
    types = [relax.TensorType(s, "float32") for s in shapes]
    types += [relax.TensorType((batch,), "int32")] * bool(attrs.get("lengths"))
    types += [relax.TensorType((3 * UNITS,), "float32")] * bool(attrs.get("peepholes"))
    params = [relax.Var(f"x{k}", t) for k, t in enumerate(types)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        call = relax.op.nn.recurrence(params, **{"cell": cell, "activations": USUAL[cell], **attrs})
        builder.emit_func_output(builder.emit(call))
    mod = relax.transform.LegalizeOps()(builder.get())
    (func,) = (f for _, f in mod.functions_items() if isinstance(f, tvm.tirx.PrimFunc))
    return func


@pytest.mark.parametrize("sizes", [(5, 2), "nb"], ids=["static", "symbolic"])
@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_is_recognised_from_its_loops(layer: str, sizes: Any) -> None:
    cell, attrs = LAYERS[layer]
    steps, batch = (tvm.tirx.Var(s, "int64") if isinstance(s, str) else s for s in sizes)
    info = op_info(_prim_func(cell, steps, batch, attrs))
    assert isinstance(info, OpInfo), info
    assert (info.name, info.kind, info.certificate.kind) == (NAME, "kOpaque", "rebuilt")
    expected = {"cell": cell, "activations": USUAL[cell], **attrs}
    assert {k: info.attrs[k] for k in expected} == expected
    others = {k: v for k, v in info.attrs.items() if k not in expected}
    assert not any(others.values())


@pytest.mark.parametrize("layer", ["lstm", "gru"])
def test_a_changed_layer_is_refused(layer: str) -> None:
    cell, attrs = LAYERS[layer]
    func = parsed(_prim_func(cell, 5, 2, attrs).script())
    right = op_info(func)
    assert isinstance(right, OpInfo) and right.name == NAME
    changed = 0
    for change, mutant in islice(mutants(func), 16):
        if structurally_equal(mutant, func):
            continue
        answer = op_info(mutant)
        assert isinstance(answer, Refusal), (change, answer)
        changed += 1
    assert changed > 10


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
    built = tvm.compile(tvm.IRModule({"lstm": func}), target="llvm")
    outs = [tvm.runtime.tensor(np.zeros(s, "float32"))
            for s in ((1, 2, UNITS), (2, UNITS), (2, UNITS), (2, width), (2, UNITS))]  # fmt: skip
    built["lstm"](*map(tvm.runtime.tensor, (inputs, weights, bias, hidden, state)), *outs)
    gates = np.split(inputs[0] + hidden @ weights + bias, 4, axis=1)
    into, out, forget = (1 / (1 + np.exp(-g)) for g in gates[:3])
    after = forget * state + into * np.tanh(gates[3])
    np.testing.assert_allclose(outs[2].numpy(), after, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(outs[1].numpy(), out * np.tanh(after), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(outs[0].numpy()[0], outs[1].numpy())
