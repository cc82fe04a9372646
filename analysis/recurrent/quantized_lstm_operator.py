"""``relax.nn.quantized_lstm``: an LSTM with dynamic quantisation, which Relax does not have.

It lowers to the PrimFunc of `QuantizedLstm`, which is all that it means. Its constructor is
`quantized_lstm` below; `tvm.relax.op` has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import ir, relax
from tvm.ir import Op

from .cells import GATES, Cell
from .quantized_lstm import QuantizedLstm
from .register_operator import register_operator

NAME = "relax.nn.quantized_lstm"


def quantized_lstm(
    operands: Sequence[Any],
    activations: Sequence[str],
    reverse: bool = False,
    input_forget: bool = False,
    lengths: bool = False,
    peepholes: bool = False,
) -> Any:
    """Return a call of the operator.

    Args:
        operands: The operands of `QuantizedLstm`.
        activations: The activations, in ONNX's order.
        reverse: Whether it starts at the last step.
        input_forget: See `Cell`.
        lengths: Whether sequences have lengths of their own.
        peepholes: Whether the cell has peepholes.
    """
    attrs = ir.make_node(
        "ir.DictAttrs", activations=list(activations), reverse=bool(reverse),
        input_forget=bool(input_forget), lengths=bool(lengths), peepholes=bool(peepholes),
    )  # fmt: skip
    return relax.Call(Op.get(NAME), list(operands), attrs)


def kernel_of(call: Any) -> QuantizedLstm:
    """Return the kernel of a call."""
    attrs = call.attrs
    names = tuple(map(str, attrs["activations"]))
    cell = Cell("LSTM", names, input_forget=bool(attrs["input_forget"]))
    hidden = int(call.args[4].ty.shape.values[0])
    return QuantizedLstm(cell, hidden, bool(attrs["reverse"]), bool(attrs["lengths"]),
                         bool(attrs["peepholes"]))  # fmt: skip


def _inferred(call: Any, builder: Any) -> Any:
    steps, batch, size = call.args[0].ty.shape.values
    hidden, width = call.args[4].ty.shape.values
    if int(width) != GATES["LSTM"] * int(hidden):
        raise ValueError(f"{NAME}: {width} columns, expected those of all gates of {hidden} units")
    shapes = [(steps, batch, hidden), (batch, hidden), (batch, hidden), (batch, width), (8,),
              (max(int(size), int(hidden)),), (width,), (1,)]  # fmt: skip
    dtypes = ["float32"] * 5 + ["int32", "int32", "int32"]
    return ir.TupleType([relax.TensorType(s, d) for s, d in zip(shapes, dtypes, strict=True)])


register_operator(NAME, quantized_lstm, _inferred, kernel_of)
