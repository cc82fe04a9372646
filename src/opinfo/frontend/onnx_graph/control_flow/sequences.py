"""Sequences of tensors whose length is known; they vanish during the import."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from ..conversion.converter_table import converts
from ..onnx_node import OnnxNode
from ..scalars import is_expr
from ..values import ListValue, TensorValue, constant


def _items(node: OnnxNode) -> list[Any]:
    value = node.inputs[0]
    if not isinstance(value, ListValue):
        node.refuse("input 0 is a tensor, expected a sequence")
    return list(value.items)


def _place(node: OnnxNode, k: int, length: int, last: int) -> int:
    """Return a position of a sequence from its start, at most the `last` one."""
    place = int(node.array(k, "the position").reshape(-1)[0])
    if not -length <= place <= last:
        node.refuse(f"position {place} in a sequence of {length}")
    return place + length if place < 0 else place


@converts("SequenceEmpty")
def empty(node: OnnxNode) -> ListValue:
    """Return a sequence without elements."""
    return ListValue([])


@converts("SequenceConstruct")
def construct(node: OnnxNode) -> ListValue:
    """Return a sequence of the inputs."""
    return ListValue(list(node.inputs))


@converts("SequenceInsert")
def insert(node: OnnxNode) -> ListValue:
    """Insert a tensor, at the end by default."""
    items = _items(node)
    end = len(items)
    items.insert(_place(node, 2, end, end) if node.has(2) else end, node.value(1))
    return ListValue(items)


@converts("SequenceErase")
def erase(node: OnnxNode) -> ListValue:
    """Remove a tensor, the last one by default."""
    items = _items(node)
    if not items:
        node.refuse("it removes a tensor from an empty sequence")
    del items[_place(node, 1, len(items), len(items) - 1) if node.has(1) else -1]
    return ListValue(items)


@converts("SequenceAt")
def at(node: OnnxNode) -> TensorValue:
    """Return one tensor."""
    items = _items(node)
    value: TensorValue = items[_place(node, 1, len(items), len(items) - 1)]
    return value


@converts("SequenceLength")
def length(node: OnnxNode) -> TensorValue:
    """Return the number of tensors."""
    return constant(np.array(len(_items(node)), "int64"))


@converts("SplitToSequence")
def split(node: OnnxNode) -> ListValue:
    """Split a tensor along an axis into parts of constant sizes."""
    dims = node.shape(0)
    axis = node.axis(0, len(dims))
    extent = dims[axis]
    if is_expr(extent):
        node.refuse("it splits a symbolic size into a sequence", extent)
    keep = bool(node.attr("keepdims", 1))
    sizes = [1] * extent
    if node.has(1):
        given, keep = node.array(1, "split"), True
        part = int(given) if given.ndim == 0 else 0
        sizes = (
            [int(x) for x in given]
            if given.ndim
            else [min(part, extent - start) for start in range(0, extent, part)]
        )
    data, start, items = node.tensor(0), 0, []
    for size in sizes:
        part = node.emit(relax.op.strided_slice(data, [axis], [start], [start + size], [1]))
        items.append(node.result(part if keep else relax.op.squeeze(part, [axis])))
        start += size
    return ListValue(items)


@converts("ConcatFromSequence")
def concat(node: OnnxNode) -> Any:
    """Concatenate or stack the tensors of a sequence."""
    tensors = [node.graph.tensor(item) for item in _items(node)]
    if not tensors:
        node.refuse("it concatenates an empty sequence")
    axis = int(node.attr("axis"))
    if node.attr("new_axis", 0):
        rank = tensors[0].ty.ndim + 1
        tensors = [node.emit(relax.op.expand_dims(t, axis % rank)) for t in tensors]
    return tensors[0] if len(tensors) == 1 else relax.op.concat(tensors, axis)


@converts("SequenceMap")
def mapped(node: OnnxNode) -> list[Any]:
    """Return what a graph computes of each tensor of sequences of one length, as sequences."""
    body = node.attr("body")
    count = len(_items(node))
    lengths = {len(value.items) for value in node.inputs if isinstance(value, ListValue)}
    if len(lengths) > 1:
        node.refuse(f"its sequences have {sorted(lengths)} tensors, expected as many in each: "
                    "insert or erase tensors before it")  # fmt: skip
    rows = []
    for k in range(count):
        inputs = [value.items[k] if isinstance(value, ListValue) else value
                  for value in node.inputs]  # fmt: skip
        rows.append(node.graph.run(body, inputs, node.scope))
    return [ListValue([row[k] for row in rows]) for k in range(len(body.output))]
