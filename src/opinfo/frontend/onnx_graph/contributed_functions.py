"""Operators of ONNX Runtime that ONNX has, too, as functions of ONNX's nodes.

A node is then read as any other of ONNX: checked, folded, and known for sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import contributed_arithmetic
from .contributed_attributes import check_attributes
from .function_nodes import as_int64, constant_node, of_rank, onnx_node, parsed_nodes
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


def _without_padding(node: OnnxNode) -> list[Any]:
    """Return the tokens, the places of tokens and of padding, where sequences end, and the longest.

    A flag says for each place whether it has a token; running sums number those with and without.
    """
    check_attributes(node, "", {})
    if node.rank(0) != 3:
        node.refuse(f"its input has {node.rank(0)} dimensions, expected 3")
    return [*_numbers(), *parsed_nodes("""
        grid = Shape <end = 2> (input_0)
        width = Shape <start = 2> (input_0)
        long = Shape <start = 1, end = 2> (input_0)
        length = Squeeze (long)
        steps = Range (zero, length, one)
        counts = Cast <to = 7> (input_1)
        column = Unsqueeze (counts, ones)
        inside = Less (steps, column)
        flags = Reshape (inside, rest)
        sizes = Concat <axis = 0> (rest, width)
        rows = Reshape (input_0, sizes)
        output = Compress <axis = 0> (rows, flags)
        with = Cast <to = 7> (flags)
        clear = Not (flags)
        without = Cast <to = 7> (clear)
        earlier = CumSum (with, zero)
        empty = CumSum (without, zero)
        tokens = ReduceSum (with)
        later = Add (tokens, empty)
        number = Where (flags, earlier, later)
        place = Sub (number, one)
        many = Size (flags)
        numbers = Range (zero, many, one)
        offsets = ScatterElements <axis = 0> (numbers, place, numbers)
        table = Reshape (offsets, grid)
        output_1 = Cast <to = 6> (table)
        sums = CumSum (counts, zero)
        ends = Concat <axis = 0> (zeros, sums)
        output_2 = Cast <to = 6> (ends)
        longest = ReduceMax (counts)
        output_3 = Cast <to = 6> (longest)""")]  # fmt: skip


def _with_padding(node: OnnxNode) -> list[Any]:
    """Put tokens back to their places, and zeros elsewhere."""
    check_attributes(node, "", {})
    if [node.rank(0), node.rank(1)] != [2, 2]:
        node.refuse(f"inputs of {node.rank(0)} and {node.rank(1)} dimensions, expected 2 and 2")
    return [*_numbers(), *parsed_nodes("""
        flat = Reshape (input_1, rest)
        tokens = Shape <end = 1> (input_0)
        many = Squeeze (tokens)
        numbers = Range (zero, many, one)
        first = Gather (flat, numbers)
        wide = Cast <to = 7> (first)
        places = Unsqueeze (wide, ones)
        total = Shape (flat)
        width = Shape <start = 1> (input_0)
        sizes = Concat <axis = 0> (total, width)
        nothing = ConstantOfShape (sizes)
        padding = CastLike (nothing, input_0)
        full = ScatterND (padding, places, input_0)
        grid = Shape (input_1)
        whole = Concat <axis = 0> (grid, width)
        output = Reshape (full, whole)""")]  # fmt: skip


def _numbers() -> list[Any]:
    """Return constants that bodies share."""
    return [constant_node(value, "int64", name) for name, value in
            (("zero", 0), ("one", 1), ("zeros", [0]), ("ones", [1]), ("rest", [-1]))]  # fmt: skip


#: The nodes of each operator, by its name.
BODIES: dict[str, Body] = {
    "ExpandDims": _expand_dims, "GatherND": _gather_nd, "GridSample": _grid_sample,
    "MatMulInteger16": _integer_product, "Pad": _pad, "Range": _range,
    "RemovePadding": _without_padding, "RestorePadding": _with_padding, "Rfft": _rfft,
    "SampleOp": _same, "Trilu": _trilu, **contributed_arithmetic.BODIES,
}  # fmt: skip
