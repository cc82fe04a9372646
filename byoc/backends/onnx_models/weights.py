"""ONNX files whose weights are copied once.

The onnx package copies a weight when it becomes a message, when a graph and a model take it, and
when they are written. In the format of Protocol Buffers, the fields of a message may come in any
order: weights are written behind the fields that the package has written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ....analysis.support.protobuf import header
from ...backend.region import Array

#: Bytes from which an array is written here: shapes and the like stay in the package's messages.
LARGE = 1 << 12
#: Numbers of ``ModelProto.graph``, ``GraphProto.initializer`` and ``TensorProto.raw_data``.
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
#: The limit of Protocol Buffers in bytes.
_MOST = (1 << 31) - 1


def with_weights(model: Any, graph: Any, weights: Mapping[str, Array]) -> Array:
    """Return an ONNX file as an array of shape (bytes,) and dtype uint8.

    Args:
        model: A ``ModelProto`` without a graph.
        graph: Its ``GraphProto``, without the weights.
        weights: More initializers by name.

    Raises:
        ValueError: The file would exceed 2 GiB.
    """
    parts = [graph.SerializeToString()]
    for name, array in weights.items():
        parts += _initializer(name, array)
    size = sum(map(len, parts))
    parts = [model.SerializeToString(), header(_GRAPH, size), *parts]
    total = sum(map(len, parts))
    if total > _MOST:
        raise ValueError(f"an ONNX file of {total} bytes exceeds 2 GiB")
    out, place = np.empty(total, "uint8"), 0
    for part in parts:
        bytes_ = part if isinstance(part, np.ndarray) else np.frombuffer(part, "uint8")
        out[place : place + len(bytes_)] = bytes_
        place += len(bytes_)
    return out


def _initializer(name: str, array: Array) -> list[Any]:
    """Return the parts of a field ``initializer``: bytes, and those of the array as they are."""
    from onnx import TensorProto, helper

    values = np.ascontiguousarray(array)
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    raw = little.reshape(-1).view("uint8")
    number = helper.np_dtype_to_tensor_dtype(values.dtype.newbyteorder("="))
    tensor = TensorProto(name=name, dims=array.shape, data_type=number)
    start = tensor.SerializeToString() + header(_RAW_DATA, len(raw))
    return [header(_INITIALIZER, len(start) + len(raw)) + start, raw]
