"""LSTM, GRU and RNN: one product for the inputs of all steps, then the recurrence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from ...analysis.recurrent.cells import DEFAULTS, GATES, Cell, CellOps, gru, lstm, relax_ops
from ...analysis.recurrent.recurrence import Recurrence
from ..onnx_graph.converter_table import converts
from ..onnx_graph.onnx_node import OnnxNode, dims_of
from ..onnx_graph.scalars import is_expr
from ..onnx_graph.values import Dim

#: Up to this many steps are unrolled into operators; more become one PrimFunc.
UNROLLED = 2


@dataclass
class Direction:
    """The operands of one direction, as Relax expressions.

    Attributes:
        cell: The cell.
        reverse: Whether it starts at the last step.
        weights: input size, gates x hidden.
        recurrent: hidden, gates x hidden.
        bias: What is added to the product with the inputs, and with the hidden state.
        hidden: batch, hidden.
        state: The cell state of an LSTM, batch, hidden; else None.
        lengths: batch, or None.
        peepholes: 3 x hidden, or None.
        quantized: See `Recurrence`.
    """

    cell: Cell
    reverse: bool
    weights: Any
    recurrent: Any
    bias: tuple[Any, Any]
    hidden: Any
    state: Any = None
    lengths: Any = None
    peepholes: Any = None
    quantized: bool = False


@converts("LSTM", "GRU", "RNN")
def recurrent(node: OnnxNode) -> list[Any]:
    """Return all hidden states, the last hidden state and, of an LSTM, the last cell state."""
    return sequence(node, weights=_transposed, states=(4, 5, 6, 7))


def sequence(
    node: OnnxNode, weights: Any, states: tuple[int, int, int, int], data: Any = None, **more: Any
) -> list[Any]:
    """Convert a recurrent operator.

    Args:
        node: The node.
        weights: Returns weights of one direction, transposed, from the node, an input, a direction.
        states: The inputs with the lengths, the hidden state, the cell state and the peepholes.
        data: The sequence; by default the node's first input.
        more: Further fields of each `Direction`.
    """
    op = node.op.removeprefix("DynamicQuantize")
    first = bool(node.attr("layout", 0))  # whether the batch comes first
    if node.attr("clip"):
        node.refuse("clip is not supported")
    if node.rank(0) != 3:
        node.refuse(f"input 0 has {node.rank(0)} dimensions, expected 3")
    data = node.tensor(0) if data is None else data
    steps, batch, _ = (node.shape(0)[k] for k in ((1, 0, 2) if first else (0, 1, 2)))
    data = node.emit(relax.op.permute_dims(data, [1, 0, 2])) if first else data
    data, batch = _of_batch(node, data, states, first)
    direction = node.text("direction", "forward")
    if direction not in ("forward", "reverse", "bidirectional"):
        node.refuse(f"direction is '{direction}', expected forward, reverse or bidirectional")
    count = 2 if direction == "bidirectional" else 1
    units = int(node.attr("hidden_size", 0) or node.shape(2)[-1])
    results = []
    for k in range(count):
        parts = _Parts(node, op, k, count, units, batch, first, weights, states)
        one = parts.direction(reverse=direction == "reverse" or k == 1, **more)
        results.append(_run(node, one, data, steps, batch, units))
    return _outputs(node, results, first)


def _of_batch(
    node: OnnxNode, data: Any, states: tuple[int, int, int, int], batch_first: bool
) -> tuple[Any, Dim]:
    """Return the data and the size of its batch, which the initial states may fix."""
    steps, batch, units = dims_of(data)
    for k in (states[1], states[2]):
        if node.has(k) and is_expr(batch):
            fixed = node.shape(k)[0 if batch_first else 1]
            batch = batch if is_expr(fixed) else fixed
    return node.cast_shape(data, [steps, batch, units]), batch


@dataclass
class _Parts:
    """Reads the operands of one direction from the inputs of a node."""

    node: OnnxNode
    op: str
    index: int
    count: int
    units: int
    batch: Dim
    batch_first: bool
    weights: Any
    states: tuple[int, int, int, int]

    def direction(self, reverse: bool, **more: Any) -> Direction:
        lengths, hidden, state, peepholes = self.states
        return Direction(
            self._cell(), reverse, self.weights(self.node, 1, self.index),
            self.weights(self.node, 2, self.index), self._bias(), self._state(hidden),
            self._state(state) if self.op == "LSTM" else None, self._lengths(lengths),
            self._peepholes(peepholes) if self.op == "LSTM" else None, **more,
        )  # fmt: skip

    def _cell(self) -> Cell:
        defaults = DEFAULTS[self.op]
        names = [x.decode() if isinstance(x, bytes) else x for x in
                 self.node.attr("activations") or defaults * self.count]  # fmt: skip
        own = names[len(defaults) * self.index : len(defaults) * (self.index + 1)]
        known = relax_ops("float32").activations
        spelling = {name.lower(): name for name in known}
        for name in own:
            if name.lower() not in spelling:
                self.node.refuse(f"activation '{name}', expected one of {', '.join(known)}")
        if self.node.attr("activation_alpha") or self.node.attr("activation_beta"):
            if any(name.lower() in ("hardsigmoid", "leakyrelu") for name in own):
                self.node.refuse("activations with alpha or beta are not supported")
        return Cell(self.op, tuple(spelling[name.lower()] for name in own),
                    bool(self.node.attr("linear_before_reset", 0)),
                    bool(self.node.attr("input_forget", 0)))  # fmt: skip

    def _bias(self) -> tuple[Any, Any]:
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

    def _state(self, k: int) -> Any:
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

    def _lengths(self, k: int) -> Any:
        if not self.node.has(k):
            return None
        return self.node.cast_shape(self.node.tensor(k), [self.batch])

    def _peepholes(self, k: int) -> Any:
        return _row(self.node, self.node.tensor(k), self.index) if self.node.has(k) else None


def _row(node: OnnxNode, data: Any, index: int) -> Any:
    """Return one direction of a tensor whose first axis is the direction."""
    sizes = list(data.ty.shape.values)
    if int(sizes[0]) == 1:
        return node.emit(relax.op.squeeze(data, [0]))
    part = node.emit(relax.op.strided_slice(data, [0], [index], [index + 1], [1]))
    return node.emit(relax.op.squeeze(part, [0]))


def _transposed(node: OnnxNode, k: int, index: int) -> Any:
    """Return the weights of a direction as input size or hidden, gates x hidden."""
    if node.value(k).is_constant:
        array = np.ascontiguousarray(node.array(k, "weights")[index].T)
        return relax.const(array, node.dtype(k))
    return node.emit(relax.op.permute_dims(_row(node, node.tensor(k), index), [1, 0]))


def _run(
    node: OnnxNode, one: Direction, data: Any, steps: Dim, batch: Dim, units: int
) -> list[Any]:
    """Return the hidden states (steps, batch, hidden) and the last states of a direction."""
    product = node.emit(relax.op.matmul(data, one.weights))
    inputs = node.emit(relax.op.add(product, one.bias[0]))
    plain = one.lengths is None and not one.quantized
    if not is_expr(steps) and steps <= UNROLLED and plain:
        return _unrolled(node, one, inputs, steps, units)
    if node.dtype(0) != "float32":
        node.refuse(f"a sequence of {node.dtype(0)}, expected float32", steps)
    kernel = Recurrence(one.cell, units, one.reverse, one.lengths is not None,
                        one.peepholes is not None, one.quantized)  # fmt: skip
    more = [x for x in (one.state, one.lengths, one.peepholes) if x is not None]
    out = node.builder.emit_te(kernel, inputs, one.recurrent, one.bias[1], one.hidden, *more,
                               primfunc_name_hint=one.cell.op.lower())  # fmt: skip
    parts = [node.emit(relax.TupleGetItem(out, k)) for k in range(3)]
    return parts


def _unrolled(node: OnnxNode, one: Direction, inputs: Any, steps: int, units: int) -> list[Any]:
    ops = relax_ops(node.dtype(0))
    hidden, state, rows = one.hidden, one.state, [None] * steps
    for step in reversed(range(steps)) if one.reverse else range(steps):
        row = node.emit(relax.op.strided_slice(inputs, [0], [step], [step + 1], [1]))
        row = node.emit(relax.op.squeeze(row, [0]))
        hidden, state = _step(node, one, ops, row, hidden, state, units)
        rows[step] = node.emit(relax.op.expand_dims(hidden, 0))
    result = rows[0] if steps == 1 else node.emit(relax.op.concat(rows, 0))
    return [result, hidden, state]


def _step(
    node: OnnxNode, one: Direction, ops: CellOps, row: Any, hidden: Any, state: Any, units: int
) -> tuple[Any, Any]:
    cell = one.cell
    if cell.op == "GRU":
        return _gru_step(node, one, ops, row, hidden, units), None
    gates = node.emit(relax.op.add(row, node.emit(relax.op.matmul(hidden, one.recurrent))))
    gates = node.emit(relax.op.add(gates, one.bias[1]))
    if cell.op == "RNN":
        return node.emit(ops.activations[cell.activations[0]](gates)), None
    parts = _gates(node, gates, 4, units)
    peepholes = None if one.peepholes is None else _gates(node, one.peepholes, 3, units)
    after_hidden, after = lstm(cell, ops, parts, state, peepholes)
    return node.emit(after_hidden), node.emit(after)


def _gru_step(
    node: OnnxNode, one: Direction, ops: CellOps, row: Any, hidden: Any, units: int
) -> Any:
    cell = one.cell
    reset = ops.activations[cell.activations[0]]
    z, r, new = _gates(node, row, 3, units)
    wz, wr, wh = _gates(node, one.recurrent, 3, units)
    bz, br, bh = _gates(node, one.bias[1], 3, units)
    update = z + (relax.op.matmul(hidden, wz) + bz)
    r = node.emit(reset(r + (relax.op.matmul(hidden, wr) + br)))
    if cell.linear_before_reset:
        new = new + r * (relax.op.matmul(hidden, wh) + bh)
    else:
        new = new + (relax.op.matmul(r * hidden, wh) + bh)
    return node.emit(gru(cell, ops, node.emit(update), node.emit(new), hidden))


def _gates(node: OnnxNode, data: Any, count: int, units: int) -> list[Any]:
    """Split the last axis into gates."""
    axis = data.ty.ndim - 1
    return [
        node.emit(relax.op.strided_slice(data, [axis], [k * units], [(k + 1) * units], [1]))
        for k in range(count)
    ]


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
