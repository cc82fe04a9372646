"""Operators of ONNX Runtime that ONNX has, too, as functions of ONNX's nodes.

A node is then read as any other of ONNX: checked, folded, and known for sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .contributed_attributes import check_attributes
from .onnx_node import OnnxNode

#: The domain of the operators.
DOMAIN = "com.microsoft"
#: The version of ONNX's operators in all bodies.
OPSET = 17
Body = Callable[[OnnxNode], list[Any]]


def body(node: OnnxNode) -> Any:
    """Return the function of a node, as an `onnx.FunctionProto`; None if there is none."""
    from onnx import helper

    if node.op not in BODIES:
        return None
    inputs = [f"input_{k}" for k in range(len(node.inputs))]
    return helper.make_function(node.domain, node.op, inputs, ["output"], BODIES[node.op](node),
                                [helper.make_opsetid("", OPSET)])  # fmt: skip


def _node(op: str, inputs: Sequence[str], output: str = "output", **attrs: Any) -> Any:
    from onnx import helper

    return helper.make_node(op, inputs, [output], **attrs)


def _constant(values: Any, dtype: str, output: str) -> Any:
    import numpy as np
    from onnx import numpy_helper

    return _node("Constant", [], output, value=numpy_helper.from_array(np.array(values, dtype)))


def _as_int64(node: OnnxNode, k: int) -> tuple[list[Any], str]:
    """Return the nodes that convert input `k` to int64, which ONNX expects, and their result."""
    name = f"input_{k}"
    if node.dtype(k) == "int64":
        return [], name
    return [_node("Cast", [name], f"{name}_int64", to=7)], f"{name}_int64"


def _of_rank(node: OnnxNode, k: int, rank: int) -> tuple[list[Any], str]:
    """Return the nodes that reshape input `k` of one element to rank 0 or 1, and their result."""
    name = f"input_{k}"
    if node.rank(k) == rank:
        return [], name
    sizes = f"{name}_sizes"
    return [
        _constant([1] * rank, "int64", sizes),
        _node("Reshape", [name, sizes], f"{name}_of_rank"),
    ], (f"{name}_of_rank")


def _trilu(node: OnnxNode) -> list[Any]:
    check_attributes(node, "upper", {})
    upper = int(bool(node.attr("upper", 1)))
    return [_node("Trilu", [f"input_{k}" for k in range(len(node.inputs))], upper=upper)]


def _gather_nd(node: OnnxNode) -> list[Any]:
    check_attributes(node, "", {})
    casts, indices = _as_int64(node, 1)
    return [*casts, _node("GatherND", ["input_0", indices])]


def _expand_dims(node: OnnxNode) -> list[Any]:
    check_attributes(node, "", {})
    if node.rank(1) > 1:
        node.refuse(f"its axis has {node.rank(1)} dimensions, expected one number")
    sizes = _constant([1], "int64", "sizes")
    return [_node("Cast", ["input_1"], "axis", to=7), sizes,
            _node("Reshape", ["axis", "sizes"], "axes"),
            _node("Unsqueeze", ["input_0", "axes"])]  # fmt: skip


def _range(node: OnnxNode) -> list[Any]:
    check_attributes(node, "", {})
    nodes, names = list[Any](), list[str]()
    for k in range(3):
        if node.has(k):
            reshapes, name = _of_rank(node, k, 0)
            nodes, names = nodes + reshapes, [*names, name]
    if len(names) < 3:
        nodes, names = [*nodes, _constant(1, node.dtype(0), "one")], [*names, "one"]
    return [*nodes, _node("Range", names)]


def _pad(node: OnnxNode) -> list[Any]:
    check_attributes(node, "mode", {})
    nodes, names = list[Any](), [f"input_{k}" for k in range(len(node.inputs))]
    if node.rank(1) == 2:
        nodes = [_constant([-1], "int64", "sizes"), _node("Reshape", ["input_1", "sizes"], "pads")]
        names[1] = "pads"
    return [*nodes, _node("Pad", names, mode=node.text("mode", "constant"))]


def _grid_sample(node: OnnxNode) -> list[Any]:
    check_attributes(node, "align_corners mode padding_mode", {})
    return [_node("GridSample", ["input_0", "input_1"], mode=node.text("mode", "bilinear"),
                  padding_mode=node.text("padding_mode", "zeros"),
                  align_corners=int(node.attr("align_corners", 0)))]  # fmt: skip


def _integer_product(node: OnnxNode) -> list[Any]:
    check_attributes(node, "", {})
    kinds = [node.dtype(k) for k in (0, 1)]
    if kinds != ["int16", "int16"]:
        node.refuse(f"its inputs are {kinds[0]} and {kinds[1]}, expected int16")
    return [_node("Cast", ["input_0"], "left", to=6), _node("Cast", ["input_1"], "right", to=6),
            _node("MatMul", ["left", "right"])]  # fmt: skip


def _same(node: OnnxNode) -> list[Any]:
    check_attributes(node, "", {})
    return [_node("Identity", ["input_0"])]


def _rfft(node: OnnxNode) -> list[Any]:
    check_attributes(node, "", {"normalized": 0, "onesided": 1, "signal_ndim": 1})
    rank = node.rank(0)
    return [_constant([rank], "int64", "axes"), _node("Unsqueeze", ["input_0", "axes"], "pairs"),
            _node("DFT", ["pairs"], axis=rank - 1, onesided=1)]  # fmt: skip


#: The nodes of each operator, by its name.
BODIES: dict[str, Body] = {
    "ExpandDims": _expand_dims, "GatherND": _gather_nd, "GridSample": _grid_sample,
    "MatMulInteger16": _integer_product, "Pad": _pad, "Range": _range, "Rfft": _rfft,
    "SampleOp": _same, "Trilu": _trilu,
}  # fmt: skip
