"""MatMulNBits and GatherBlockQuantized: values of few bits, a scale for each block of a row.

value[n, k] = data[n, k // per] >> (bits * (k % per)) & (2**bits - 1)    with per = 8 // bits
weight[n, k] = (value[n, k] - zero_point[n, k // block]) * scale[n, k // block]
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from ....analysis.composites.grouped import group_dequantize
from ...onnx_graph.contributed_attributes import check_absent, check_attributes
from ...onnx_graph.conversion.converter_table import MICROSOFT, converts
from ...onnx_graph.conversion.half_types import accumulated
from ...onnx_graph.narrow_types import NARROW, as_bytes
from ...onnx_graph.onnx_node import OnnxNode
from ..indexing.indices_from_start import positive

BITS = (2, 4, 8)
#: The smallest block of values that share a scale.
SMALLEST = 16


@converts("MatMulNBits", domain=MICROSOFT)
def matmul_nbits(node: OnnxNode) -> Any:
    """Multiply rows with a transposed matrix of few bits, and add a bias."""
    check_attributes(node, "K N bits block_size accuracy_level", {"weight_prepacked": 0})
    check_absent(node, {4: "g_idx"})
    depth, columns = int(node.attr("K", 0)), int(node.attr("N", 0))
    bits, block = _format(node, 4)
    blocks, per = -(-depth // block), 8 // bits
    if node.dtype(1) != "uint8":
        node.refuse(f"weights of {node.dtype(1)}, expected uint8")
    node.check_shape(1, [columns, blocks, block // per])
    data = _reshaped(node, 1, [columns, blocks * (block // per)])
    scales = _reshaped(node, 2, [columns, blocks])
    points, offset = _points(node, 3, [columns, blocks], bits)
    weights = node.emit(group_dequantize(
        data, scales, points, bits=bits, group_size=block, axis=1, offset=offset,
        size=depth if depth % block else None))  # fmt: skip
    turned = node.emit(relax.op.permute_dims(weights))
    rows = node.cast_shape(node.tensor(0), [*node.shape(0)[:-1], depth])
    result = node.emit(relax.op.matmul(rows, turned, out_dtype=accumulated(rows)))
    if not node.has(5):
        return result
    bias, dtype = node.tensor(5), str(result.ty.dtype)
    return relax.op.add(result, bias if node.dtype(5) == dtype else relax.op.astype(bias, dtype))


def _format(node: OnnxNode, default: int) -> tuple[int, int]:
    """Return the bits of a value and the values of a block."""
    bits, block = int(node.attr("bits", default)), int(node.attr("block_size", 128))
    if bits not in BITS:
        node.refuse(f"bits is {bits}, expected one of {', '.join(map(str, BITS))}")
    if block < SMALLEST or block & (block - 1):
        node.refuse(f"block_size is {block}, expected a power of 2 from {SMALLEST} on")
    return bits, block


def _reshaped(node: OnnxNode, k: int, shape: list[int]) -> Any:
    """Return input `k` with a shape, as a constant if it is one."""
    value = node.value(k)
    if value.is_constant and value.elements is not None:
        if value.elements.size != np.prod(shape):
            node.refuse(f"input {k} has the shape {node.shape(k)}, expected {shape}")
        return relax.const(np.ascontiguousarray(value.elements).reshape(shape), value.dtype)
    return node.reshape(node.tensor(k), shape)


def _points(node: OnnxNode, k: int, shape: list[int], bits: int) -> tuple[Any, float]:
    """Return the zero points of all blocks, and the one number where there are none."""
    if not node.has(k):
        return None, float(1 << (bits - 1))
    if node.dtype(k) != "uint8":
        return _reshaped(node, k, shape), 0.0
    per = 8 // bits
    packed = [shape[0], -(-shape[1] // per)]
    if not node.value(k).is_constant and per > 1:
        node.refuse("its zero points are computed at run time, expected a constant")
    data = _reshaped(node, k, packed)
    if per == 1:
        return data, 0.0
    words = node.array(k, "zero points").reshape(packed)
    values = words[..., None] >> (bits * np.arange(per, dtype="uint8")) & np.uint8((1 << bits) - 1)
    return relax.const(values.reshape(shape[0], -1)[:, : shape[1]].copy(), "uint8"), 0.0


@converts("GatherBlockQuantized", domain=MICROSOFT)
def gather_block_quantized(node: OnnxNode) -> Any:
    """Take rows of a matrix of few bits, and dequantise them; negative indices are from the end."""
    check_attributes(node, "bits block_size quantize_axis gather_axis", {})
    if node.rank(0) != 2 or node.axis(0, 2, "gather_axis") != 0 or (
        node.axis(1, 2, "quantize_axis") != 1
    ):  # fmt: skip
        node.refuse(f"data of {node.rank(0)} dimensions, with gather_axis "
                    f"{node.attr('gather_axis', 0)} and quantize_axis "
                    f"{node.attr('quantize_axis', 1)}, expected rows of a matrix")  # fmt: skip
    bits, block = _format(node, 4)
    narrow = node.dtype(0) in NARROW
    if not narrow and node.dtype(0) != "uint8":
        node.refuse(f"data of {node.dtype(0)}, expected uint8, int4 or uint4")
    data = node.graph.tensor(as_bytes(node, 0))
    scales, points, offset = node.tensor(2), None, 0.0
    indices = positive(node, 1, node.shape(2)[0])
    if narrow:
        bits = 8
        points = node.graph.tensor(as_bytes(node, 3)) if node.has(3) else None
    else:
        points, offset = _points(node, 3, [int(d) for d in node.shape(2)], bits)
    rows = [None if part is None else node.emit(relax.op.take(part, indices, 0))
            for part in (data, scales, points)]  # fmt: skip
    return group_dequantize(*rows, bits=bits, group_size=block, axis=-1, offset=offset)
