"""MoE: each row is multiplied with the matrices of its experts.

e[i, j] = the expert of row i with the j-th largest share of softmax(router[i])
h[i, j] = activation(x[i] @ fc1[e].T + b1[e])             times x[i] @ fc3[e].T + b3[e], if present
y[i]    = sum_j share[i, j] * (h[i, j] @ fc2[e].T + b2[e])     shares sum to 1 if normalised
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import relax

from ...onnx_graph.contributed_attributes import check_attributes
from ...onnx_graph.conversion.converter_table import MICROSOFT, converts
from ...onnx_graph.conversion.half_types import accumulated
from ...onnx_graph.onnx_node import OnnxNode, dims_of
from .gated_activations import activated, parts_of
from .mixture_routing import combined, flattened, repeated, routes, widened

ATTRIBUTES = ("activation_alpha activation_beta activation_type k normalize_routing_weights "
              "swiglu_fusion swiglu_limit")  # fmt: skip


@dataclass(frozen=True)
class Layer:
    """The matrices and biases of one layer of all experts.

    Attributes:
        gather: Returns the matrices of experts, [rows, columns, depth], by their numbers, [rows].
        bias: The input that has the biases, [experts, columns]; it may be absent.
    """

    gather: Callable[[Any], Any]
    bias: int


@converts("MoE", domain=MICROSOFT)
def mixture_of_experts(node: OnnxNode) -> Any:
    """Return the weighted sum of what the experts of each row compute."""
    check_attributes(node, ATTRIBUTES, {"use_sparse_mixer": 0})
    experts, depth = _sizes(node)

    def layer(k: int) -> Layer:
        return Layer(lambda chosen: node.emit(relax.op.take(node.tensor(k), chosen, 0)), k + 1)

    return mixed(node, experts, depth, (layer(2), layer(4), layer(6) if node.has(6) else None))


def _sizes(node: OnnxNode) -> tuple[int, int]:
    """Return the number of experts and that of a row's elements."""
    experts, depth, inner = sizes_of(node, 4)
    if node.has(7) and not node.has(6):
        node.refuse("it has fc3_experts_bias without fc3_experts_weights, expected both")
    columns = parts_of(node, node.has(6)) * inner
    for k, shape in enumerate([(columns, depth), (columns,), (depth, inner), (depth,),
                               (inner, depth), (inner,)], 2):  # fmt: skip
        node.check_shape(k, [experts, *shape])
    return experts, depth


def sizes_of(node: OnnxNode, k: int) -> tuple[int, int, int]:
    """Return the sizes of the matrices that input `k` has."""
    dims = node.shape(k)
    if len(dims) != 3:
        node.refuse(f"input {k} has {len(dims)} dimensions, expected 3")
    if not all(isinstance(d, int) for d in dims):
        node.refuse(f"input {k} has a symbolic size, expected numbers", *dims)
    experts, columns, depth = (int(d) for d in dims)
    return experts, columns, depth


def mixed(
    node: OnnxNode, experts: int, depth: int, layers: tuple[Layer, Layer, Layer | None],
    *, by_scores: bool = False,
) -> Any:  # fmt: skip
    """Return the weighted sum of what the experts of each row compute.

    Args:
        node: The node, whose first inputs are the rows and the scores of experts for each row.
        experts: The number of experts.
        depth: The elements of a row.
        layers: The first and the second layer, and the third, which multiplies the first.
        by_scores: As for `routes`.
    """
    x = flattened(node, depth)
    chosen, weights = routes(node, dims_of(x)[0], experts, by_scores=by_scores)
    rows = repeated(node, x, dims_of(weights)[1])
    first, third = (None if layer is None else _product(node, layer, rows, chosen)
                    for layer in (layers[0], layers[2]))  # fmt: skip
    hidden = activated(node, first, third)
    if node.dtype(0) != "float32":
        hidden = node.emit(relax.op.astype(hidden, node.dtype(0)))
    result = combined(node, _product(node, layers[1], hidden, chosen), weights)
    return result if node.rank(0) == 2 else node.reshape(result, [*node.shape(0)[:-1], depth])


def _product(node: OnnxNode, layer: Layer, rows: Any, chosen: Any) -> Any:
    """Return the product, in float32, of [rows, 1, depth] with transposed matrices of experts."""
    matrices = layer.gather(chosen)
    if str(matrices.ty.dtype) == "float32":
        rows = widened(node, rows)
    turned = node.emit(relax.op.permute_dims(matrices, [0, 2, 1]))
    result = node.emit(relax.op.matmul(rows, turned, out_dtype=accumulated(rows)))
    if not node.has(layer.bias):
        return result
    own = node.emit(relax.op.take(widened(node, node.tensor(layer.bias)), chosen, 0))
    return node.emit(relax.op.add(result, node.emit(relax.op.expand_dims(own, 1))))
