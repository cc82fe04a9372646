"""Masks of attention, as float32 numbers that are added to the scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from ...onnx_graph.onnx_node import OnnxNode
from ...onnx_graph.values import Dim

#: What is added for keys after a query, as ONNX Runtime does.
LOWEST = float(np.finfo("float32").min)


@dataclass(frozen=True)
class ScoreExtents:
    """The sizes of the scores: queries follow `past` keys of earlier calls, `keys` is the total."""

    batch: Dim
    heads: int
    queries: Dim
    past: Dim
    keys: Dim


def positions(node: OnnxNode, count: Dim, shape: list[Any], first: Dim = 0) -> Any:
    """Return numbers from `first` on, as an int64 tensor of a shape in which one size is -1."""
    numbers = node.emit(relax.op.arange(0, count, 1, "int64"))
    if not isinstance(first, int) or first:
        numbers = node.emit(relax.op.add(numbers, node.shape_tensor([first])))
    return node.reshape(numbers, [count if size == -1 else size for size in shape])


def kept(node: OnnxNode, keep: Any, number: float) -> Any:
    """Return 0 where a truth value is set, else a number."""
    zero = relax.const(0.0, "float32")
    return node.emit(relax.op.where(keep, zero, relax.const(number, "float32")))


def causal(node: OnnxNode, sizes: ScoreExtents) -> Any:
    """Return the mask by which a query sees no later keys; None if there are none."""
    if isinstance(sizes.queries, int) and sizes.queries == 1:
        return None
    rows = positions(node, sizes.queries, [1, 1, -1, 1], sizes.past)
    columns = positions(node, sizes.keys, [1, 1, 1, -1])
    return kept(node, node.emit(relax.op.less_equal(columns, rows)), LOWEST)


def padding(node: OnnxNode, k: int, sizes: ScoreExtents, number: float, packed: bool) -> Any:
    """Return the mask that input `k` describes.

    It has a truth value for each key, [batch, keys] or [batch, queries, keys]; or the number of
    keys of each sequence, [batch]; or these and where each sequence starts, [2 * batch].

    Args:
        node: The node.
        k: The input, of an integer dtype.
        sizes: The sizes of the scores.
        number: What is added to the scores of keys that are masked.
        packed: Whether starts, and truth values for all keys alike, [batch, 1], are taken.
    """
    shape = node.shape(k)
    if len(shape) == 1:
        return kept(node, _inside(node, k, sizes, packed), number)
    if packed and len(shape) == 2 and shape[1] == 1 and not node.arithmetic.equal(sizes.keys, 1):
        return None
    wanted = [sizes.batch, sizes.keys] if len(shape) == 2 else [
        sizes.batch, sizes.queries, sizes.keys]  # fmt: skip
    if len(shape) not in (2, 3):
        node.refuse(f"a mask of {len(shape)} dimensions, expected [batch, keys] or [batch, "
                    "queries, keys]")  # fmt: skip
    mask = node.cast_shape(node.tensor(k), wanted)
    mask = node.reshape(mask, [sizes.batch, 1, *([1] if len(shape) == 2 else []), *wanted[1:]])
    return kept(node, node.emit(relax.op.greater(mask, relax.const(0, node.dtype(k)))), number)


def _inside(node: OnnxNode, k: int, sizes: ScoreExtents, packed: bool) -> Any:
    """Return whether keys are before the ends, and behind the starts, of their sequences."""
    columns = positions(node, sizes.keys, [1, 1, 1, -1])
    bounds = node.emit(relax.op.astype(node.tensor(k), "int64"))
    twice = node.arithmetic.multiply(sizes.batch, 2)
    count = node.shape(k)[0]
    both = packed and node.arithmetic.equal(count, twice)
    if (
        not both
        and isinstance(count, int)
        and isinstance(sizes.batch, int)
        and count != sizes.batch
    ):
        node.refuse(f"a mask of {count} numbers, expected {sizes.batch} ends of sequences: give a "
                    "mask of [batch, keys]")  # fmt: skip
    if not both:
        ends = node.reshape(node.cast_shape(bounds, [sizes.batch]), [sizes.batch, 1, 1, 1])
        return node.emit(relax.op.less(columns, ends))
    pairs = node.reshape(bounds, [2, sizes.batch, 1, 1, 1])
    ends, starts = (node.emit(relax.op.take(pairs, relax.const(at), 0)) for at in (0, 1))
    before = node.emit(relax.op.less(columns, ends))
    return node.emit(relax.op.logical_and(before, relax.op.greater_equal(columns, starts)))


def bias(node: OnnxNode, k: int, sizes: ScoreExtents) -> Any:
    """Return input `k`, which is added to the scores, as float32; None if it is absent."""
    if not node.has(k):
        return None
    shape = node.shape(k)
    if len(shape) != 4:
        node.refuse(f"a bias of the scores of {len(shape)} dimensions, expected 4")
    whole = [sizes.batch, sizes.heads, sizes.queries, sizes.keys]
    wanted = [1 if j < 2 and size == 1 else goal
              for j, (size, goal) in enumerate(zip(shape, whole, strict=True))]  # fmt: skip
    data = node.cast_shape(node.tensor(k), wanted)
    return data if node.dtype(k) == "float32" else node.emit(relax.op.astype(data, "float32"))


def summed(node: OnnxNode, *masks: Any) -> Any:
    """Return the sum of masks; None if all are absent."""
    result = None
    for mask in masks:
        if mask is not None:
            result = mask if result is None else node.emit(relax.op.add(result, mask))
    return result
