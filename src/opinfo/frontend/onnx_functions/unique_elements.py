"""Unique of ONNX and of ONNX Runtime: the different elements of a tensor."""

from __future__ import annotations

from typing import Any

from ..onnx_graph.contributed_attributes import check_attributes
from ..onnx_graph.onnx_node import OnnxNode
from .function_nodes import constant_node, numbers, parsed_nodes

#: What sorting tells of the elements.
_GROUPS = """
    flat = Reshape (input_0, rest)
    total = Shape (flat)
    many = Squeeze (total)
    places = Range (zero, many, one)
    {sorted}
    back = Sub (places, one)
    before = Max (back, zero)
    earlier = Gather (ordered, before)
    same = Equal (ordered, earlier)
    {equal}
    differs = Not (equal)
    first = Equal (places, zero)
    starts = Or (first, differs)
    begun = Cast <to = 7> (starts)
    sums = CumSum (begun, zero)
    groups = Sub (sums, one)
    group = ScatterElements <axis = 0> (places, order, groups)
    heads = Compress <axis = 0> (order, starts)
    units = ConstantOfShape <value = int64[1] {{1}}> (total)
"""
_PLAIN = """
    ordered, order = TopK <largest = 0> (flat, total)
"""
#: NaN is the largest element, and equals itself, as in numpy: elements are sorted by whether they
#: are NaN, then by numbers in which infinity stands for NaN.
_WITH_NAN = """
    lost = IsNaN (flat)
    last = Cast <to = 6> (lost)
    apart, moves = TopK <largest = 0> (last, total)
    moved = Gather (flat, moves)
    gone = IsNaN (moved)
    clean = Where (gone, infinity, moved)
    numbers, again = TopK <largest = 0> (clean, total)
    order = Gather (moves, again)
    ordered = Gather (flat, order)
"""
_SAME = """
    equal = Identity (same)
"""
_SAME_OR_NAN = """
    nan = IsNaN (ordered)
    nan_earlier = IsNaN (earlier)
    both = And (nan, nan_earlier)
    equal = Or (same, both)
"""
_SORTED = """
    output = Compress <axis = 0> (ordered, starts)
    indices = Identity (heads)
    inverse = Identity (group)
    extent = Shape (output)
    nothing = ConstantOfShape <value = int64[1] {0}> (extent)
    counts = ScatterElements <axis = 0, reduction = "add"> (nothing, inverse, units)
"""
_APPEARANCE = """
    head = Gather (heads, group)
    leads = Equal (head, places)
    output = Compress <axis = 0> (flat, leads)
    indices = Compress <axis = 0> (places, leads)
    led = Cast <to = 7> (leads)
    ranks = CumSum (led, zero)
    rank = Sub (ranks, one)
    inverse = Gather (rank, head)
    extent = Shape (output)
    nothing = ConstantOfShape <value = int64[1] {0}> (extent)
    counts = ScatterElements <axis = 0, reduction = "add"> (nothing, inverse, units)
"""


def unique(node: OnnxNode) -> list[Any]:
    """Return different elements, their first places, which is each element, and how often each is.

    Elements are sorted, which keeps the order of equal ones, so that groups begin where neighbours
    differ. In the order of their appearance, those are taken that are the first of their group.
    """
    is_onnx = not node.domain
    if not is_onnx:
        check_attributes(node, "", {})
    rank = node.rank(0)
    if rank != 1 and ("axis" in node.attrs or not is_onnx):
        node.refuse(f"it compares slices of {rank} dimensions, expected a vector, or no axis: "
                    "compute it before the call")  # fmt: skip
    names = ("indices", "inverse", "counts") if is_onnx else ("inverse", "counts")
    is_float = "float" in node.dtype(0)
    groups = _GROUPS.format(sorted=_WITH_NAN if is_float else _PLAIN,
                            equal=_SAME_OR_NAN if is_float else _SAME)  # fmt: skip
    text = groups + (_SORTED if is_onnx and node.attr("sorted", 1) else _APPEARANCE) + "".join(
        f"output_{k} = Identity ({name})\n" for k, name in enumerate(names, 1))  # fmt: skip
    extra = [constant_node(float("inf"), node.dtype(0), "infinity")] if is_float else []
    return [*numbers(), *extra, *parsed_nodes(text)]
