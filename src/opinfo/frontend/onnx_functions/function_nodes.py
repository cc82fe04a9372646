"""Nodes of ONNX in the functions that define operators of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..onnx_graph.onnx_node import OnnxNode


def onnx_node(op: str, inputs: Sequence[str], output: str = "output", **attrs: Any) -> Any:
    """Return a node with one output."""
    from onnx import helper

    return helper.make_node(op, inputs, [output], **attrs)


def constant_node(values: Any, dtype: str, output: str) -> Any:
    """Return a node whose output is a constant."""
    import numpy as np
    from onnx import numpy_helper

    return onnx_node("Constant", [], output, value=numpy_helper.from_array(np.array(values, dtype)))


def as_int64(node: OnnxNode, k: int) -> tuple[list[Any], str]:
    """Return the nodes that convert input `k` to int64, which ONNX expects, and their result."""
    name = f"input_{k}"
    if node.dtype(k) == "int64":
        return [], name
    return [onnx_node("Cast", [name], f"{name}_int64", to=7)], f"{name}_int64"


def of_rank(node: OnnxNode, k: int, rank: int) -> tuple[list[Any], str]:
    """Return the nodes that reshape input `k` of one element to rank 0 or 1, and their result."""
    name = f"input_{k}"
    if node.rank(k) == rank:
        return [], name
    sizes = f"{name}_sizes"
    return [
        constant_node([1] * rank, "int64", sizes),
        onnx_node("Reshape", [name, sizes], f"{name}_of_rank"),
    ], (f"{name}_of_rank")


def parsed_nodes(text: str) -> list[Any]:
    """Return the nodes that a text in ONNX's own syntax describes, one a line.

    >>> [node.op_type for node in parsed_nodes("s = Add (a, b)\\nr = Sqrt (s)")]
    ['Add', 'Sqrt']
    """
    from onnx import parser

    return list(parser.parse_graph(f"body (float x) => (float y) {{ {text} }}").node)


def numbers() -> list[Any]:
    """Return constants that bodies share."""
    return [constant_node(value, "int64", name) for name, value in
            (("zero", 0), ("one", 1), ("zeros", [0]), ("ones", [1]), ("rest", [-1]))]  # fmt: skip
