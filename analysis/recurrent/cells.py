"""The cells of recurrent networks, on Relax tensors and on scalars of TIR alike.

The gates of a cell arrive in ONNX's order. `ops` has the activations and the number one for the
kind of operand. See the operators LSTM, GRU and RNN of ONNX.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax, tirx

Activation = Callable[[Any], Any]
#: Gates of each operator.
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
DEFAULTS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}


@dataclass(frozen=True)
class CellOps:
    """Activations by name, and a number as an operand."""

    activations: Mapping[str, Activation]
    number: Callable[[float], Any]


@dataclass(frozen=True)
class Cell:
    """What a cell computes.

    Attributes:
        op: LSTM, GRU or RNN.
        activations: The names of its activations, in ONNX's order.
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
    f, g, h = (ops.activations[name] for name in cell.activations)
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
    z = ops.activations[cell.activations[0]](update)
    return (ops.number(1.0) - z) * ops.activations[cell.activations[1]](new) + z * hidden


def relax_ops(dtype: str) -> CellOps:
    """Return the operations on Relax tensors."""

    def const(x: float) -> Any:
        return relax.const(x, dtype)

    return CellOps(
        {
            "Sigmoid": relax.op.sigmoid,
            "Tanh": relax.op.tanh,
            "Relu": relax.op.nn.relu,
            "Softsign": lambda x: x / (const(1.0) + relax.op.abs(x)),
            "HardSigmoid": lambda x: relax.op.clip(const(0.2) * x + const(0.5), 0.0, 1.0),
            "LeakyRelu": lambda x: relax.op.nn.leakyrelu(x, 0.01),
        },
        const,
    )


def scalar_ops(dtype: str) -> CellOps:
    """Return the operations on scalars of TIR."""

    def const(x: float) -> Any:
        return tirx.const(x, dtype)

    zero, one = const(0.0), const(1.0)
    return CellOps(
        {
            "Sigmoid": tirx.sigmoid,
            "Tanh": tirx.tanh,
            "Relu": lambda x: tirx.max(x, zero),
            "Softsign": lambda x: x / (one + tirx.abs(x)),
            "HardSigmoid": lambda x: tirx.max(zero, tirx.min(one, const(0.2) * x + const(0.5))),
            "LeakyRelu": lambda x: tirx.Select(x >= zero, x, const(0.01) * x),
        },
        const,
    )
