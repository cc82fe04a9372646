"""The cells of recurrent networks, on Relax tensors and on scalars of TIR alike.

The gates of a cell arrive in ONNX's order. `ops` has the activations for the kind of operand. See
the operators LSTM, GRU and RNN of ONNX.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .cell_ops import CellOps

#: Gates of each operator.
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
DEFAULTS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}


@dataclass(frozen=True)
class Cell:
    """What a cell computes.

    Attributes:
        op: LSTM, GRU or RNN.
        activations: Its activations, in ONNX's order, as `activation_text` writes them.
        linear_before_reset: Of a GRU.
        input_forget: Of an LSTM, whether the forget gate is one minus the input gate.
    """

    op: str
    activations: Sequence[str]
    linear_before_reset: bool = False
    input_forget: bool = False

    @property
    def is_staged(self) -> bool:
        """Whether the last gate reads the reset state, which the other gates compute."""
        return self.op == "GRU" and not self.linear_before_reset


def lstm(
    cell: Cell, ops: CellOps, gates: Sequence[Any], state: Any, peepholes: Any
) -> tuple[Any, Any]:
    """Return the hidden and the cell state of an LSTM.

    Args:
        cell: The cell.
        ops: The kind of operands.
        gates: Input, output, forget and cell gate before their activations.
        state: The cell state before.
        peepholes: The weights of the input, output and forget gate, or None.
    """
    f, g, h = (ops.activation(text) for text in cell.activations)
    into, out, forget, new = gates
    pi, po, pf = peepholes if peepholes is not None else (None, None, None)
    into = f(into if pi is None else into + pi * state)
    keep = (
        ops.number(1.0) - into
        if cell.input_forget
        else f(forget if pf is None else forget + pf * state)
    )
    after = keep * state + into * g(new)
    return f(out if po is None else out + po * after) * h(after), after


def gru(cell: Cell, ops: CellOps, update: Any, new: Any, hidden: Any) -> Any:
    """Return the hidden state of a GRU from its update gate and its new gate."""
    z = ops.activation(cell.activations[0])(update)
    return (ops.number(1.0) - z) * ops.activation(cell.activations[1])(new) + z * hidden
