"""Read attributes and weights of an ONNX file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .onnx_node import OnnxNode
from .values import NotConvertible


def array(tensor: Any) -> np.ndarray[Any, Any]:
    """Return the numbers of an `onnx.TensorProto`; refuses strings."""
    from onnx import TensorProto, numpy_helper

    if tensor.data_type == TensorProto.STRING:
        raise NotConvertible(f"the tensor '{tensor.name}' holds strings, expected numbers")
    values: np.ndarray[Any, Any] = numpy_helper.to_array(tensor)
    return values


def dense(sparse: Any) -> np.ndarray[Any, Any]:
    """Return the dense array of an `onnx.SparseTensorProto`."""
    values, indices = array(sparse.values), array(sparse.indices)
    result = np.zeros(int(np.prod(sparse.dims)), values.dtype)
    flat = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), sparse.dims)
    result[flat] = values
    return result.reshape(tuple(sparse.dims))


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

    return helper.make_node(proto.op_type, list(proto.input), list(proto.output), **attrs)


def dtype_name(data_type: int) -> str:
    """Return the name of an ONNX element type."""
    from onnx import helper

    return str(np.dtype(helper.tensor_dtype_to_np_dtype(data_type)).name)


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
