"""The sum of a convolution and a term by channel as the convolution with a bias.

Before: Add(ConvTranspose(x, w), b) with b of shape [1, C, 1, 1]
After:  ConvTranspose(x, w, b)
"""

from __future__ import annotations

from collections.abc import Sequence

from ...backend.region import Call
from ...patterns.symbolic_shapes import spread
from .graph_writer import GraphWriter


def bias_folded(writer: GraphWriter, call: Call, both: Sequence[str]) -> str | None:
    """The name of the convolution with a bias; None if the sum is not one."""
    for name, other in (both, both[::-1]):
        node = writer.before(name, "Conv", "ConvTranspose")
        array = writer.arrays.get(other)
        if node is None or array is None or len(node.inputs) != 2 or writer.readers[name] != 1:
            continue
        if array.ndim > len(writer.tensors[name].shape):
            continue
        channels = call.result.shape[1]
        if array.size == 1 and isinstance(channels, int):
            array = array.reshape(()).repeat(channels)
        elif spread(array.shape, call.result.shape) != (1,):
            continue
        return writer.node(node.op, [*node.inputs, writer.constant(array.reshape(-1))],
                           **node.attrs)  # fmt: skip
    return None
