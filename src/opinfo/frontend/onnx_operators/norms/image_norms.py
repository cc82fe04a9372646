"""GroupNorm and SkipGroupNorm: groups of channels are normalised; SiLU may follow.

s[b, p, c] = x[b, p, c] + skip[b, p, c] + bias[c]        of SkipGroupNorm; p is a place
t[b, p, c] = (s - mean[b, g]) / sqrt(variance[b, g] + epsilon) * gamma[c] + beta[c]
y = t, or t * sigmoid(t)       mean and variance are over all places and the channels of group g
"""

from __future__ import annotations

from typing import Any

from tvm import relax

from ...onnx_graph.contributed_attributes import check_attributes
from ...onnx_graph.conversion.converter_table import MICROSOFT, converts
from ...onnx_graph.onnx_node import OnnxNode, dims_of
from ...onnx_graph.scalars import same

ATTRIBUTES = "activation channels_last epsilon groups"


@converts("GroupNorm", domain=MICROSOFT)
def group_norm(node: OnnxNode) -> Any:
    """Normalise groups of channels, which are the last axis by default."""
    check_attributes(node, ATTRIBUTES, {})
    return _normalised(node, _image(node))


@converts("SkipGroupNorm", domain=MICROSOFT)
def skip_group_norm(node: OnnxNode) -> list[Any]:
    """Normalise a sum; the sum is the second result."""
    check_attributes(node, ATTRIBUTES, {})
    data = _image(node)
    total = node.emit(relax.op.add(data, _skip(node, dims_of(data))))
    if node.has(4):
        channels = dims_of(data)[_axis(node)]
        total = node.emit(relax.op.add(total, _along(node, _vector(node, 4, channels))))
    return [_normalised(node, total), total]


def _axis(node: OnnxNode) -> int:
    """Return the axis of the channels."""
    return 3 if node.attr("channels_last", 1) else 1


def _image(node: OnnxNode) -> Any:
    """Return the data in float32 with the number of channels that gamma has."""
    dims, axis = node.shape(0), _axis(node)
    if len(dims) != 4:
        node.refuse(f"its input has {len(dims)} dimensions, expected 4")
    if node.rank(1) != 1:
        node.refuse(f"gamma has {node.rank(1)} dimensions, expected 1")
    channels = dims[axis] if isinstance(dims[axis], int) else node.shape(1)[0]
    if not isinstance(channels, int):
        node.refuse("the number of channels is symbolic, expected a constant", channels)
    dims[axis] = channels
    return node.cast_shape(_widened(node, 0), dims)


def _skip(node: OnnxNode, dims: list[Any]) -> Any:
    """Return the tensor that is added: of all places, or the same for each place of an image."""
    skip, own, axis = _widened(node, 3), node.shape(3), _axis(node)
    places = [k for k in (1, 2, 3) if k != axis]
    if len(own) == 2:
        skip = node.cast_shape(skip, [dims[0], dims[axis]])
        return node.emit(relax.op.expand_dims(skip, places))
    if len(own) != 4:
        node.refuse(f"skip has {len(own)} dimensions, expected 2 or 4")
    if all(same(own[k], 1) for k in places):
        dims = [1 if k in places else d for k, d in enumerate(dims)]
    return node.cast_shape(skip, dims)


def _normalised(node: OnnxNode, data: Any) -> Any:
    axis, groups, activation = _axis(node), int(node.attr("groups", 0)), node.attr("activation")
    channels = dims_of(data)[axis]
    if groups < 1 or channels % groups:
        node.refuse(f"groups is {groups}, expected a divisor of the {channels} channels")
    if activation not in (0, 1):
        node.refuse(f"its attribute 'activation' is {activation}, expected 0 or 1 for SiLU")
    gamma, beta = (_vector(node, k, channels) for k in (1, 2))
    places, epsilon = [k for k in (1, 2, 3) if k != axis], float(node.attr("epsilon", 1e-5))
    result = node.emit(relax.op.nn.group_norm(data, gamma, beta, groups, axis, places, epsilon))
    return relax.op.nn.silu(result) if activation else result


def _vector(node: OnnxNode, k: int, channels: int) -> Any:
    """Return input `k`, a number for each channel, in float32."""
    node.check_shape(k, [channels])
    return node.cast_shape(_widened(node, k), [channels])


def _along(node: OnnxNode, vector: Any) -> Any:
    """Return a vector of channels so that it broadcasts over images."""
    return vector if _axis(node) == 3 else node.emit(relax.op.expand_dims(vector, [1, 2]))


def _widened(node: OnnxNode, k: int) -> Any:
    data = node.tensor(k)
    return data if node.dtype(k) == "float32" else node.emit(relax.op.astype(data, "float32"))
