"""LSTM, GRU and RNN against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

import opinfo
from opinfo.frontend import FrontendError
from opinfo.frontend.formats.from_onnx import from_model
from tests.models.weights import Array
from tests.onnx_import.against_runtime import compare, floats, model
from tests.onnx_import.operators.against_reference import outputs

UNITS, SIZE = 4, 3
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _net(op: str, steps: int | str, batch: int | str, states: bool = True, lengths: bool = False,
         peepholes: bool = False, **attrs: Any) -> Any:  # fmt: skip
    """Return a model of one recurrent node with all its outputs."""
    count = 2 if attrs.get("direction") == "bidirectional" else 1
    width = GATES[op] * UNITS
    weights = {"W": floats(count, width, SIZE, seed=1), "R": floats(count, width, UNITS, seed=2),
               "B": floats(count, 2 * width, seed=3)}  # fmt: skip
    inputs: dict[str, Any] = {"x": ([steps, batch, SIZE], "float32")}
    names = ["x", "W", "R", "B", "", "", "", ""]
    if lengths:
        inputs["lengths"], names[4] = ([batch], "int32"), "lengths"
    if states:
        inputs["h"], names[5] = ([count, batch, UNITS], "float32"), "h"
        if op == "LSTM":
            inputs["c"], names[6] = ([count, batch, UNITS], "float32"), "c"
    if peepholes:
        weights["P"], names[7] = floats(count, 3 * UNITS, seed=4), "P"
    names = names[: {"LSTM": 8}.get(op, 6)]
    outputs = ["y", "yh", "yc"][: 3 if op == "LSTM" else 2]
    node = helper.make_node(op, names, outputs, hidden_size=UNITS, **attrs)
    return model([node], inputs, outputs, weights)


def _feed(proto: Any, steps: int, batch: int) -> dict[str, Array]:
    """Return inputs of the given sizes."""
    sizes = {"n": steps, "b": batch}
    feed = {}
    for k, value in enumerate(proto.graph.input):
        dims = [d.dim_value or sizes[d.dim_param] for d in value.type.tensor_type.shape.dim]
        feed[value.name] = floats(*dims, seed=10 + k)
    if "lengths" in feed:
        feed["lengths"] = np.arange(1, batch + 1, dtype="int32") % (steps + 1)
    return feed


@pytest.mark.part
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_symbolic_steps_and_batch(op: str, direction: str) -> None:
    proto = _net(op, "n", "b", direction=direction)
    compare(proto, _feed(proto, 5, 2), _feed(proto, 1, 1))


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_few_steps_are_unrolled_into_operators(op: str) -> None:
    proto = _net(op, 2, "b", direction="bidirectional")
    mod = compare(proto, _feed(proto, 2, 3))
    assert [str(v) for v in mod.get_global_vars()] == [str(mod.get_global_var("main"))]


def test_lengths_of_sequences() -> None:
    proto = _net("LSTM", "n", "b", lengths=True, direction="bidirectional")
    compare(proto, _feed(proto, 5, 4))


@pytest.mark.parametrize("steps", [2, "n"])
def test_peepholes(steps: int | str) -> None:
    proto = _net("LSTM", steps, 2, peepholes=True)
    compare(proto, _feed(proto, 2, 2))


@pytest.mark.parametrize("steps", [2, "n"])
def test_linear_before_reset(steps: int | str) -> None:
    proto = _net("GRU", steps, 2, linear_before_reset=1, states=False)
    compare(proto, _feed(proto, 2, 2))


def test_other_activations() -> None:
    names = ["Relu", "Softsign", "HardSigmoid"]
    proto = _net("LSTM", "n", 2, activations=names, states=False)
    compare(proto, _feed(proto, 3, 2))


@pytest.mark.part
@pytest.mark.parametrize("steps", [2, "n"])
@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_what_activations_are_applied_to_is_clipped(op: str, steps: int | str) -> None:
    proto = _net(op, steps, "b", clip=0.25)
    compare(proto, _feed(proto, 2, 2))


PARAMETERS: dict[str, dict[str, Any]] = {
    "LSTM": {"activations": ["HardSigmoid", "ScaledTanh", "LeakyRelu"],
             "activation_alpha": [0.3, 1.5, 0.2], "activation_beta": [0.4, 0.5]},
    "GRU": {"activations": ["Sigmoid", "Elu"], "activation_alpha": [0.5], "clip": 0.5},
    "RNN": {"activations": ["Affine"], "activation_alpha": [0.5], "activation_beta": [0.25]},
    "ThresholdedRelu": {"activations": ["ThresholdedRelu"], "activation_alpha": [0.125]},
    "Softplus": {"activations": ["Softplus"]}, "LeakyRelu": {"activations": ["LeakyRelu"]},
}  # fmt: skip


@pytest.mark.part
@pytest.mark.parametrize("steps", [2, "n"])
@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_of_activations(name: str, steps: int | str) -> None:
    """They are in the order of the activations that have some."""
    proto = _net(name if name in GATES else "RNN", steps, "b", **PARAMETERS[name])
    compare(proto, _feed(proto, 2, 2))


def test_parameters_of_both_directions() -> None:
    proto = _net("RNN", "n", 2, direction="bidirectional", activations=["LeakyRelu", "Elu"],
                 activation_alpha=[0.3, 0.7])  # fmt: skip
    compare(proto, _feed(proto, 3, 2))


@pytest.mark.parametrize("steps", [2, "n"])
def test_one_gate_for_input_and_forget(steps: int | str) -> None:
    proto = _net("LSTM", steps, 2, input_forget=1)
    compare(proto, _feed(proto, 2, 2))


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_the_batch_first(op: str) -> None:
    """ONNX Runtime has none; the oracle is the node with the batch second."""
    attrs: dict[str, Any] = {"direction": "bidirectional", "lengths": True}
    proto = _net(op, "n", "b", **attrs)
    feed = _feed(proto, 4, 3)
    expected = outputs(proto, feed)
    turned = _net(op, "n", "b", layout=1, **attrs)
    for value in turned.graph.input:
        dims = value.type.tensor_type.shape.dim
        if len(dims) == 3:
            first, second = dims[0].SerializeToString(), dims[1].SerializeToString()
            dims[0].ParseFromString(second)
            dims[1].ParseFromString(first)
    own = {k: v.swapaxes(0, 1) if v.ndim == 3 else v for k, v in feed.items()}
    for a, e in zip(outputs(turned, own), expected, strict=True):
        np.testing.assert_array_equal(
            a, e.transpose(2, 0, 1, 3) if e.ndim == 4 else e.swapaxes(0, 1)
        )


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_double_precision(op: str) -> None:
    """ONNX Runtime and the reference have none for all directions and states."""
    proto = _net(op, "n", "b", direction="reverse", clip=0.5)
    feed = _feed(proto, 4, 2)
    expected = outputs(proto, feed)
    for tensor in proto.graph.initializer:
        array = numpy_helper.to_array(tensor).astype("float64")
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for value in proto.graph.input:
        value.type.tensor_type.elem_type = 11
    for a, e in zip(outputs(proto, {k: v.astype("float64") for k, v in feed.items()}), expected,
                    strict=True):  # fmt: skip
        assert a.dtype == "float64"
        np.testing.assert_allclose(a, e, atol=1e-5)


@pytest.mark.parametrize("length", [-1, 6])
def test_a_length_beyond_the_sequence_is_an_error(length: int) -> None:
    """Code would read and write outside of the sequence."""
    proto = _net("RNN", "n", "b", lengths=True, direction="reverse", states=False)
    feed = _feed(proto, 5, 2) | {"lengths": np.array([5, length], "int32")}
    compiled = opinfo.compile(from_model(proto, {}), [])
    args = [feed[value.name] for value in proto.graph.input]
    with pytest.raises(ValueError, match=r"lengths has the element .*must be 0 to 5"):
        compiled.run(*args)


@pytest.mark.parametrize(
    ("attrs", "reason"),
    [
        ({"clip": -1.0}, "clip is -1, expected a number from 0"),
        ({"activations": ["Cosine"]}, "activation 'Cosine', expected one of Affine, Elu"),
        ({"activations": ["Tanh", "Tanh"]}, "2 activations, expected 1"),
        ({"activations": ["ScaledTanh"]}, "activation ScaledTanh without its alpha and beta"),
        (
            {"activations": ["LeakyRelu"], "activation_alpha": [0.1, 0.2]},
            "more numbers in activation_alpha and activation_beta than LeakyRelu have",
        ),
    ],
)
def test_other_activations_are_refused_by_name(attrs: dict[str, Any], reason: str) -> None:
    with pytest.raises(FrontendError, match=rf"the node of 'y, yh' \(RNN\): {reason}"):
        from_model(_net("RNN", 3, 2, **attrs), {})


def _quantized(
    dtype: str = "int8",
    columns: bool = False,
    direction: str = "forward",
    changed: Mapping[str, Array] | None = None,
) -> Any:
    """Return a model of an LSTM with dynamic quantisation."""
    zero = 128 if dtype == "uint8" else 0
    span = (zero - 100, zero + 100)
    codes = np.random.default_rng(5)
    count = 2 if direction == "bidirectional" else 1
    numbers = (count, 4 * UNITS) if columns else (count,)
    weights = {
        "W": codes.integers(*span, (count, SIZE, 4 * UNITS)).astype(dtype),
        "R": codes.integers(*span, (count, UNITS, 4 * UNITS)).astype(dtype),
        "B": floats(count, 8 * UNITS), "wz": np.full(numbers, zero, dtype),
        "ws": codes.uniform(0.01, 0.02, numbers).astype("float32"),
        "rs": codes.uniform(0.01, 0.02, numbers).astype("float32"),
        "rz": np.full(numbers, zero, dtype), **(changed or {}),
    }  # fmt: skip
    names = ["x", "W", "R", "B", "", "", "", "", "ws", "wz", "rs", "rz"]
    node = helper.make_node("DynamicQuantizeLSTM", names, ["y", "yh", "yc"], hidden_size=UNITS,
                            domain="com.microsoft", direction=direction)  # fmt: skip
    return model([node], {"x": (["n", 1, SIZE], "float32")}, ["y", "yh", "yc"], weights)


@pytest.mark.part
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize(("dtype", "columns"), [("int8", False), ("int8", True), ("uint8", True)])
def test_an_lstm_that_rounds_its_operands(dtype: str, columns: bool, direction: str) -> None:
    proto = _quantized(dtype, columns, direction)
    compare(proto, {"x": floats(1, 1, SIZE)}, {"x": floats(6, 1, SIZE, seed=1)})


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (
            {"ws": np.zeros((1, 3), "float32")},
            "input 8 has 3 elements of float32, expected 1 or 16",
        ),
        ({"rz": np.zeros(1, "uint8")}, "input 11 has 1 elements of uint8, expected .* of int8"),
        ({"W": np.zeros((1, SIZE, 16), "float32")}, "weights of float32 in 3 dimensions"),
    ],
)
def test_other_weights_are_refused(changed: dict[str, Array], reason: str) -> None:
    with pytest.raises(FrontendError, match=rf"DynamicQuantizeLSTM\): {reason}"):
        from_model(_quantized(changed=changed), {})


def test_constants_do_not_hide_a_clip() -> None:
    """The reference implementation, which folds constants, ignores `clip`."""
    node = helper.make_node("RNN", ["x", "w", "r"], ["", "y"], hidden_size=2, clip=0.125)
    sizes = {"x": (3, 1, 2), "w": (1, 2, 2), "r": (1, 2, 2)}
    weights = {name: floats(*shape) for name, shape in sizes.items()}
    nodes = [node, helper.make_node("Add", ["y", "z"], ["sum"])]
    proto = model(nodes, {"z": ((1,), "float32")}, ["sum"], weights)
    compare(proto, {"z": floats(1)})
