"""LSTM, GRU and RNN of ONNX, a `RecurrentLayer` for each direction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from tvm import relax

from ....analysis.recurrent.cells import DEFAULTS, GATES, Cell
from ...onnx_graph.conversion.converter_table import converts
from ...onnx_graph.onnx_node import OnnxNode, dims_of
from ...onnx_graph.scalars import is_expr
from ...onnx_graph.values import Dim
from ...recurrent.recurrent_layer import RecurrentLayer, emit_layer
from .cell_activations import activations

#: Runs one direction: from its operands, whether it is reversed, and the sequence (steps, batch,
#: input size) to its hidden states and last states.
Run: TypeAlias = "Callable[[DirectionOperands, bool, Any], list[Any]]"
#: The inputs of all operators; the last two are those of an LSTM.
_LENGTHS, _HIDDEN, _STATE, _PEEPHOLES = 4, 5, 6, 7


@converts("LSTM", "GRU", "RNN")
def recurrent(node: OnnxNode) -> list[Any]:
    """Return all hidden states, the last hidden state and, of an LSTM, the last cell state."""
    return sequence(node, _run)


def sequence(node: OnnxNode, run: Run) -> list[Any]:
    """Convert a recurrent operator."""
    first = bool(node.attr("layout", 0))  # whether the batch comes first
    if node.attr("clip", 0.0) < 0:
        node.refuse(f"clip is {node.attr('clip'):g}, expected a number from 0")
    if node.rank(0) != 3:
        node.refuse(f"input 0 has {node.rank(0)} dimensions, expected 3")
    data = node.tensor(0)
    data = node.emit(relax.op.permute_dims(data, [1, 0, 2])) if first else data
    data, batch = _of_batch(node, data, first)
    direction = node.text("direction", "forward")
    if direction not in ("forward", "reverse", "bidirectional"):
        node.refuse(f"direction is '{direction}', expected forward, reverse or bidirectional")
    count = 2 if direction == "bidirectional" else 1
    units = int(node.attr("hidden_size", 0) or node.shape(2)[-1])
    results = []
    for k in range(count):
        operands = DirectionOperands(node, k, count, units, batch, first)
        results.append(run(operands, direction == "reverse" or k == 1, data))
    return _outputs(node, results, first)


def _run(operands: DirectionOperands, reverse: bool, data: Any) -> list[Any]:
    node, count, units = operands.node, operands.count, operands.units
    width = GATES[operands.op] * units
    for k, sizes in ((1, [width, node.shape(0)[2]]), (2, [width, units]), (3, [2 * width]),
                     (_PEEPHOLES, [3 * units])):  # fmt: skip
        node.check_shape(k, [count, *sizes])
    layer = RecurrentLayer(
        operands.cell(), reverse, operands.weights(1), operands.weights(2), operands.bias(),
        operands.hidden(), operands.state(), operands.lengths(), operands.peepholes(),
    )  # fmt: skip
    return emit_layer(node.builder, layer, data)


def _of_batch(node: OnnxNode, data: Any, batch_first: bool) -> tuple[Any, Dim]:
    """Return the data and the size of its batch, which the initial states may fix."""
    steps, batch, units = dims_of(data)
    for k in (_HIDDEN, _STATE):
        if node.has(k) and is_expr(batch):
            fixed = node.shape(k)[0 if batch_first else 1]
            batch = batch if is_expr(fixed) else fixed
    return node.cast_shape(data, [steps, batch, units]), batch


@dataclass
class DirectionOperands:
    """Reads the operands of one direction from the inputs of a node, as `RecurrentLayer` has them.

    Attributes:
        node: The node.
        index: The direction.
        count: The number of directions.
        units: The number of hidden units.
        batch: The size of the batch.
        batch_first: Whether the batch is the first axis of the states.
    """

    node: OnnxNode
    index: int
    count: int
    units: int
    batch: Dim
    batch_first: bool

    @property
    def op(self) -> str:
        """The kind of the cell."""
        return self.node.op.removeprefix("DynamicQuantize")

    def cell(self) -> Cell:
        """Return the cell."""
        defaults = DEFAULTS[self.op]
        every = activations(self.node, list(defaults) * self.count)
        own = every[len(defaults) * self.index : len(defaults) * (self.index + 1)]
        return Cell(self.op, tuple(own), bool(self.node.attr("linear_before_reset", 0)),
                    bool(self.node.attr("input_forget", 0)))  # fmt: skip

    def bias(self) -> tuple[Any, Any]:
        """Return the sum of biases for the inputs, and what belongs to the hidden state."""
        width = GATES[self.op] * self.units
        dtype = self.node.dtype(0)
        zero = relax.const(np.zeros(width, dtype), dtype)
        if not self.node.has(3):
            return zero, zero
        if self.node.value(3).is_constant:
            both = self.node.array(3, "B")[self.index]
            inputs, state = both[:width].copy(), both[width:].copy()
            stays = self.op == "GRU" and bool(self.node.attr("linear_before_reset", 0))
            moved = slice(0, 2 * self.units if stays else width)
            inputs[moved] += state[moved]
            state[moved] = 0
            return relax.const(inputs, dtype), relax.const(state, dtype)
        both = _row(self.node, self.node.tensor(3), self.index)
        parts = self.node.emit(relax.op.split(both, 2, 0))
        return tuple(self.node.emit(relax.TupleGetItem(parts, k)) for k in range(2))

    def weights(self, k: int) -> Any:
        """Return the weights in an input, transposed: input size or hidden, gates x hidden."""
        node = self.node
        if node.value(k).is_constant:
            array = np.ascontiguousarray(node.array(k, "weights")[self.index].T)
            return relax.const(array, node.dtype(k))
        return node.emit(relax.op.permute_dims(_row(node, node.tensor(k), self.index), [1, 0]))

    def hidden(self) -> Any:
        """Return the first hidden state."""
        return self._first(_HIDDEN)

    def state(self) -> Any:
        """Return the first cell state of an LSTM; None for other cells."""
        return self._first(_STATE) if self.op == "LSTM" else None

    def _first(self, k: int) -> Any:
        sizes = [self.batch, self.units]
        dtype = self.node.dtype(0)
        if not self.node.has(k):
            zero = relax.const(np.zeros((), dtype), dtype)
            return self.node.emit(relax.op.full(sizes, zero, dtype))
        data = self.node.tensor(k)
        if self.batch_first:
            data = self.node.emit(relax.op.permute_dims(data, [1, 0, 2]))
        data = self.node.cast_shape(data, [self.count, *sizes])
        return _row(self.node, data, self.index)

    def lengths(self) -> Any:
        """Return the lengths of the sequences; None if all are whole."""
        node = self.node
        if not node.has(_LENGTHS):
            return None
        lengths = node.cast_shape(node.tensor(_LENGTHS), [self.batch])
        # Code would read and write at any length; the indices of a `take` are checked.
        steps = node.arithmetic.add(node.shape(0)[1 if self.batch_first else 0], 1)
        known = node.emit(relax.op.arange(0, steps, 1, "int64"))
        return node.emit(relax.op.take(known, lengths, 0, mode="fast"))

    def peepholes(self) -> Any:
        """Return the peepholes of an LSTM; None without."""
        if self.op != "LSTM" or not self.node.has(_PEEPHOLES):
            return None
        return _row(self.node, self.node.tensor(_PEEPHOLES), self.index)


def _row(node: OnnxNode, data: Any, index: int) -> Any:
    """Return one direction of a tensor whose first axis is the direction."""
    sizes = list(data.ty.shape.values)
    if int(sizes[0]) == 1:
        return node.emit(relax.op.squeeze(data, [0]))
    part = node.emit(relax.op.strided_slice(data, [0], [index], [index + 1], [1]))
    return node.emit(relax.op.squeeze(part, [0]))


def _outputs(node: OnnxNode, results: list[list[Any]], batch_first: bool) -> list[Any]:
    """Stack the directions: steps, directions, batch, hidden; and directions, batch, hidden."""
    outputs: list[Any] = []
    for k, axis in enumerate((1, 0, 0)):
        parts = [node.emit(relax.op.expand_dims(r[k], axis)) for r in results if r[k] is not None]
        if not parts or not node.wants(k):
            outputs.append(None)
            continue
        whole = parts[0] if len(parts) == 1 else node.emit(relax.op.concat(parts, axis))
        if batch_first:
            whole = node.emit(relax.op.permute_dims(whole, [2, 0, 1, 3] if k == 0 else [1, 0, 2]))
        outputs.append(whole)
    return outputs
