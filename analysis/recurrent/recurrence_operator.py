"""``relax.nn.recurrence``: a recurrent layer as one operator, which Relax does not have.

It lowers to the PrimFunc of `Recurrence`, which is all that it means. Its constructor is
`recurrence` below; `tvm.relax.op` has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import ir, relax
from tvm.ir import Op

from .cells import GATES, Cell
from .recurrence import Recurrence
from .register_operator import register_operator

NAME = "relax.nn.recurrence"
#: The results: hidden states of all steps, the last hidden state, the last cell state; the others
#: are work memory.
RESULTS = 3


def recurrence(
    operands: Sequence[Any],
    cell: str,
    activations: Sequence[str],
    reverse: bool = False,
    linear_before_reset: bool = False,
    input_forget: bool = False,
    lengths: bool = False,
    peepholes: bool = False,
) -> Any:
    """Return a call of the operator.

    Args:
        operands: The products with the inputs (steps, batch, gates x hidden), the recurrent weights
            (hidden, gates x hidden), the bias (gates x hidden), the first hidden state (batch,
            hidden); of an LSTM the first cell state; then the lengths and the peepholes.
        cell: LSTM, GRU or RNN.
        activations: The cell's activations, in ONNX's order.
        reverse: Whether it starts at the last step.
        linear_before_reset: Of a GRU, see `Cell`.
        input_forget: Of an LSTM, see `Cell`.
        lengths: Whether sequences have lengths of their own.
        peepholes: Whether an LSTM has peepholes.
    """
    attrs = ir.make_node(
        "ir.DictAttrs", cell=cell, activations=list(activations), reverse=bool(reverse),
        linear_before_reset=bool(linear_before_reset), input_forget=bool(input_forget),
        lengths=bool(lengths), peepholes=bool(peepholes),
    )  # fmt: skip
    return relax.Call(Op.get(NAME), list(operands), attrs)


def kernel_of(call: Any) -> Recurrence:
    """Return the kernel of a call."""
    attrs = call.attrs
    flags = {k: bool(attrs[k]) for k in ("linear_before_reset", "input_forget")}
    cell = Cell(str(attrs["cell"]), tuple(map(str, attrs["activations"])), **flags)
    hidden = int(call.args[1].ty.shape.values[0])
    return Recurrence(cell, hidden, bool(attrs["reverse"]), bool(attrs["lengths"]),
                      bool(attrs["peepholes"]))  # fmt: skip


def _inferred(call: Any, builder: Any) -> Any:
    data = call.args[0].ty
    steps, batch, width = data.shape.values
    hidden = call.args[1].ty.shape.values[0]
    if int(width) != GATES[str(call.attrs["cell"])] * int(hidden):
        raise ValueError(f"{NAME}: {width} columns, expected those of all gates of {hidden} units")
    shapes = [(steps, batch, hidden), (batch, hidden), (batch, hidden), (batch, width),
              (batch, hidden)]  # fmt: skip
    return ir.TupleType([relax.TensorType(s, str(data.dtype)) for s in shapes])


register_operator(NAME, recurrence, _inferred, kernel_of)
