"""Read attributes and weights of an ONNX file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..checks.error import one_line, shortened
from .onnx_node import OnnxNode
from .values import NotConvertible

#: Limit on the bytes of a sparse weight, which is stored densely.
DENSE = 1 << 31
#: Types of less than a byte, by `onnx.TensorProto.DataType`: their bytes hold several elements.
PACKED = frozenset({21, 22, 23, 25, 26})


def array(tensor: Any) -> np.ndarray[Any, Any]:
    """Return the numbers of an `onnx.TensorProto`; refuses strings and other files."""
    from onnx import TensorProto, numpy_helper
    from onnx.external_data_helper import uses_external_data

    name = shortened(tensor.name, 80)
    if tensor.data_type not in TensorProto.DataType.values() or not tensor.data_type:
        raise NotConvertible(
            f"the tensor '{name}' has the type {tensor.data_type}, which ONNX does not have"
        )
    if tensor.data_type == TensorProto.STRING:
        raise NotConvertible(f"the tensor '{name}' holds strings, expected numbers")
    if uses_external_data(tensor):  # `onnx` would look for it in the current folder
        raise NotConvertible(f"the tensor '{name}' is in another file, expected it in the model")
    if tensor.data_type in (TensorProto.COMPLEX64, TensorProto.COMPLEX128):
        raise NotConvertible(f"the tensor '{name}' holds complex numbers, expected real ones")
    if any(size < 0 for size in tensor.dims):  # numpy would compute it
        raise NotConvertible(f"the tensor '{name}' has sizes {tuple(tensor.dims)[:8]}")
    if reason := _wrong_bytes(tensor):
        raise NotConvertible(f"the tensor '{name}' {reason}")
    try:
        values: np.ndarray[Any, Any] = numpy_helper.to_array(tensor)
    except Exception as error:  # onnx and numpy raise various types
        raise NotConvertible(f"the tensor '{name}': {one_line(error)}") from error
    return values


def _wrong_bytes(tensor: Any) -> str:
    """Return why the bytes of a tensor are not those of its sizes; empty if they are."""
    if not tensor.HasField("raw_data") or tensor.data_type in PACKED:
        return ""
    dtype = np.dtype(dtype_name(tensor.data_type))
    expected = math.prod(tensor.dims) * dtype.itemsize
    if len(tensor.raw_data) == expected:
        return ""
    sizes = " x ".join(map(str, tensor.dims)) or "one"
    return (f"has {len(tensor.raw_data)} bytes, expected {expected} for {sizes} elements of "
            f"{dtype.name}")  # fmt: skip


def dense(sparse: Any) -> np.ndarray[Any, Any]:
    """Return the dense array of an `onnx.SparseTensorProto`."""
    name = shortened(sparse.values.name, 80)
    values, indices, dims = array(sparse.values), array(sparse.indices), tuple(sparse.dims)
    total = math.prod(dims)
    if not dims or min(dims) < 0 or total * values.itemsize > DENSE:
        raise NotConvertible(
            f"the sparse weight '{name}' has sizes {dims}, expected at most {DENSE} bytes"
        )
    if indices.dtype != np.int64 or indices.shape not in ((values.size,), (values.size, len(dims))):
        raise NotConvertible(
            f"the sparse weight '{name}' has indices of shape {indices.shape} and type "
            f"{indices.dtype}, expected int64 for {values.size} values"
        )
    bounds = np.array([total] if indices.ndim == 1 else dims, "int64")
    if (indices < 0).any() or (indices >= bounds).any():
        raise NotConvertible(f"the sparse weight '{name}' has an index outside its {dims}")
    flat = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), dims)
    if len(np.unique(flat)) != len(flat):
        raise NotConvertible(f"the sparse weight '{name}' has an index twice")
    result = np.zeros(total, values.dtype)
    result[flat] = values.reshape(-1)
    return result.reshape(dims)


def parsed(protos: Iterable[Any], bound: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes by name; a reference takes the value of a function's call, if given."""
    from onnx import helper

    attrs: dict[str, Any] = {}
    for proto in protos:
        if not proto.ref_attr_name:
            attrs[proto.name] = helper.get_attribute_value(proto)
        elif proto.ref_attr_name in bound:
            attrs[proto.name] = bound[proto.ref_attr_name]
    return attrs


def without_references(proto: Any, attrs: Mapping[str, Any]) -> Any:
    """Return a node whose attributes are values; those of a function's body may refer to a call."""
    if not any(a.ref_attr_name for a in proto.attribute):
        return proto
    from onnx import helper

    known = {name: value for name, value in attrs.items() if not _is_empty(value)}
    return helper.make_node(proto.op_type, list(proto.input), list(proto.output), **known)


def _is_empty(value: Any) -> bool:
    """Return whether an attribute is a list of no elements, whose type `onnx` cannot tell."""
    return isinstance(value, (list, tuple)) and not value


def dtype_name(data_type: int) -> str:
    """Return the name of an ONNX element type."""
    from onnx import helper

    try:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(data_type))
    except KeyError:
        raise NotConvertible(f"{data_type} is not an element type of ONNX") from None
    if dtype.kind == "c":
        raise NotConvertible(
            f"TVM has no type {dtype.name}, expected real and imaginary parts as a last axis of two"
        )
    return str(dtype.name)


def for_elements(node: OnnxNode) -> dict[str, Any]:
    """Return the attributes as `shape_values.evaluate` takes them."""
    attrs = dict(node.attrs)
    if node.op == "Cast":
        attrs["to"] = dtype_name(attrs["to"])
    if node.op == "ConstantOfShape" and "value" in attrs:
        attrs["value"] = array(attrs["value"])
    return attrs


def result_dtype(node: OnnxNode) -> str:
    """Return the dtype of the result of an operator on small tensors."""
    if node.op == "Cast":
        return dtype_name(node.attrs["to"])
    if node.op in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Not", "And", "Or"):
        return "bool"
    if node.op == "ConstantOfShape":
        return array(node.attrs["value"]).dtype.name if "value" in node.attrs else "float32"
    return node.dtype(1 if node.op == "Where" else 0)
