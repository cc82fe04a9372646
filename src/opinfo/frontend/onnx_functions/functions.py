"""The bodies of functions: those in the model, and those that define operators by others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..onnx_graph.onnx_node import OnnxNode
from . import contributed_functions


def local(model: Any) -> dict[tuple[str, str], Any]:
    """Return the functions of a model by domain and name."""
    return {(f.domain, f.name): f for f in model.functions}


def body(node: OnnxNode, functions: Mapping[tuple[str, str], Any]) -> Any:
    """Return the function that defines a node's operator, or None."""
    import onnx

    if (node.domain, node.op) in functions:
        return functions[node.domain, node.op]
    if node.domain == contributed_functions.DOMAIN or (
        not node.domain and node.op in contributed_functions.OF_ONNX
    ):
        return contributed_functions.body(node)
    try:
        schema = onnx.defs.get_schema(node.op, node.opset, node.domain)
    except onnx.defs.SchemaError:
        return None
    if schema.has_function:
        return schema.function_body
    return _of_types(node, schema) if schema.has_context_dependent_function else None


def _of_types(node: OnnxNode, schema: Any) -> Any:
    """Return the function for inputs of these dtypes and ranks; None if ONNX has none for them."""
    import onnx
    from onnx import helper

    names = [f"input_{k}" if node.has(k) else "" for k in range(len(node.inputs))]
    outputs = [f"output_{k}" if node.wants(k) else "" for k in range(len(node.outputs))]
    proto = helper.make_node(node.op, names, outputs, domain=node.domain, **node.attrs)
    types = [_type_of(node, k) if name else onnx.TypeProto() for k, name in enumerate(names)]
    written = schema.get_context_dependent_function(
        proto.SerializeToString(), [t.SerializeToString() for t in types]
    )
    return onnx.FunctionProto.FromString(written) if written else None


def _type_of(node: OnnxNode, k: int) -> Any:
    import numpy as np
    from onnx import helper

    dtype = helper.np_dtype_to_tensor_dtype(np.dtype(node.dtype(k)))
    return helper.make_tensor_type_proto(dtype, [d if isinstance(d, int) else None
                                                 for d in node.shape(k)])  # fmt: skip


def defaults(node: OnnxNode, function: Any, functions: Mapping[tuple[str, str], Any]) -> Any:
    """Return the default attributes of a function: of the model, or of an operator's schema."""
    import onnx
    from onnx import helper

    if (node.domain, node.op) in functions:
        return {a.name: helper.get_attribute_value(a) for a in function.attribute_proto}
    if node.domain == contributed_functions.DOMAIN:
        return {}  # nodes of the body have all attributes
    formals = onnx.defs.get_schema(node.op, node.opset, node.domain).attributes
    values = {name: formal.default_value for name, formal in formals.items()}
    return {name: helper.get_attribute_value(v) for name, v in values.items() if v.name}


def opset(function: Any, outside: int) -> int:
    """Return the version of the operator set in which a body is written."""
    versions = [e.version for e in function.opset_import if e.domain in ("", "ai.onnx")]
    return versions[0] if versions else outside
