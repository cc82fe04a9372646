"""The loop over the steps of a recurrence, as statements of TIR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from .cell_ops import CellOps, scalar_ops
from .cells import GATES, Cell, lstm

#: Rows of the weights that one pass over the gates adds: the first of these that divides theirs.
ROWS = (8, 4, 1)


def extern(
    name: str, emit: Callable[[Any, Any], None], shapes: Any, dtypes: Sequence[str], args: Any
) -> list[Any]:
    """Return the results of statements that ``emit`` writes, given the operands and the results."""

    def body(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            buffers = [T.buffer_proxy(b) for b in [*ins, *outs]]
            with T.seq_scope():
                emit(buffers[: len(ins)], buffers[len(ins) :])
            scope = builder.get()
        return scope.body  # without the mark of the scope, of which code generation warns

    return te.extern(shapes, args, body, name=name, dtype=list(dtypes))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class RepeatedCell:
    """A cell repeated over the steps of a sequence.

    Attributes:
        cell: The cell.
        hidden: The number of hidden units.
        reverse: Whether it starts at the last step.
        has_lengths: Whether sequences have lengths of their own.
        has_peepholes: Whether an LSTM has peepholes.
    """

    cell: Cell
    hidden: int
    reverse: bool
    has_lengths: bool = False
    has_peepholes: bool = False


class Steps:
    """Emits the statements of all steps; buffers are indexed flat.

    A subclass computes the products of a step and a gate before its activation.

    Args:
        what: The cell, and how it is repeated.
        steps: The number of steps.
        batch: The number of sequences.
        states: The first hidden state and, of an LSTM, the first cell state; then the lengths and
            the peepholes, if there are any.
        results: The hidden states, and the buffers of the hidden state and of the cell state.
        dtype: The dtype of the states.
    """

    def __init__(
        self, what: RepeatedCell, steps: Any, batch: Any, states: Any, results: Any,
        dtype: str = "float32",
    ) -> None:  # fmt: skip
        self.what, self.cell, self.units = what, what.cell, what.hidden
        self.steps, self.batch = steps, batch
        self.hidden0, *more = states
        self.cell0 = more.pop(0) if what.cell.op == "LSTM" else None
        self.lengths = more.pop(0) if what.has_lengths else None
        self.peepholes = more.pop(0) if what.has_peepholes else None
        self.result, self.hidden, self.state = results
        self.width = GATES[what.cell.op] * what.hidden
        self.ops: CellOps = scalar_ops(dtype)

    def emit(self) -> None:
        """Emit the loop over the steps."""
        total = self.batch * self.units
        with T.serial(0, total) as k:
            self.hidden[k] = self.hidden0[k]
            self.state[k] = self.hidden0[k] if self.cell0 is None else self.cell0[k]
        with T.serial(0, self.steps) as step:
            self.products(step)
            self._update(step)

    def products(self, step: Any) -> None:
        """Emit what a step computes for all its gates."""
        raise NotImplementedError

    def gate(self, time: Any, sequence: Any, unit: Any, number: int) -> Any:
        """Return a gate of a unit, by number, before its activation."""
        raise NotImplementedError

    def time(self, step: Any, sequence: Any) -> Any:
        """Return the step of the sequence that is computed; steps after its end are skipped."""
        if not self.what.reverse:
            return step
        if self.lengths is None:
            return self.steps - 1 - step
        length = tirx.Cast("int64", self.lengths[sequence])
        return tirx.Select(step < length, length - 1 - step, step)

    def _update(self, step: Any) -> None:
        with T.serial(0, self.batch) as b:
            time = self.time(step, b)
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
                self.hidden[at] = self.new(time, b, j, at)
            self.result[self._row(time, b) + j] = self.hidden[at]

    def _lstm(self, time: Any, b: Any, j: Any, at: Any) -> None:
        peepholes = None
        if self.peepholes is not None:
            peepholes = [self.peepholes[k * self.units + j] for k in range(3)]
        gates = [self.gate(time, b, j, k) for k in range(4)]
        # The cell state is stored first: the hidden state reads it.
        _, after = lstm(self.cell, self.ops, gates, self.state[at], peepholes)
        out = gates[1]
        self.state[at] = after
        if peepholes is not None:
            out = out + peepholes[1] * self.state[at]
        f, _, h = (self.ops.activation(text) for text in self.cell.activations)
        self.hidden[at] = f(out) * h(self.state[at])

    def new(self, time: Any, sequence: Any, unit: Any, at: Any) -> Any:
        """Return the hidden state of a cell that is not an LSTM."""
        raise NotImplementedError
