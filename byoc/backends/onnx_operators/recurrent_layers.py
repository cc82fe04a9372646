"""Recurrent layers as ONNX's LSTM, GRU and RNN.

Before: y = recurrence(x @ w + b, r, c, h)            the product of all steps is an operator
After:  y = LSTM(x, wᵀ, rᵀ, [b, c], h)                the product and the sum are left unread
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....analysis.recurrent.recurrence_operator import NAME, RESULTS
from ...backend.region import Array, Call
from ...patterns.pattern import Node
from ...patterns.suggest import Unmet
from .element_types import SINGLE
from .graph_writer import GraphWriter
from .onnx_conditions import OnnxOperator, is_, plain, typed

#: Activations that both runtimes define as opinfo does.
_KNOWN = ("Sigmoid", "Tanh", "Relu")


@dataclass(frozen=True)
class _Inputs:
    """The data of a layer, their weights (gates x hidden, input size), and the bias."""

    data: str
    weights: Array
    bias: Array


def recurrence(writer: GraphWriter, call: Call, xs: list[str]) -> list[str]:
    """The results of a layer: all hidden states, the last one, the last cell state."""
    attrs = call.attrs
    cell, reverse = str(attrs["cell"]), bool(attrs["reverse"])
    recurrent, bias = writer.arrays[xs[1]], writer.arrays[xs[2]]
    inputs = _inputs(writer, xs[0], bias.size)
    names = [
        inputs.data, writer.constant(inputs.weights[None]),
        writer.constant(np.ascontiguousarray(recurrent.T)[None]),
        writer.constant(np.concatenate([inputs.bias, bias])[None]), "",
        *(writer.node("Unsqueeze", [x, writer.ints([0])]) for x in xs[3:]),
    ]  # fmt: skip
    more = {"linear_before_reset": int(attrs["linear_before_reset"])} if cell == "GRU" else {}
    outputs = writer.nodes_of(
        cell, names, 3 if cell == "LSTM" else 2, hidden_size=int(recurrent.shape[0]),
        activations=list(map(str, attrs["activations"])),
        direction="reverse" if reverse else "forward", **more,
    )  # fmt: skip
    axes = (1, 0, 0)
    return [writer.node("Squeeze", [x, writer.ints([a])])
            for x, a in zip(outputs, axes, strict=False)]  # fmt: skip


def _inputs(writer: GraphWriter, name: str, width: int) -> _Inputs:
    """The product and the sum that make the inputs of all steps; else the identity as weights."""
    bias = np.zeros(width, "float32")
    source = name
    added = writer.before(name, "Add")
    for data, term in (added.inputs, added.inputs[::-1]) if added is not None else ():
        array = writer.arrays.get(term)
        if array is not None and array.shape == (width,):
            source, bias = data, array
            break
    product = writer.before(source, "MatMul")
    if product is not None:
        weights = writer.arrays.get(product.inputs[1])
        steps = writer.tensors.get(product.inputs[0])
        rank = None if steps is None else len(steps.shape)
        if weights is not None and weights.ndim == 2 and rank == 3:
            return _Inputs(product.inputs[0], np.ascontiguousarray(weights.T), bias)
    return _Inputs(name, np.eye(width, dtype="float32"), np.zeros(width, "float32"))


def constant_weights(node: Node) -> str | None:
    """The recurrent weights and the bias are constants, and so are those of the inputs."""
    for k, what in ((1, "the recurrent weights"), (2, "the bias")):
        value = node.operand(k)
        if value is None or not value.constant:
            return f"{what} are not constant"
    return None


def states_only(node: Node) -> str | None:
    """Only the results are read, not the work memory, nor the cell state of what has none."""
    results = RESULTS if plain(node, "cell") == "LSTM" else RESULTS - 1
    used = [v.uses or v.pinned is not None for v in node.op.outputs]
    return "its work memory is read" if any(used[results:]) else None


def known_activations(node: Node) -> str | Unmet | None:
    """Both runtimes have its activations."""
    other = [a for a in plain(node, "activations") if a not in _KNOWN]
    return f"the activation is {other[0]}, expected one of {', '.join(_KNOWN)}" if other else None


RECURRENT: dict[str, OnnxOperator] = {
    NAME: OnnxOperator(recurrence, (
        typed(SINGLE), constant_weights, states_only, known_activations,
        *(is_(name, False) for name in ("lengths", "peepholes", "input_forget", "quantized"))),
        several=True),
}  # fmt: skip
