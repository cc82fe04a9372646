"""Caches of keys and values, to which rows are added at positions that are data."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from ...onnx_graph.conversion.converter_table import converts
from ...onnx_graph.onnx_node import OnnxNode, dims_of
from ...onnx_graph.values import Dim


def written_after(node: OnnxNode, old: Any, new: Any, before: Any, length: Dim) -> Any:
    """Return a cache with new rows after the first rows of the old one, and zeros behind.

        out[b, h, j] = old[b, h, j]              for j < before[b]
                       new[b, h, j - before[b]]  for j < before[b] + rows of new
                       0                         else

    Args:
        node: The node.
        old: [batch, heads, rows, size], or None for no rows.
        new: The same with other rows.
        before: How many rows of the old cache count, int64 [batch].
        length: The rows of the result.
    """

    def rows(fresh: te.Tensor, first: te.Tensor, *earlier: te.Tensor) -> te.Tensor:
        batch, heads, count, size = fresh.shape
        zero = tirx.const(0, fresh.dtype)

        def element(b: Any, h: Any, j: Any, d: Any) -> Any:
            own = tirx.if_then_else(
                tirx.all(j >= first[b], j < first[b] + count), fresh[b, h, j - first[b], d], zero
            )
            if not earlier:
                return own
            inside = tirx.all(j < first[b], j < earlier[0].shape[2])
            return tirx.if_then_else(inside, earlier[0][b, h, j, d], own)

        return te.compute((batch, heads, length, size), element, name="cache")

    given = [new, before, *([] if old is None else [old])]
    out = node.emit(node.builder.call_te(rows, *given, primfunc_name_hint="cache_rows"))
    return node.cast_shape(out, [*dims_of(new)[:2], length, dims_of(new)[3]])


def written_into(node: OnnxNode, old: Any, new: Any, first: Any) -> Any:
    """Return a cache of the old one's sizes with new rows from a position on.

    Args:
        node: The node.
        old: [batch, heads, rows, size].
        new: The same with other rows.
        first: The position of the first new row, int64 [batch].
    """

    def rows(before: te.Tensor, fresh: te.Tensor, start: te.Tensor) -> te.Tensor:
        def element(b: Any, h: Any, j: Any, d: Any) -> Any:
            place = j - start[b]
            inside = tirx.all(place >= 0, place < fresh.shape[2])
            return tirx.if_then_else(inside, fresh[b, h, place, d], before[b, h, j, d])

        return te.compute(before.shape, element, name="cache")

    out = node.builder.call_te(rows, old, new, first, primfunc_name_hint="cache_rows")
    return node.cast_shape(node.emit(out), dims_of(old))


def with_columns(node: OnnxNode, data: Any, columns: Dim) -> Any:
    """Return a mask with columns of 0 behind, for rows of a cache that another mask hides."""

    def wide(short: te.Tensor) -> te.Tensor:
        *outer, count = short.shape
        zero = tirx.const(0, short.dtype)
        return te.compute(
            (*outer, columns),
            lambda b, h, q, k: tirx.if_then_else(k < count, short[b, h, q, k], zero), name="bias"
        )  # fmt: skip

    out = node.emit(node.builder.call_te(wide, data, primfunc_name_hint="bias_columns"))
    return node.cast_shape(out, [*dims_of(data)[:3], columns])


@converts("TensorScatter")
def tensor_scatter(node: OnnxNode) -> Any:
    """Return a cache with new rows from a position on, which goes on at the start if circular."""
    shape, mode = node.shape(0), node.text("mode", "linear")
    axis = node.axis(-2, len(shape))
    if axis == 0:
        node.refuse(f"axis is 0, expected 1 to {len(shape) - 1}")
    if mode not in ("linear", "circular"):
        node.refuse(f"mode is '{mode}', expected linear or circular")
    count = node.shape(1)[axis]
    new = node.cast_shape(node.tensor(1), [*shape[:axis], count, *shape[axis + 1 :]])
    node.require(shape[axis] >= count)
    first = [node.cast_shape(node.tensor(2), [shape[0]])] if node.has(2) else []

    def rows(old: te.Tensor, fresh: te.Tensor, *start: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            place = at[axis] - (start[0][at[0]] if start else 0)
            if mode == "circular":
                place = tirx.floormod(place, tirx.Cast(str(place.ty), old.shape[axis]))
            inside = tirx.all(place >= 0, place < fresh.shape[axis])
            return tirx.if_then_else(inside, fresh(*at[:axis], place, *at[axis + 1 :]), old(*at))

        return te.compute(old.shape, element, name="cache")

    return node.builder.call_te(rows, node.tensor(0), new, *first, primfunc_name_hint="cache_rows")
