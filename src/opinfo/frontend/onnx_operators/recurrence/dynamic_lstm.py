"""DynamicQuantizeLSTM of ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from ....analysis.recurrent.quantized_lstm import QuantizedLstm
from ...onnx_graph.contributed_attributes import check_attributes
from ...onnx_graph.conversion.converter_table import MICROSOFT, converts
from ...onnx_graph.onnx_node import OnnxNode
from .recurrent import DirectionOperands, sequence

#: The attributes of an LSTM.
ATTRIBUTES = ("activation_alpha activation_beta activations clip direction hidden_size "
              "input_forget")  # fmt: skip
#: The inputs with weights, each with those of its scale and its zero point.
_WEIGHTS = ((1, 8, 9), (2, 10, 11))


@converts("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_quantize_lstm(node: OnnxNode) -> list[Any]:
    """Run an LSTM whose operands of products are rounded to 8 bits."""
    check_attributes(node, ATTRIBUTES, {})
    return sequence(node, _run)


def _run(operands: DirectionOperands, reverse: bool, data: Any) -> list[Any]:
    node = operands.node
    weights = [x for places in _WEIGHTS for x in _weights(node, operands.index, *places)]
    lengths, peepholes = operands.lengths(), operands.peepholes()
    kernel = QuantizedLstm(operands.cell(), operands.units, reverse, lengths is not None,
                           peepholes is not None)  # fmt: skip
    bias = node.emit(relax.op.add(*operands.bias()))
    more = [x for x in (lengths, peepholes) if x is not None]
    out = node.builder.emit_te(kernel, data, *weights, bias, operands.hidden(), operands.state(),
                               *more, primfunc_name_hint="quantized_lstm")  # fmt: skip
    return [node.emit(relax.TupleGetItem(out, k)) for k in range(3)]


def _weights(node: OnnxNode, index: int, codes: int, scale: int, zero: int) -> list[Any]:
    """Return the weights of a direction, their scale and their zero point, as constants.

    Args:
        node: The node.
        index: The direction.
        codes: The input with the integers: directions, rows, columns.
        scale: The input with a number for each direction, or for each column of each.
        zero: The input with the zero points, alike.
    """
    array = node.array(codes, "weights")
    if array.ndim != 3 or array.dtype not in ("int8", "uint8"):
        node.refuse(f"weights of {array.dtype} in {array.ndim} dimensions, expected int8 or uint8 "
                    "in 3")  # fmt: skip
    parts = [array[index]]
    for k, dtype in ((scale, "float32"), (zero, str(array.dtype))):
        numbers = node.array(k, "the quantisation of weights").reshape(array.shape[0], -1)[index]
        if numbers.size not in (1, array.shape[2]) or numbers.dtype != dtype:
            node.refuse(f"input {k} has {numbers.size} elements of {numbers.dtype}, expected 1 or "
                        f"{array.shape[2]} of {dtype}")  # fmt: skip
        parts.append(numbers)
    return [relax.const(np.ascontiguousarray(part)) for part in parts]
