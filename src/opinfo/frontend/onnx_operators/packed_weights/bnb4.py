"""MatMulBnb4: a matrix of bitsandbytes, whose values are codes of 4 bits in blocks with a maximum.

    weight[j] = table[data[j // 2] >> (4 if j is even else 0) & 15] * absmax[j // block]

Here `j` counts the elements of the matrix, row by row, so blocks go on from row to row. FP4 has a
sign, 2 bits of exponent and one of fraction, over 12; NF4 has the quantiles of a normal
distribution (Dettmers et al., QLoRA, 2305.14314, appendix E).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax, te, tirx

from ...onnx_graph.contributed_attributes import check_attributes
from ...onnx_graph.conversion.converter_table import MICROSOFT, converts
from ...onnx_graph.conversion.half_types import accumulated
from ...onnx_graph.onnx_node import OnnxNode

_HALF_OF_FP4 = [0.0, 5.208333333e-03, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25]
#: The numbers of the codes, for each `quant_type`.
TABLES = (
    [*_HALF_OF_FP4, *(-x for x in _HALF_OF_FP4)],
    [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
     -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
     0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
     0.7229568362236023, 1.0],
)  # fmt: skip
#: The smallest block of values that share a maximum.
SMALLEST = 16


@converts("MatMulBnb4", domain=MICROSOFT)
def matmul_bnb4(node: OnnxNode) -> Any:
    """Multiply rows with a matrix of codes, which is transposed unless `transB` is 0."""
    # In training, gradients need another product; the result is the same.
    check_attributes(node, "K N block_size quant_type transB training_mode", {})
    depth, columns, block = (_count(node, name) for name in ("K", "N", "block_size"))
    kind = node.attr("quant_type", "missing")
    if kind not in (0, 1):
        node.refuse(f"its attribute 'quant_type' is {kind}, expected 0 for FP4 or 1 for NF4")
    if block < SMALLEST or block & (block - 1):
        node.refuse(f"its attribute 'block_size' is {block}, expected a power of 2 from "
                    f"{SMALLEST} on")  # fmt: skip
    if node.dtype(1) != "uint8":
        node.refuse(f"weights of {node.dtype(1)}, expected uint8")
    if node.dtype(2) != node.dtype(0):
        node.refuse(f"maxima of {node.dtype(2)} for rows of {node.dtype(0)}, expected the same")
    count, turned = columns * depth, bool(node.attr("transB", 1))
    data, most = _flat(node, 1, -(-count // 2)), _flat(node, 2, -(-count // block))
    table = relax.const(np.array(TABLES[kind], node.dtype(0)))
    weights = node.emit(node.builder.call_te(
        _dequantized, data, most, table, columns, depth, block,
        primfunc_name_hint="dequantize_bnb4"))  # fmt: skip
    if turned:
        weights = node.emit(relax.op.permute_dims(weights))
    rows = node.cast_shape(node.tensor(0), [*node.shape(0)[:-1], depth if turned else columns])
    return relax.op.matmul(rows, weights, out_dtype=accumulated(rows))


def _count(node: OnnxNode, name: str) -> int:
    value = int(node.attr(name, 0))
    if value < 1:
        node.refuse(f"its attribute '{name}' is {value}, expected at least 1")
    return value


def _flat(node: OnnxNode, k: int, size: int) -> Any:
    """Return input `k` as a vector of a size; exporters also write a column."""
    dims = node.shape(k)
    own = [dim for dim in dims if not (isinstance(dim, int) and dim == 1)] or [1]
    if len(own) != 1 or (isinstance(own[0], int) and own[0] != size):
        node.refuse(f"input {k} has the shape ({', '.join(map(str, dims))}), expected ({size})")
    if len(dims) == 1:
        return node.cast_shape(node.tensor(k), [size])
    return node.reshape(node.tensor(k), [size])


def _dequantized(
    data: te.Tensor, most: te.Tensor, table: te.Tensor, columns: int, depth: int, block: int
) -> te.Tensor:
    """Return the matrix [columns, depth]."""

    def element(row: Any, column: Any) -> Any:
        place = row * depth + column
        shift = tirx.Cast("int32", 4 - 4 * tirx.floormod(place, 2))
        byte = tirx.Cast("int32", data[tirx.floordiv(place, 2)])
        code = tirx.bitwise_and(tirx.shift_right(byte, shift), tirx.const(15, "int32"))
        return table[code] * most[tirx.floordiv(place, block)]

    return te.compute((columns, depth), element, name="weights")
