"""scatter_nd as a stage of a composite.

TVM's lowering computes one flat address. So it stores outside of its row where an index is outside,
and its address has products of symbolic sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from ...lifting.tir.node import items

_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "update": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "min": tirx.min,
    "max": tirx.max,
}


def scatter_nd(data: Any, indices: Any, updates: Any, reduction: str = "update") -> Any:
    """Return the TE tensor ``out = data; for k: out[indices[k], ..] = updates[k, ..]``.

    Args:
        data: A TE tensor.
        indices: (.., n), where n is a literal: the first n coordinates of an update.
        updates: The updates, for each index an element or the remaining dimensions.
        reduction: How an update is combined with the element.
    """
    combine, shape = _COMBINE[reduction], items(data.shape)
    *outer, depth = items(indices.shape)
    inner = shape[int(depth) :]

    def body(inputs: Any, outputs: Any) -> Any:
        old, places, new = map(T.buffer_proxy, inputs)
        out = T.buffer_proxy(outputs[0])

        def store(at: list[Any]) -> None:
            k, rest = at[: len(outer)], at[len(outer) :]
            row = [_wide(places[(*k, d)], shape[d]) for d in range(int(depth))]
            out[(*row, *rest)] = combine(out[(*row, *rest)], new[tuple(at)])

        def copy(at: list[Any]) -> None:
            out[tuple(at)] = old[tuple(at)]

        with IRBuilder() as builder:
            with T.seq_scope():
                _nest(shape, [], copy)
                _nest([*outer, *inner], [], store)
        return builder.get()

    tensors = [data, indices, updates]
    return te.extern([shape], tensors, body, dtype=str(data.dtype), name="scatter_nd")


def _wide(index: Any, extent: Any) -> Any:
    dtype = str(extent.ty.dtype) if hasattr(extent, "ty") else "int64"
    return index if str(index.ty.dtype) == dtype else tirx.Cast(dtype, index)


def _nest(extents: list[Any], at: list[Any], body: Callable[[list[Any]], None]) -> None:
    """Loops over all coordinates, in order."""
    if len(at) == len(extents):
        body(at)
        return
    with T.serial(0, extents[len(at)]) as i:
        _nest(extents, [*at, i], body)
