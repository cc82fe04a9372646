"""A recurrence over any number of steps, as one PrimFunc.

The products of the inputs with their weights are computed before, for all steps at once. What is
left is sequential: each step multiplies the hidden state by the recurrent weights, row by row, so
that the inner loop runs over contiguous gates. Relax has no loop, hence a PrimFunc.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.script.ir_builder import tirx as T

from .cells import GATES, gru
from .steps import ROWS, RepeatedCell, Steps, extern


@dataclass(frozen=True)
class Recurrence(RepeatedCell):
    """A cell in floating point, repeated over the steps of a sequence."""

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

        def emit(ins: Any, outs: Any) -> None:
            _FloatSteps(self, steps, batch, ins, outs, str(inputs.dtype)).emit()

        return extern(self.cell.op.lower(), emit, shapes, [inputs.dtype] * 5, args)


class _FloatSteps(Steps):
    """Steps in floating point, given the products with the inputs."""

    def __init__(
        self, what: Recurrence, steps: Any, batch: Any, ins: Any, outs: Any, dtype: str
    ) -> None:
        self.inputs, self.weights, self.bias, *states = ins
        *results, self.product, self.operand = outs
        super().__init__(what, steps, batch, states, results, dtype)

    def products(self, step: Any) -> None:
        with T.serial(0, self.batch * self.units) as k:
            self.operand[k] = self.hidden[k]
        self._multiply(0, 2 * self.units if self.cell.is_staged else self.width)
        if self.cell.is_staged:
            self._reset(step)
            self._multiply(2 * self.units, self.width)

    def _multiply(self, first: int, last: int) -> None:
        """Store the operand times the weights of some gates, plus the bias."""
        rows = next(r for r in ROWS if self.units % r == 0)
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
        f = self.ops.activation(self.cell.activations[0])
        with T.serial(0, self.batch) as b:
            time = self.time(step, b)
            with T.serial(0, self.units) as j:
                at = b * self.units + j
                self.operand[at] = f(self.gate(time, b, j, 1)) * self.hidden[at]

    def gate(self, time: Any, sequence: Any, unit: Any, number: int) -> Any:
        column = number * self.units + unit
        inputs = self.inputs[(time * self.batch + sequence) * self.width + column]
        return inputs + self.product[sequence * self.width + column]

    def new(self, time: Any, sequence: Any, unit: Any, at: Any) -> Any:
        if self.cell.op == "RNN":
            return self.ops.activation(self.cell.activations[0])(self.gate(time, sequence, unit, 0))
        if self.cell.is_staged:
            new = self.gate(time, sequence, unit, 2)
        else:
            f = self.ops.activation(self.cell.activations[0])
            column = 2 * self.units + unit
            inputs = self.inputs[(time * self.batch + sequence) * self.width + column]
            new = (
                inputs
                + f(self.gate(time, sequence, unit, 1))
                * self.product[sequence * self.width + column]
            )
        return gru(self.cell, self.ops, self.gate(time, sequence, unit, 0), new, self.hidden[at])
