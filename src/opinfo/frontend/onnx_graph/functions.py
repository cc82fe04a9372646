"""The bodies of functions: those in the model, and those by which ONNX defines operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .onnx_node import OnnxNode


def local(model: Any) -> dict[tuple[str, str], Any]:
    """Return the functions of a model by domain and name."""
    return {(f.domain, f.name): f for f in model.functions}


def body(node: OnnxNode, functions: Mapping[tuple[str, str], Any]) -> Any:
    """Return the function that defines a node's operator, or None."""
    import onnx

    if (node.domain, node.op) in functions:
        return functions[node.domain, node.op]
    try:
        schema = onnx.defs.get_schema(node.op, node.opset, node.domain)
    except onnx.defs.SchemaError:
        return None
    return schema.function_body if schema.has_function else None


def defaults(function: Any) -> dict[str, Any]:
    """Return the default attributes of a function in a model."""
    from onnx import helper

    return {a.name: helper.get_attribute_value(a) for a in function.attribute_proto}


def opset(function: Any, outside: int) -> int:
    """Return the version of the operator set in which a body is written."""
    versions = [e.version for e in function.opset_import if e.domain in ("", "ai.onnx")]
    return versions[0] if versions else outside
