"""Recurrent layers as ONNX's LSTM, GRU and RNN, and as ONNX Runtime's DynamicQuantizeLSTM.

Before: y = recurrence(x @ w + b, r, c, h)            the product of all steps is an operator
After:  y = LSTM(x, wᵀ, rᵀ, [b, c], h)                the product and the sum are left unread
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .....analysis.recurrent.quantized_lstm_operator import NAME as QUANTIZED
from .....analysis.recurrent.recurrence_operator import NAME, RESULTS
from ....backend.region import Array, Call
from ....patterns.pattern import Condition, Node
from ....patterns.suggest import Unmet
from ..graph.element_types import SINGLE
from ..graph.graph_writer import GraphWriter
from ..graph.onnx_conditions import OnnxOperator, is_, plain, typed

#: Activations that both runtimes define as opinfo does.
_KNOWN = ("Sigmoid", "Tanh", "Relu")
#: The domain of ONNX Runtime's own operators.
MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class _Inputs:
    """The data of a layer, their weights (gates x hidden, input size), and the bias."""

    data: str
    weights: Array
    bias: Array


def recurrence(writer: GraphWriter, call: Call, xs: list[str]) -> list[str]:
    """The results of a layer: all hidden states, the last one, the last cell state."""
    attrs = call.attrs
    cell = str(attrs["cell"])
    recurrent, bias = writer.arrays[xs[1]], writer.arrays[xs[2]]
    inputs = _inputs(writer, xs[0], bias.size)
    names = [
        inputs.data, writer.constant(inputs.weights[None]),
        writer.constant(np.ascontiguousarray(recurrent.T)[None]),
        writer.constant(np.concatenate([inputs.bias, bias])[None]), "",
        *_states(writer, xs[3:]),
    ]  # fmt: skip
    more = {"linear_before_reset": int(attrs["linear_before_reset"])} if cell == "GRU" else {}
    return _layer(writer, call, cell, names, recurrent.shape[0], **more)


def quantized_lstm(writer: GraphWriter, call: Call, xs: list[str]) -> list[str]:
    """The results of an LSTM with dynamic quantisation; see `QuantizedLstm` for the operands."""
    arrays = [writer.arrays[x] for x in xs[1:8]]
    # The number of all columns has one axis, that of directions.
    weights = [writer.constant(a if a.size == 1 else a[None]) for a in arrays[:-1]]
    bias = np.concatenate([arrays[-1], np.zeros_like(arrays[-1])])
    names = [
        xs[0], weights[0], weights[3], writer.constant(bias[None]), "", *_states(writer, xs[8:]),
        "", *(weights[k] for k in (1, 2, 4, 5)),
    ]  # fmt: skip
    return _layer(writer, call, "DynamicQuantizeLSTM", names, writer.arrays[xs[4]].shape[0],
                  domain=MICROSOFT)  # fmt: skip


def _states(writer: GraphWriter, xs: Sequence[str]) -> list[str]:
    return [writer.node("Unsqueeze", [x, writer.ints([0])]) for x in xs]


def _layer(
    writer: GraphWriter, call: Call, op: str, names: Sequence[str], units: int, **more: Any
) -> list[str]:
    outputs = writer.nodes_of(
        op, names, 2 if op in ("GRU", "RNN") else 3, hidden_size=int(units),
        activations=list(map(str, call.attrs["activations"])),
        direction="reverse" if call.attrs["reverse"] else "forward", **more,
    )  # fmt: skip
    return [writer.node("Squeeze", [x, writer.ints([a])])
            for x, a in zip(outputs, (1, 0, 0), strict=False)]  # fmt: skip


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


def constant(**operands: int) -> Condition:
    """Return a condition: some operands, which have these names, are constants."""

    def are_constant(node: Node) -> str | None:
        for what, k in operands.items():
            value = node.operand(k)
            if value is None or not value.constant:
                return f"the {what.replace('_', ' ')} is not constant"
        return None

    return are_constant


def states_only(node: Node) -> str | None:
    """Only the results are read, not the work memory, nor the cell state of what has none."""
    results = RESULTS if plain(node, "cell") in ("LSTM", None) else RESULTS - 1
    used = [v.uses or v.pinned is not None for v in node.op.outputs]
    return "its work memory is read" if any(used[results:]) else None


def known_activations(node: Node) -> str | Unmet | None:
    """Both runtimes have its activations."""
    other = [a for a in plain(node, "activations") if a not in _KNOWN]
    return f"the activation is {other[0]}, expected one of {', '.join(_KNOWN)}" if other else None


def alike(node: Node) -> str | None:
    """Both weights are of one dtype."""
    dtypes = [value.dtype for k in (1, 4) if (value := node.operand(k)) is not None]
    return None if len(set(dtypes)) == 1 else f"the weights are {dtypes[0]} and {dtypes[-1]}"


def one_sequence(node: Node) -> str | None:
    """The batch is 1: ONNX Runtime may round the sequences of a batch in groups."""
    batch = node.result.shape[1]
    if isinstance(batch, int) and batch == 1:
        return None
    return f"the batch is {batch}, expected 1: ONNX Runtime may round groups of sequences apart"


_PLAIN = tuple(is_(name, False) for name in ("lengths", "peepholes", "input_forget"))
RECURRENT: dict[str, OnnxOperator] = {
    NAME: OnnxOperator(
        recurrence,
        (typed(SINGLE), constant(recurrent_weight=1, bias=2), states_only, known_activations,
         *_PLAIN), several=True),
    QUANTIZED: OnnxOperator(
        quantized_lstm,
        (constant(weight=1, scale=2, zero_point=3, recurrent_weight=4, recurrent_scale=5,
                  recurrent_zero_point=6, bias=7),
         alike, states_only, known_activations, one_sequence, *_PLAIN), several=True),
}  # fmt: skip
