"""An LSTM whose products are of 8-bit integers, as one PrimFunc.

It is ONNX Runtime's DynamicQuantizeLSTM. The sequence as a whole, and the hidden state of each
step, are rounded to 256 levels between their extremes, of which 0 is one. Products with the weights
are added up in int32, which is exact, and scaled once. The bias comes last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from .cells import GATES
from .steps import ROWS, RepeatedCell, Steps, extern

#: Where the scale and the point of the sequence and of the hidden state are kept, after the least
#: and the greatest element.
_SEQUENCE, _STATE = 0, 4


@dataclass(frozen=True)
class QuantizedLstm(RepeatedCell):
    """An LSTM with dynamic quantisation, repeated over the steps of a sequence."""

    def __call__(
        self, data: Any, weights: Any, scale: Any, zero: Any, recurrent: Any, recurrent_scale: Any,
        recurrent_zero: Any, bias: Any, hidden: Any, state: Any, *more: Any
    ) -> list[Any]:  # fmt: skip
        """Return the hidden states of all steps, the last hidden state, the last cell state.

        Args:
            data: The sequence: steps, batch, input size.
            weights: Integers of 8 bits: input size, gates x hidden.
            scale: What the weights are multiplied by: one number, or one for each column.
            zero: What is subtracted from the weights before, in their dtype: alike.
            recurrent: Integers of 8 bits: hidden, gates x hidden.
            recurrent_scale: Of the recurrent weights.
            recurrent_zero: Of the recurrent weights.
            bias: gates x hidden.
            hidden: The first hidden state: batch, hidden.
            state: The first cell state, alike.
            more: Lengths and peepholes if there are any.
        """
        steps, batch, size = data.shape
        width, rows = GATES["LSTM"] * self.hidden, max(int(size), self.hidden)
        per_unit = (batch, self.hidden)
        shapes = [
            (steps, *per_unit),
            per_unit,
            per_unit,
            (batch, width),
            (8,),
            (rows,),
            (width,),
            (1,),
        ]
        args = [data, weights, scale, zero, recurrent, recurrent_scale, recurrent_zero, bias,
                hidden, state, *more]  # fmt: skip

        def emit(ins: Any, outs: Any) -> None:
            _QuantizedSteps(self, steps, batch, int(size), ins, outs).emit()

        dtypes = ["float32"] * 5 + ["int32", "int32", "int32"]
        return extern("quantized_lstm", emit, shapes, dtypes, args)


@dataclass(frozen=True)
class _Weights:
    """Buffers of weights: the integers, of so many rows, their scale and their zero point."""

    rows: int
    codes: Any
    scale: Any
    zero: Any


def _column(buffer: Any, column: Any) -> Any:
    """Return the number of a column, which may be that of all columns."""
    return buffer[0 if int(buffer.shape[0]) == 1 else column]


class _QuantizedSteps(Steps):
    """Steps with products of integers."""

    def __init__(
        self, what: QuantizedLstm, steps: Any, batch: Any, size: int, ins: Any, outs: Any
    ) -> None:
        self.data, *weights, self.bias = ins[:8]
        self.inputs = _Weights(size, *weights[:3])
        self.recurrent = _Weights(what.hidden, *weights[3:])
        *results, self.product, self.levels, self.codes, self.sums, self.total = outs
        super().__init__(what, steps, batch, ins[8:], results)

    def emit(self) -> None:
        self._find_levels(self.data, self.steps * self.batch * self.inputs.rows, _SEQUENCE)
        super().emit()

    def _find_levels(self, data: Any, count: Any, place: int) -> None:
        """Store the scale and the point of a tensor."""
        levels = self.levels
        zero, most = self.ops.number(0.0), self.ops.number(255.0)
        levels[place], levels[place + 1] = zero, zero
        with T.serial(0, count) as k:
            levels[place] = tirx.min(levels[place], data[k])
            levels[place + 1] = tirx.max(levels[place + 1], data[k])
        low, high = levels[place], levels[place + 1]
        scale = tirx.Select(low == high, self.ops.number(1.0), (high - low) / most)
        levels[place + 2] = scale
        point = tirx.max(zero, tirx.min(most, zero - low / levels[place + 2]))
        levels[place + 3] = tirx.nearbyint(point)

    def products(self, step: Any) -> None:
        self._find_levels(self.hidden, self.batch * self.units, _STATE)
        with T.serial(0, self.batch) as b:
            row = self.time(step, b) * self.batch + b
            first = b * self.width
            self._multiply(self.inputs, self.data, row * self.inputs.rows, _SEQUENCE)
            with T.serial(0, self.width) as j:
                self.product[first + j] = self._scaled(self.inputs, j, _SEQUENCE)
            self._multiply(self.recurrent, self.hidden, b * self.units, _STATE)
            with T.serial(0, self.width) as j:
                target = first + j
                added = self._scaled(self.recurrent, j, _STATE)
                self.product[target] = self.product[target] + added

    def _multiply(self, weights: _Weights, data: Any, first: Any, place: int) -> None:
        """Store the sums of products of a row of data, rounded, with the columns of weights."""
        zero, most = self.ops.number(0.0), self.ops.number(255.0)
        scale, point = self.levels[place + 2], self.levels[place + 3]
        self.total[0] = tirx.const(0, "int32")
        with T.serial(0, weights.rows) as k:
            code = tirx.nearbyint(data[first + k] / scale) + point
            code = tirx.max(zero, tirx.min(most, code)) - point
            self.codes[k] = tirx.Cast("int32", code)
            self.total[0] = self.total[0] + self.codes[k]
        # The zero point of a column is subtracted from the sum, as often as the codes add up to.
        with T.serial(0, self.width) as j:
            self.sums[j] = -self.total[0] * tirx.Cast("int32", _column(weights.zero, j))
        rows = next(r for r in ROWS if weights.rows % r == 0)
        with T.serial(0, weights.rows // rows) as k, T.serial(0, self.width) as j:
            terms = self.sums[j]
            for r in range(rows):
                row = k * rows + r
                weight = tirx.Cast("int32", weights.codes[row * self.width + j])
                terms = terms + self.codes[row] * weight
            self.sums[j] = terms

    def _scaled(self, weights: _Weights, column: Any, place: int) -> Any:
        factor = self.levels[place + 2] * _column(weights.scale, column)
        return tirx.Cast("float32", self.sums[column]) * factor

    def gate(self, time: Any, sequence: Any, unit: Any, number: int) -> Any:
        column = number * self.units + unit
        return self.product[sequence * self.width + column] + self.bias[column]
