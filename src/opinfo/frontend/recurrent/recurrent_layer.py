"""One direction of a recurrent layer: a product for all steps at once, then the recurrence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import relax, tirx

from ...analysis.recurrent.cell_ops import CellOps, relax_ops
from ...analysis.recurrent.cells import Cell, gru, lstm
from ...analysis.recurrent.recurrence import Recurrence

#: Up to this many steps are unrolled into operators; more become one PrimFunc.
UNROLLED = 2


@dataclass(frozen=True)
class RecurrentLayer:
    """The operands of one direction, as Relax expressions; gates are in ONNX's order.

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

    @property
    def units(self) -> int:
        """The number of hidden units."""
        return int(self.recurrent.ty.shape.values[0])

    def is_unrolled(self, steps: Any) -> bool:
        """Whether a number of steps becomes operators, in which the dtype may be any."""
        count = int(steps) if isinstance(steps, (int, tirx.IntImm)) else UNROLLED + 1
        return count <= UNROLLED and self.lengths is None


def emit_layer(builder: Any, layer: RecurrentLayer, data: Any) -> list[Any]:
    """Emit a layer and return its hidden states and its last states.

    Args:
        builder: The block builder.
        layer: The layer.
        data: The sequence: steps, batch, input size.

    Returns:
        The hidden states of all steps (steps, batch, hidden), the last hidden state, and the last
        cell state, which only an LSTM has.
    """
    steps = data.ty.shape.values[0]
    product = builder.emit(relax.op.matmul(data, layer.weights))
    inputs = builder.emit(relax.op.add(product, layer.bias[0]))
    if layer.is_unrolled(steps):
        return _Unrolled(builder, layer, str(data.ty.dtype)).emit(inputs, int(steps))
    kernel = Recurrence(layer.cell, layer.units, layer.reverse, layer.lengths is not None,
                        layer.peepholes is not None)  # fmt: skip
    more = [x for x in (layer.state, layer.lengths, layer.peepholes) if x is not None]
    out = builder.emit_te(kernel, inputs, layer.recurrent, layer.bias[1], layer.hidden, *more,
                          primfunc_name_hint=layer.cell.op.lower())  # fmt: skip
    return [builder.emit(relax.TupleGetItem(out, k)) for k in range(3)]


class _Unrolled:
    """Emits a few steps as operators."""

    def __init__(self, builder: Any, layer: RecurrentLayer, dtype: str) -> None:
        self.emit_, self.layer = builder.emit, layer
        self.ops: CellOps = relax_ops(dtype)

    def emit(self, inputs: Any, steps: int) -> list[Any]:
        """Emit the steps, given the products with the inputs: steps, batch, gates x hidden."""
        emit, layer = self.emit_, self.layer
        hidden, state, rows = layer.hidden, layer.state, [None] * steps
        for step in reversed(range(steps)) if layer.reverse else range(steps):
            row = emit(relax.op.strided_slice(inputs, [0], [step], [step + 1], [1]))
            hidden, state = self._step(emit(relax.op.squeeze(row, [0])), hidden, state)
            rows[step] = emit(relax.op.expand_dims(hidden, 0))
        result = rows[0] if steps == 1 else emit(relax.op.concat(rows, 0))
        return [result, hidden, state]

    def _step(self, row: Any, hidden: Any, state: Any) -> tuple[Any, Any]:
        emit, layer, cell = self.emit_, self.layer, self.layer.cell
        if cell.op == "GRU":
            return self._gru(row, hidden), None
        gates = emit(relax.op.add(row, emit(relax.op.matmul(hidden, layer.recurrent))))
        gates = emit(relax.op.add(gates, layer.bias[1]))
        if cell.op == "RNN":
            return emit(self.ops.activation(cell.activations[0])(gates)), None
        peepholes = None if layer.peepholes is None else self._gates(layer.peepholes, 3)
        after_hidden, after = lstm(cell, self.ops, self._gates(gates, 4), state, peepholes)
        return emit(after_hidden), emit(after)

    def _gru(self, row: Any, hidden: Any) -> Any:
        emit, cell = self.emit_, self.layer.cell
        reset = self.ops.activation(cell.activations[0])
        z, r, new = self._gates(row, 3)
        wz, wr, wh = self._gates(self.layer.recurrent, 3)
        bz, br, bh = self._gates(self.layer.bias[1], 3)
        update = z + (relax.op.matmul(hidden, wz) + bz)
        r = emit(reset(r + (relax.op.matmul(hidden, wr) + br)))
        if cell.linear_before_reset:
            new = new + r * (relax.op.matmul(hidden, wh) + bh)
        else:
            new = new + (relax.op.matmul(r * hidden, wh) + bh)
        return emit(gru(cell, self.ops, emit(update), emit(new), hidden))

    def _gates(self, data: Any, count: int) -> list[Any]:
        """Split the last axis into gates."""
        axis, units = data.ty.ndim - 1, self.layer.units
        return [
            self.emit_(relax.op.strided_slice(data, [axis], [k * units], [(k + 1) * units], [1]))
            for k in range(count)
        ]
