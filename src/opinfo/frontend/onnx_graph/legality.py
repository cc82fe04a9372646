"""Whether a node is legal for the sizes of its inputs, by ONNX's own type inference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .onnx_node import dims_of
from .scalars import is_expr
from .values import NotConvertible, TensorValue


def why_illegal(proto: Any, scope: Mapping[str, Any], opset: int) -> str:
    """Return why no runtime can execute a node of ONNX's domain; empty if nothing is known.

    Args:
        proto: The `onnx.NodeProto`.
        scope: The values of its inputs by name; sizes that are symbols are taken as unknown.
        opset: The version of the operator set.
    """
    import onnx
    from onnx.shape_inference import InferenceError, infer_node_outputs

    values = {name: scope.get(name) for name in proto.input if name}
    if proto.domain not in ("", "ai.onnx") or any(a.ref_attr_name for a in proto.attribute):
        return ""
    try:
        schema = onnx.defs.get_schema(proto.op_type, opset, "")
        types = {name: _type(value) for name, value in values.items()}
        infer_node_outputs(
            schema, proto, types, opset_imports=[onnx.helper.make_opsetid("", opset)]
        )
    except InferenceError as error:
        return str(error).strip().splitlines()[0].rpartition("] ")[2]
    except Exception:  # onnx raises various types for nodes that are none; the caller has an error
        return ""
    return ""


def _type(value: Any) -> Any:
    """Return the `onnx.TypeProto` of a tensor; raises `NotConvertible` for others."""
    from onnx import helper

    if not isinstance(value, TensorValue):
        raise NotConvertible("not a tensor")
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype))
    shape = value.elements.shape if value.elements is not None else dims_of(value.expr)
    return helper.make_tensor_type_proto(kind, [None if is_expr(d) else int(d) for d in shape])
