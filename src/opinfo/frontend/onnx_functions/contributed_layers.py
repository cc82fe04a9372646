"""Layers of ONNX Runtime's own, as functions of ONNX's nodes: embeddings, norms, windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..onnx_graph.contributed_attributes import check_attributes
from ..onnx_graph.onnx_node import OnnxNode
from .contributed_choices import expert_router, without_repeated_ngrams
from .function_nodes import constant_node, numbers, of_rank, parsed_nodes


def _embedding(node: OnnxNode) -> list[Any]:
    """Add rows of quantised tables, and normalise; the second result counts the ones of the mask.

    Rows are taken before they are dequantised.
    """
    check_attributes(node, "epsilon", {})
    segments = [node.has(k) for k in (1, 4, 10, 15)]
    if any(segments) != all(segments):
        node.refuse("some of the segment's ids, embedding, scale and zero point are missing, "
                    "expected all or none")  # fmt: skip
    nodes, names = numbers(), dict[int, str]()
    for k in range(8, 18):
        if node.has(k):
            reshapes, names[k] = of_rank(node, k, 0)
            nodes += reshapes

    def dequantised(result: str, value: str, k: int) -> str:
        return f"{result} = DequantizeLinear ({value}, {names[k]}, {names[k + 5]})\n"

    text = "words = Gather (input_2, input_0)\nlength = Shape <start = 1> (input_0)\n"
    text += "places = Slice (input_3, zeros, length, zeros)\n"
    text += dequantised("word", "words", 8) + dequantised("place", "places", 9)
    text += "both = Add (word, place)\n"
    if all(segments):
        text += "segments = Gather (input_4, input_1)\n" + dequantised("segment", "segments", 10)
    text += f"total = {'Add (both, segment)' if all(segments) else 'Identity (both)'}\n"
    text += dequantised("gamma", "input_5", 11) + dequantised("beta", "input_6", 12)
    epsilon = float(node.attr("epsilon", 1e-12))
    text += f"output = LayerNormalization <axis = -1, epsilon = {epsilon!r}> (total, gamma, beta)\n"
    if node.has(7):
        text += ("unit = CastLike (one, input_7)\nhits = Equal (input_7, unit)\n"
                 "bits = Cast <to = 6> (hits)\n"
                 "output_1 = ReduceSum <keepdims = 0> (bits, ones)")  # fmt: skip
    else:
        text += ("batch = Shape <start = 0, end = 1> (input_0)\n"
                 "output_1 = ConstantOfShape <value = int32[1] {0}> (batch)")  # fmt: skip
    return [*nodes, *parsed_nodes(text)]


def _branches(node: OnnxNode) -> list[Any]:
    """Divide the elements of each branch by the root of their mean square, in float32."""
    check_attributes(node, "epsilon num_branches", {})
    count, shape = int(node.attr("num_branches", 0)), node.shape(0)
    size = shape[-1]
    if count < 0 or not isinstance(size, int) or (count and size % count):
        node.refuse(f"its last axis has {size} elements, expected a number, and a multiple of "
                    f"num_branches, {count}", size)  # fmt: skip
    size = size // count if count else size
    scaled = "Identity (normal)"
    nodes = [constant_node([1.0] * size, "float32", "units"),
             constant_node([0] * (len(shape) - 1) + ([count, size] if count else [size]), "int64",
                           "groups"),
             constant_node([0] * (len(shape) - 1) + [-1], "int64", "whole")]  # fmt: skip
    if node.has(1):
        flat = node.rank(1) == 1 and node.shape(1) != [size]
        form = [count or shape[-2], size] if flat else node.shape(1)
        if not all(isinstance(d, int) for d in form):
            node.refuse(f"its scale has the shape {form}, expected numbers", *form)
        nodes.append(constant_node(form, "int64", "form"))
        nodes += parsed_nodes("wide_scale = Cast <to = 1> (input_1)\n"
                              "factor = Reshape (wide_scale, form)")  # fmt: skip
        scaled = "Mul (normal, factor)"
    return [*nodes, *parsed_nodes(f"""
        wide = Cast <to = 1> (input_0)
        rows = Reshape (wide, groups)
        normal = com.microsoft.SimplifiedLayerNormalization <axis = -1,
                 epsilon = {float(node.attr("epsilon", 1e-5))!r}> (rows, units)
        scaled = {scaled}
        flat = Reshape (scaled, whole)
        output = CastLike (flat, input_0)""")]  # fmt: skip


def _windows(node: OnnxNode) -> list[Any]:
    """Return all windows of an axis, whose elements are the last axis."""
    check_attributes(node, "dim size step", {})
    rank, size, step = node.rank(0), int(node.attr("size", 0)), int(node.attr("step", 1))
    if size < 1 or step < 1:
        node.refuse(f"its windows have {size} elements and a step of {step}, expected at least 1")
    axis = int(node.attr("dim", -1))
    if not -rank <= axis < rank:
        node.refuse(f"its attribute 'dim' is {axis}, expected -{rank} to {rank - 1}")
    axis %= rank
    node.require(node.shape(0)[axis] >= size)
    order = [*range(axis + 1), *range(axis + 2, rank + 1), axis + 1]
    return [*numbers(), constant_node([size], "int64", "size"),
            constant_node([step], "int64", "step"),
            constant_node(list(range(size)), "int64", "inside"), *parsed_nodes(f"""
        length = Shape <start = {axis}, end = {axis + 1}> (input_0)
        span = Sub (length, size)
        steps = Div (span, step)
        number = Add (steps, one)
        count = Squeeze (number)
        windows = Range (zero, count, one)
        starts = Mul (windows, step)
        column = Unsqueeze (starts, ones)
        index = Add (column, inside)
        parts = Gather <axis = {axis}> (input_0, index)
        output = Transpose <perm = {order}> (parts)""")]  # fmt: skip


#: The nodes of each operator, by its name.
BODIES: dict[str, Callable[[OnnxNode], list[Any]]] = {
    "BranchwiseRMSNorm": _branches, "MoEGroupRouter": expert_router,
    "NGramRepeatBlock": without_repeated_ngrams, "QEmbedLayerNormalization": _embedding,
    "UnfoldTensor": _windows,
}  # fmt: skip
