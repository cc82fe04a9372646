"""Rows of sequences without padding, and back."""

from __future__ import annotations

from typing import Any

from ..onnx_graph.contributed_attributes import check_attributes
from ..onnx_graph.onnx_node import OnnxNode
from .function_nodes import numbers, parsed_nodes


def without_padding(node: OnnxNode) -> list[Any]:
    """Return the tokens, the places of tokens and of padding, where sequences end, and the longest.

    A flag says for each place whether it has a token; running sums number those with and without.
    """
    check_attributes(node, "", {})
    if node.rank(0) != 3:
        node.refuse(f"its input has {node.rank(0)} dimensions, expected 3")
    return [*numbers(), *parsed_nodes("""
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


def with_padding(node: OnnxNode) -> list[Any]:
    """Put tokens back to their places, and zeros elsewhere."""
    check_attributes(node, "", {})
    if [node.rank(0), node.rank(1)] != [2, 2]:
        node.refuse(f"inputs of {node.rank(0)} and {node.rank(1)} dimensions, expected 2 and 2")
    return [*numbers(), *parsed_nodes("""
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
