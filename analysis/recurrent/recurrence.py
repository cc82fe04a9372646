"""A recurrence over any number of steps, as one PrimFunc.

The products of the inputs with their weights are computed before, for all steps at once. What is
left is sequential: each step multiplies the hidden state by the recurrent weights, row by row, so
that the inner loop runs over contiguous gates. Relax has no loop, hence a PrimFunc.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from .cells import GATES, Cell, CellOps, gru, lstm, scalar_ops

#: Rows of the weights that one pass over the gates adds.
ROWS = 4


@dataclass(frozen=True)
class Recurrence:
    """A cell repeated over the steps of a sequence.

    Attributes:
        cell: The cell.
        hidden: The number of hidden units.
        reverse: Whether it starts at the last step.
        has_lengths: Whether sequences have lengths of their own.
        has_peepholes: Whether an LSTM has peepholes.
        quantized: Whether the state is rounded to 8 bits before the product of each step, as
            ONNX Runtime's DynamicQuantizeLSTM does.
    """

    cell: Cell
    hidden: int
    reverse: bool
    has_lengths: bool = False
    has_peepholes: bool = False
    quantized: bool = False

    def __call__(self, inputs: Any, weights: Any, bias: Any, hidden: Any, *more: Any) -> list[Any]:
        """Return the hidden states of all steps, the last hidden state, the last cell state.

        Args:
            inputs: The products with the inputs, biases included: steps, batch, gates x hidden.
            weights: The recurrent weights: hidden, gates x hidden.
            bias: What is added to the product with the hidden state: gates x hidden.
            hidden: The first hidden state: batch, hidden.
            more: Of an LSTM, the first cell state; then lengths and peepholes if there are any.
        """
        steps, batch = inputs.shape[0], inputs.shape[1]
        state = (batch, self.hidden)
        width = GATES[self.cell.op] * self.hidden
        shapes = [(steps, *state), state, state, (batch, width), state]
        args = [inputs, weights, bias, hidden, *more]

        def body(ins: Any, outs: Any) -> Any:
            with IRBuilder() as builder:
                buffers = [T.buffer_proxy(b) for b in [*ins, *outs]]
                with T.seq_scope():
                    _Steps(self, steps, batch, buffers[: len(ins)], buffers[len(ins) :]).emit()
                scope = builder.get()
            return scope.body  # without the mark of the scope, of which code generation warns

        return te.extern(shapes, args, body, name=self.cell.op.lower(), dtype=[inputs.dtype] * 5)  # type: ignore[no-any-return]


class _Steps:
    """Emits the statements; buffers are indexed flat."""

    def __init__(self, what: Recurrence, steps: Any, batch: Any, ins: Any, outs: Any) -> None:
        self.what, self.cell, self.units = what, what.cell, what.hidden
        self.steps, self.batch = steps, batch
        self.inputs, self.weights, self.bias, self.hidden0, *more = ins
        self.cell0 = more.pop(0) if what.cell.op == "LSTM" else None
        self.lengths = more.pop(0) if what.has_lengths else None
        self.peepholes = more.pop(0) if what.has_peepholes else None
        self.result, self.hidden, self.state, self.product, self.operand = outs
        self.width = GATES[what.cell.op] * what.hidden
        self.dtype = "float32"
        self.ops: CellOps = scalar_ops(self.dtype)

    def emit(self) -> None:
        total = self.batch * self.units
        with T.serial(0, total) as k:
            self.hidden[k] = self.hidden0[k]
            self.state[k] = self.hidden0[k] if self.cell0 is None else self.cell0[k]
        with T.serial(0, self.steps) as step:
            self._operand()
            self._multiply(0, 2 * self.units if self.cell.is_staged else self.width)
            if self.cell.is_staged:
                self._reset(step)
                self._multiply(2 * self.units, self.width)
            self._update(step)

    def _operand(self) -> None:
        """Copy the hidden state into the operand of the product, rounded if quantized."""
        total = self.batch * self.units
        if not self.what.quantized:
            with T.serial(0, total) as k:
                self.operand[k] = self.hidden[k]
            return
        zero, most = self.ops.number(0.0), self.ops.number(255.0)
        # The first two elements of the product's buffer hold the extremes until it is written.
        self.product[0], self.product[1] = zero, zero
        with T.serial(0, total) as k:
            self.product[0] = tirx.min(self.product[0], self.hidden[k])
            self.product[1] = tirx.max(self.product[1], self.hidden[k])
        low, high = self.product[0], self.product[1]
        scale = tirx.Select(low == high, self.ops.number(1.0), (high - low) / most)
        self.product[2] = scale
        offset = tirx.nearbyint(tirx.max(zero, tirx.min(most, zero - low / self.product[2])))
        self.product[3] = offset
        with T.serial(0, total) as k:
            code = tirx.nearbyint(self.hidden[k] / self.product[2]) + self.product[3]
            code = tirx.max(zero, tirx.min(most, code))
            self.operand[k] = (code - self.product[3]) * self.product[2]

    def _multiply(self, first: int, last: int) -> None:
        """Store the operand times the weights of some gates, plus the bias."""
        rows = ROWS if self.units % ROWS == 0 else 1
        with T.serial(0, self.batch) as b:
            with T.serial(0, last - first) as j:
                self.product[b * self.width + first + j] = self.bias[first + j]
            with T.serial(0, self.units // rows) as k, T.serial(0, last - first) as j:
                target = b * self.width + first + j
                terms = self.product[target]
                for r in range(rows):
                    row = k * rows + r
                    factor = self.operand[b * self.units + row]
                    terms = terms + factor * self.weights[row * self.width + first + j]
                self.product[target] = terms

    def _reset(self, step: Any) -> None:
        """Store the reset state as the operand of the last gate."""
        f = self.ops.activations[self.cell.activations[0]]
        with T.serial(0, self.batch) as b:
            time = self._time(step, b)
            with T.serial(0, self.units) as j:
                at = b * self.units + j
                self.operand[at] = f(self._gate(time, b, j, 1)) * self.hidden[at]

    def _gate(self, time: Any, b: Any, j: Any, k: int) -> Any:
        column = k * self.units + j
        inputs = self.inputs[(time * self.batch + b) * self.width + column]
        return inputs + self.product[b * self.width + column]

    def _time(self, step: Any, b: Any) -> Any:
        """Return the step of the sequence that is computed; steps after its end are skipped."""
        if not self.what.reverse:
            return step
        if self.lengths is None:
            return self.steps - 1 - step
        length = tirx.Cast("int64", self.lengths[b])
        return tirx.Select(step < length, length - 1 - step, step)

    def _update(self, step: Any) -> None:
        with T.serial(0, self.batch) as b:
            time = self._time(step, b)
            if self.lengths is None:
                self._states(time, b)
                return
            with T.If(step < tirx.Cast("int64", self.lengths[b])):
                with T.Then():
                    self._states(time, b)
                with T.Else():
                    with T.serial(0, self.units) as j:
                        self.result[self._row(time, b) + j] = self.ops.number(0.0)

    def _row(self, time: Any, b: Any) -> Any:
        return (time * self.batch + b) * self.units

    def _states(self, time: Any, b: Any) -> None:
        with T.serial(0, self.units) as j:
            at = b * self.units + j
            if self.cell.op == "LSTM":
                self._lstm(time, b, j, at)
            else:
                self.hidden[at] = self._new(time, b, j, at)
            self.result[self._row(time, b) + j] = self.hidden[at]

    def _lstm(self, time: Any, b: Any, j: Any, at: Any) -> None:
        peepholes = None
        if self.peepholes is not None:
            peepholes = [self.peepholes[k * self.units + j] for k in range(3)]
        gates = [self._gate(time, b, j, k) for k in range(4)]
        # The cell state is stored first: the hidden state reads it.
        _, after = lstm(self.cell, self.ops, gates, self.state[at], peepholes)
        out = gates[1]
        self.state[at] = after
        if peepholes is not None:
            out = out + peepholes[1] * self.state[at]
        f, _, h = (self.ops.activations[name] for name in self.cell.activations)
        self.hidden[at] = f(out) * h(self.state[at])

    def _new(self, time: Any, b: Any, j: Any, at: Any) -> Any:
        if self.cell.op == "RNN":
            return self.ops.activations[self.cell.activations[0]](self._gate(time, b, j, 0))
        if self.cell.is_staged:
            new = self._gate(time, b, j, 2)
        else:
            f = self.ops.activations[self.cell.activations[0]]
            column = 2 * self.units + j
            inputs = self.inputs[(time * self.batch + b) * self.width + column]
            new = inputs + f(self._gate(time, b, j, 1)) * self.product[b * self.width + column]
        return gru(self.cell, self.ops, self._gate(time, b, j, 0), new, self.hidden[at])
