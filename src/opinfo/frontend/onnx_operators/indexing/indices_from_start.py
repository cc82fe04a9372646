"""Indices of ONNX, which may count from the end of an axis, as TVM takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax

from ...onnx_graph.onnx_node import OnnxNode
from ...onnx_graph.scalars import is_expr


def positive(node: OnnxNode, k: int, dim: Any) -> Any:
    """Return the indices of input `k`, counted from the start of an axis of size `dim`."""
    value = node.value(k)
    extent = (
        relax.const(dim, value.dtype)
        if not is_expr(dim)
        else node.emit(relax.op.reshape(node.shape_tensor([dim], value.dtype), ()))
    )
    return _from_start(node, k, [dim], extent)


def positive_points(node: OnnxNode, k: int, dims: Sequence[Any]) -> Any:
    """Return points, the last axis of input `k`, counted from the starts of axes of sizes `dims`.

    A size is added to each coordinate below 0.
    """
    count = node.shape(k)[-1]
    if not isinstance(count, int):
        node.refuse("the number of coordinates is symbolic, expected a constant", count)
    if count > len(dims):
        node.refuse(f"indices have {count} coordinates, expected at most {len(dims)}")
    own = list(dims[:count])
    dtype = node.value(k).dtype
    extents = (node.shape_tensor(own, dtype) if any(map(is_expr, own)) else
               relax.const(np.array(own, dtype), dtype))  # fmt: skip
    return _from_start(node, k, own, extents)


def _from_start(node: OnnxNode, k: int, dims: Sequence[Any], extents: Any) -> Any:
    """Return indices with `extents`, a tensor of the sizes `dims`, added to those below 0."""
    value = node.value(k)
    if value.is_constant and value.elements is not None:
        check_constant(node, value.elements, dims)
        if (value.elements >= 0).all():
            return node.tensor(k)
        if not any(map(is_expr, dims)):
            sizes = np.array(dims if len(dims) > 1 else dims[0], "int64")  # a scalar keeps its rank
            array = value.elements + np.where(value.elements < 0, sizes, 0)
            return relax.const(array.astype(value.dtype), value.dtype)
    indices = node.tensor(k)
    if value.dtype.startswith("u"):
        return indices
    below = node.emit(relax.op.less(indices, relax.const(0, value.dtype)))
    return node.emit(relax.op.where(below, relax.op.add(indices, extents), indices))


def check_constant(node: OnnxNode, indices: np.ndarray[Any, Any], dims: Sequence[Any]) -> None:
    """Refuse a constant index that is outside of an axis of known size."""
    for place, dim in enumerate(dims):
        own = indices if len(dims) == 1 else indices[..., place]
        if is_expr(dim) or not own.size or (-dim <= own.min() and own.max() < dim):
            continue
        outside = own.max() if own.max() >= dim else own.min()
        node.refuse(f"the index {outside} is outside of an axis of size {dim}")
