"""LSTM, GRU and RNN, which torch decomposes into the operators of all steps.

Read whole, each direction of a layer is one `RecurrentLayer`, of any number of steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tvm import relax

from ...analysis.recurrent.cells import DEFAULTS, Cell
from ..recurrent.recurrent_layer import RecurrentLayer, emit_layer
from .nodes.arguments import Converter, arguments


@dataclass(frozen=True)
class _Kind:
    """A cell, and the places of ONNX's gates among torch's."""

    cell: Cell
    gates: tuple[int, ...]


_KINDS = {
    "lstm.input": _Kind(Cell("LSTM", DEFAULTS["LSTM"]), (0, 3, 1, 2)),
    "gru.input": _Kind(Cell("GRU", DEFAULTS["GRU"], linear_before_reset=True), (1, 0, 2)),
    "rnn_tanh.input": _Kind(Cell("RNN", ("Tanh",)), (0,)),
    "rnn_relu.input": _Kind(Cell("RNN", ("Relu",)), (0,)),
}


def is_whole(node: Any) -> bool:
    """Whether a node is converted whole; torch decomposes others.

    These are layers of other dtypes than float32, with projections, or that drop out.
    """
    schema = [a.name for a in node.target._schema.arguments]
    args = dict(zip(schema, node.args, strict=True))
    directions = 2 if args["bidirectional"] else 1
    per_direction = 4 if args["has_biases"] else 2
    drops = args["train"] and args["dropout"] > 0
    return (
        node.args[0].meta["val"].dtype == torch.float32
        and len(args["params"]) == args["num_layers"] * directions * per_direction
        and not drops
    )


def _converter(kind: _Kind) -> Converter:
    def convert(importer: Any, node: Any) -> Any:
        return _Stack(importer, node, kind).emit()

    return convert


class _Stack:
    """The layers of a node."""

    def __init__(self, importer: Any, node: Any, kind: _Kind) -> None:
        self.importer, self.kind = importer, kind
        self.emit_ = importer.block_builder.emit
        self.args = arguments(importer, node)
        self.directions = 2 if self.args["bidirectional"] else 1
        params = node.args[2]
        count = 4 if self.args["has_biases"] else 2
        self.params = [params[k : k + count] for k in range(0, len(params), count)]

    def emit(self) -> list[Any]:
        """Emit all layers; the output, then the last states of all layers and directions."""
        data, batch_first = self.args["input"], self.args["batch_first"]
        data = self.emit_(relax.op.permute_dims(data, [1, 0, 2])) if batch_first else data
        last = []
        for layer in range(self.args["num_layers"]):
            results = [self._direction(layer, k, data) for k in range(self.directions)]
            last += [states for _, *states in results]
            data = self._joined([output for output, *_ in results], 2)
        data = self.emit_(relax.op.permute_dims(data, [1, 0, 2])) if batch_first else data
        states = 2 if self.kind.cell.op == "LSTM" else 1
        stacked = [[self.emit_(relax.op.expand_dims(s[k], 0)) for s in last] for k in range(states)]
        return [data, *(self._joined(parts, 0) for parts in stacked)]

    def _joined(self, parts: Sequence[Any], axis: int) -> Any:
        return parts[0] if len(parts) == 1 else self.emit_(relax.op.concat(parts, axis))

    def _direction(self, layer: int, direction: int, data: Any) -> list[Any]:
        place = layer * self.directions + direction
        weights, recurrent, *biases = self.params[place]
        hx = self.args["hx"]
        hidden, *state = hx if isinstance(hx, (list, tuple)) else [hx]
        operands = RecurrentLayer(
            self.kind.cell, direction == 1, self._gates(weights), self._gates(recurrent),
            self._biases(biases), self._state(hidden, place),
            self._state(state[0], place) if state else None,
        )  # fmt: skip
        return emit_layer(self.importer.block_builder, operands, data)

    def _state(self, states: Any, place: int) -> Any:
        """Return the first state of a direction."""
        part = self.emit_(relax.op.strided_slice(states, [0], [place], [place + 1], [1]))
        return self.emit_(relax.op.squeeze(part, [0]))

    def _biases(self, biases: Sequence[Any]) -> tuple[Any, Any]:
        if biases:
            inputs, hidden = map(self._gates, biases)
            return inputs, hidden
        zero = relax.const(np.zeros(self.params[0][0].meta["val"].shape[0], "float32"))
        return zero, zero

    def _gates(self, node: Any) -> Any:
        """Return a parameter with its gates in ONNX's order; a matrix is transposed."""
        value, order = self.importer.constant(node), self.kind.gates
        if value is not None:
            parts = np.split(value.detach().numpy(), len(order))
            ordered = np.concatenate([parts[k] for k in order])
            return relax.const(np.ascontiguousarray(ordered.T))
        split = self.emit_(relax.op.split(self.importer.env[node], len(order), 0))
        gates = [self.emit_(relax.TupleGetItem(split, k)) for k in order]
        whole = self._joined(gates, 0)
        return whole if whole.ty.ndim == 1 else self.emit_(relax.op.permute_dims(whole))


CONVERTERS: Mapping[str, Converter] = {name: _converter(kind) for name, kind in _KINDS.items()}
