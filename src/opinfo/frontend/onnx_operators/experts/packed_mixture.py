"""QMoE: a mixture of experts whose matrices have few bits, and a scale for each block of a row.

value[e, n, k]  = data[e, n, k // per] >> (bits * (k % per)) & (2**bits - 1)   with per = 8 // bits
weight[e, n, k] = (value[e, n, k] - zero_point[e, n, k // block]) * scale[e, n, k // block]

Without blocks, a row has one scale, and zero points are packed along the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from ....analysis.composites.grouped import group_dequantize
from ...onnx_graph.contributed_attributes import check_absent, check_attributes
from ...onnx_graph.conversion.converter_table import MICROSOFT, converts
from ...onnx_graph.onnx_node import OnnxNode
from .gated_activations import parts_of
from .mixture import ATTRIBUTES, Layer, mixed, sizes_of

BITS = (2, 4, 8)
#: The smallest block of values that share a scale.
SMALLEST = 16
#: Inputs that have no lowering.
ABSENT = {14: "router_weights", 15: "fc1_global_scale", 16: "fc2_global_scale",
          17: "fc1_act_scale", 18: "fc2_act_scale", 19: "fc1_act_block_scale",
          20: "fc2_act_block_scale"}  # fmt: skip


@converts("QMoE", domain=MICROSOFT)
def mixture_of_packed_experts(node: OnnxNode) -> Any:
    """Return the weighted sum of what the experts of each row compute."""
    # How a runtime may round is not read; matrices are as ONNX Runtime's kernel on CPUs reads them.
    check_attributes(node, f"{ATTRIBUTES} accuracy_level block_size expert_weight_bits "
                     "weights_prepacked", {"quant_type": "int", "use_sparse_mixer": 0})  # fmt: skip
    check_absent(node, ABSENT)
    bits, block = _format(node)
    per, third = 8 // bits, node.has(8)
    _check_packing(node, bits)
    if not node.attr("normalize_routing_weights", 0):
        node.refuse("its attribute 'normalize_routing_weights' is 0, which ONNX Runtime follows on "
                    "GPUs only, expected 1: export matrices of floats")  # fmt: skip
    if (node.has(10) or node.has(9) or node.has(13)) and not third:
        node.refuse("an input of fc3 is present without fc3_experts_weights, expected all or none")
    experts, depth, inner = sizes_of(node, 5)
    inner, columns = inner * per, parts_of(node, third) * inner * per
    shapes = ((columns, depth), (depth, inner), (inner, depth))
    first, second = (_layer(node, k, (experts, *shapes[k]), (bits, block)) for k in (0, 1))
    last = _layer(node, 2, (experts, *shapes[2]), (bits, block)) if third else None
    return mixed(node, experts, depth, (first, second, last), by_scores=True)


def _check_packing(node: OnnxNode, bits: int) -> None:
    """Refuse matrices that are packed for a device; note where the file does not say so.

    -1, the default, is what the device's own kernel expects: rows of bytes on a CPU.
    """
    packed = int(node.attr("weights_prepacked", -1))
    if packed == 1:
        node.refuse("its attribute 'weights_prepacked' is 1, expected 0: export the model without "
                    "packing for a device")  # fmt: skip
    if packed == -1 and bits != 2:
        node.note("its attribute 'weights_prepacked' is -1, so its matrices are read as rows of "
                  "bytes, as on CPUs; results are wrong if the file was packed for a GPU: export "
                  "it with 0")  # fmt: skip


def _format(node: OnnxNode) -> tuple[int, int]:
    """Return the bits of a value and the values of a block, 0 for those of a row."""
    bits, block = int(node.attr("expert_weight_bits", 4)), int(node.attr("block_size", 0))
    if bits not in BITS:
        node.refuse(f"its attribute 'expert_weight_bits' is {bits}, expected one of "
                    f"{', '.join(map(str, BITS))}")  # fmt: skip
    if block and (block < SMALLEST or block & (block - 1)):
        node.refuse(f"its attribute 'block_size' is {block}, expected a power of 2 from "
                    f"{SMALLEST} on")  # fmt: skip
    return bits, block


def _layer(
    node: OnnxNode, number: int, shape: tuple[int, int, int], form: tuple[int, int]
) -> Layer:
    """Return a layer whose words, scales and bias are inputs behind each other.

    Args:
        node: The node.
        number: Which layer, from 0.
        shape: The sizes of its matrices.
        form: The bits of a value, and the values of a block.
    """
    (experts, columns, depth), (bits, block) = shape, form
    k, points = 2 + 3 * number, 11 + number
    if block and depth % block:
        node.refuse(f"input {k} has rows of {depth} values, expected a multiple of the blocks of "
                    f"{block}")  # fmt: skip
    groups = depth // block if block else 1
    if node.dtype(k) != "uint8":
        node.refuse(f"input {k} is {node.dtype(k)}, expected uint8")
    node.check_shape(k, [experts, columns, depth * bits // 8])
    node.check_shape(k + 1, [experts, columns, groups] if block else [experts, columns])
    node.check_shape(k + 2, [experts, columns])
    scales = node.reshape(node.tensor(k + 1), [experts, columns, groups])
    parts = [node.tensor(k), scales]
    if node.has(points):
        parts.append(relax.const(_zero_points(node, points, (experts, columns, groups), form)))

    def gather(chosen: Any) -> Any:
        rows = [node.emit(relax.op.take(part, chosen, 0)) for part in parts]
        offset = 0.0 if node.has(points) else float(1 << (bits - 1))
        return node.emit(group_dequantize(*rows, bits=bits, group_size=block or depth, axis=2,
                                          offset=offset))  # fmt: skip

    return Layer(gather, k + 2)


def _zero_points(
    node: OnnxNode, k: int, shape: tuple[int, int, int], form: tuple[int, int]
) -> np.ndarray[Any, Any]:
    """Return the zero points of all blocks, one in a byte."""
    (experts, columns, groups), (bits, block) = shape, form
    if node.dtype(k) != "uint8":
        node.refuse(f"input {k} is {node.dtype(k)}, expected uint8")
    per, count = 8 // bits, groups if block else columns
    packed = -(-count // per)
    node.check_shape(k, [experts, columns, packed] if block else [experts, packed])
    words = node.array(k, "zero points")
    values = words[..., None] >> (bits * np.arange(per, dtype="uint8")) & np.uint8((1 << bits) - 1)
    rows = values.reshape(*words.shape[:-1], -1)[..., :count]
    return np.ascontiguousarray(rows.reshape(shape))
