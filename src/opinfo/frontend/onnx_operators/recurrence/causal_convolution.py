"""CausalConvWithState: each channel is convolved with its own kernel over earlier positions.

z[b, c] = past[b, c] followed by x[b, c]                          past is zeros if it is absent
y[b, c, t] = activation(sum_j w[c, j] * z[b, c, t + j * dilation] + bias[c])
The state has the last (taps - 1) * dilation positions of z, which the next call takes as past.
"""

from __future__ import annotations

from typing import Any

from tvm import relax

from ...onnx_graph.contributed_attributes import check_attributes
from ...onnx_graph.conversion.converter_table import MICROSOFT, converts
from ...onnx_graph.onnx_node import OnnxNode, dims_of
from ..attention.heads import total

#: Whether SiLU follows, by the attribute `activation`.
ACTIVATIONS = {"none": False, "": False, "silu": True, "swish": True}


@converts("CausalConvWithState", domain=MICROSOFT)
def causal_convolution(node: OnnxNode) -> list[Any]:
    """Return the convolution, and the positions that the next call needs."""
    check_attributes(node, "activation channels_last dilation", {"ndim": 1, "state_window": 0})
    name, last = node.text("activation", "none"), bool(node.attr("channels_last", 0))
    if name not in ACTIVATIONS:
        node.refuse(f"its attribute 'activation' is '{name}', expected none, silu or swish")
    channels, reach = _extents(node)
    data = _by_channel(node, 0, channels, last)
    batch, _, length = dims_of(data)
    if node.has(3):
        past = node.cast_shape(_by_channel(node, 3, channels, last), [batch, channels, reach])
    else:
        past = node.emit(relax.op.zeros([batch, channels, reach], node.dtype(0)))
    whole = node.emit(relax.op.concat([past, data], 2))
    result = node.emit(relax.op.nn.conv1d(whole, node.tensor(1), dilation=_dilation(node),
                                          groups=channels))  # fmt: skip
    if node.has(2):
        node.check_shape(2, [channels])
        bias = node.reshape(node.cast_shape(node.tensor(2), [channels]), [1, channels, 1])
        result = node.emit(relax.op.add(result, bias))
    result = node.emit(relax.op.nn.silu(result)) if ACTIVATIONS[name] else result
    state = node.emit(relax.op.strided_slice(
        whole, [2], [length], [total(node, length, reach)], [1], assume_inbound=True))  # fmt: skip
    return [_turned(node, x) if last else x for x in (result, state)]


def _dilation(node: OnnxNode) -> int:
    dilation = int(node.attr("dilation", 1))
    if dilation < 1:
        node.refuse(f"its attribute 'dilation' is {dilation}, expected at least 1")
    return dilation


def _extents(node: OnnxNode) -> tuple[int, int]:
    """Return the number of channels, and how many positions before its own a result reads."""
    dims = node.shape(1)
    if len(dims) != 3 or dims[1] != 1 or not all(isinstance(d, int) for d in dims):
        node.refuse(f"its weights have the shape {dims}, expected [channels, 1, taps], all numbers")
    if dims[2] < 2:
        node.refuse(f"its kernel has {dims[2]} taps, expected at least 2, as a state has positions")
    return int(dims[0]), (int(dims[2]) - 1) * _dilation(node)


def _by_channel(node: OnnxNode, k: int, channels: int, last: bool) -> Any:
    """Return input `k` as [batch, channels, length]."""
    dims = node.shape(k)
    if len(dims) != 3:
        node.refuse(f"input {k} has {len(dims)} dimensions, expected 3")
    dims[2 if last else 1] = channels
    data = node.cast_shape(node.tensor(k), dims)
    return _turned(node, data) if last else data


def _turned(node: OnnxNode, data: Any) -> Any:
    return node.emit(relax.op.permute_dims(data, [0, 2, 1]))
