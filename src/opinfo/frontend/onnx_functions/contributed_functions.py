"""Operators of ONNX Runtime that ONNX has, too, as functions of ONNX's nodes.

A node is then read as any other of ONNX: checked, folded, and known for sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..onnx_graph.contributed_attributes import check_attributes
from ..onnx_graph.onnx_node import OnnxNode
from . import contributed_arithmetic, contributed_layers
from .function_nodes import as_int64, constant_node, of_rank, onnx_node, parsed_nodes
from .packed_rows import with_padding, without_padding
from .unique_elements import unique

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
    nodes = BODIES[node.op](node)
    written = [name for made in nodes for name in made.output]
    outputs = [name for name in ("output", "output_1", "output_2", "output_3") if name in written]
    if len(node.outputs) > len(outputs):
        node.refuse(f"it has {len(node.outputs)} outputs, expected at most {len(outputs)}")
    sets = [helper.make_opsetid("", OPSET), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_function(node.domain, node.op, inputs, outputs, nodes, sets)


def _trilu(node: OnnxNode) -> list[Any]:
    check_attributes(node, "upper", {})
    upper = int(bool(node.attr("upper", 1)))
    return [onnx_node("Trilu", [f"input_{k}" for k in range(len(node.inputs))], upper=upper)]


def _gather_nd(node: OnnxNode) -> list[Any]:
    check_attributes(node, "", {})
    casts, indices = as_int64(node, 1)
    return [*casts, onnx_node("GatherND", ["input_0", indices])]


def _expand_dims(node: OnnxNode) -> list[Any]:
    check_attributes(node, "", {})
    if node.rank(1) > 1:
        node.refuse(f"its axis has {node.rank(1)} dimensions, expected one number")
    sizes = constant_node([1], "int64", "sizes")
    return [onnx_node("Cast", ["input_1"], "axis", to=7), sizes,
            onnx_node("Reshape", ["axis", "sizes"], "axes"),
            onnx_node("Unsqueeze", ["input_0", "axes"])]  # fmt: skip


def _range(node: OnnxNode) -> list[Any]:
    check_attributes(node, "", {})
    nodes, names = list[Any](), list[str]()
    for k in range(3):
        if node.has(k):
            reshapes, name = of_rank(node, k, 0)
            nodes, names = nodes + reshapes, [*names, name]
    if len(names) < 3:
        nodes, names = [*nodes, constant_node(1, node.dtype(0), "one")], [*names, "one"]
    return [*nodes, onnx_node("Range", names)]


def _pad(node: OnnxNode) -> list[Any]:
    check_attributes(node, "mode", {})
    nodes, names = list[Any](), [f"input_{k}" for k in range(len(node.inputs))]
    if node.rank(1) == 2:
        nodes = [
            constant_node([-1], "int64", "sizes"),
            onnx_node("Reshape", ["input_1", "sizes"], "pads"),
        ]
        names[1] = "pads"
    return [*nodes, onnx_node("Pad", names, mode=node.text("mode", "constant"))]


def _grid_sample(node: OnnxNode) -> list[Any]:
    check_attributes(node, "align_corners mode padding_mode", {})
    return [onnx_node("GridSample", ["input_0", "input_1"], mode=node.text("mode", "bilinear"),
                  padding_mode=node.text("padding_mode", "zeros"),
                  align_corners=int(node.attr("align_corners", 0)))]  # fmt: skip


def _integer_product(node: OnnxNode) -> list[Any]:
    check_attributes(node, "", {})
    kinds = [node.dtype(k) for k in (0, 1)]
    if kinds != ["int16", "int16"]:
        node.refuse(f"its inputs are {kinds[0]} and {kinds[1]}, expected int16")
    return parsed_nodes("""
        left = Cast <to = 6> (input_0)
        right = Cast <to = 6> (input_1)
        output = MatMul (left, right)""")


def _same(node: OnnxNode) -> list[Any]:
    check_attributes(node, "", {})
    return [onnx_node("Identity", ["input_0"])]


def _rfft(node: OnnxNode) -> list[Any]:
    check_attributes(node, "", {"normalized": 0, "onesided": 1, "signal_ndim": 1})
    rank = node.rank(0)
    return [constant_node([rank], "int64", "axes"),
            onnx_node("Unsqueeze", ["input_0", "axes"], "pairs"),
            onnx_node("DFT", ["pairs"], axis=rank - 1, onesided=1)]  # fmt: skip


#: The nodes of each operator, by its name.
BODIES: dict[str, Body] = {
    "ExpandDims": _expand_dims, "GatherND": _gather_nd, "GridSample": _grid_sample,
    "MatMulInteger16": _integer_product, "Pad": _pad, "Range": _range,
    "RemovePadding": without_padding, "RestorePadding": with_padding, "Rfft": _rfft,
    "SampleOp": _same, "Trilu": _trilu, "Unique": unique, **contributed_arithmetic.BODIES,
    **contributed_layers.BODIES,
}  # fmt: skip
#: Operators of ONNX's own domain that have no function there.
OF_ONNX = frozenset({"Unique"})
