"""What a step computes from the totals of rows alone, as steps of their own.

Before: y[i, j] = (x[i, j] - s[i] / n) * rsqrt(q[i] / n + e)
After:  m[i] = s[i] / n
        r[i] = rsqrt(q[i] / n + e)
        y[i, j] = (x[i, j] - m[i]) * r[i]

A kernel over all elements would divide for each of them, which takes longer than memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from .....analysis.blocks.loop_steps import Axis
from .....analysis.blocks.tir import Values, dtype_of, integer, loads, mentions
from .....analysis.lifting.tir.node import NodeDict, items, substitute
from .split_blocks import nest

#: Operations that take many instructions, and those around them.
SLOW, FAST = (tirx.Div, tvm.ir.Call), (tirx.Add, tirx.Sub, tirx.Mul, tirx.Cast)


def row_values(
    block: Any, axes: Sequence[Axis], totals: NodeDict[None]
) -> tuple[list[Any], Any] | None:
    """Return the loop nests of values of rows, and the one that reads them; None without any.

    Args:
        block: A block without a reduction.
        axes: Its iterators.
        totals: The buffers with a value for each row.
    """
    values: list[tuple[Any, Any, list[Any]]] = []  # an expression, its buffer, and the indices

    def row_value(expr: Any, mutator: Any) -> Any:
        indices = _row_of(expr, totals)
        if indices is None:
            return mutator.default_mutate(expr)
        for known, buffer, _ in values:
            if tvm_ffi.structural_equal(known, expr):
                return tirx.BufferLoad(buffer, indices)
        shape = items(loads(expr)[0].source.ty.shape)
        name = f"{block.name_hint}_of_row{len(values) or ''}"
        buffer = tirx.decl_buffer(shape, dtype_of(expr), name=name)
        values.append((expr, buffer, indices))
        return tirx.BufferLoad(buffer, indices)

    body = tvm_ffi.structural_mutate(block.body, [(kind, row_value) for kind in SLOW + FAST])
    if not values:
        return None
    return [_nest(*value) for value in values], nest(block.name_hint, axes, body, None)


def _row_of(expr: Any, totals: NodeDict[None]) -> list[Any] | None:
    """The row whose totals an expression reads, if it reads nothing else and takes long."""
    slow: list[Any] = []
    for kind in SLOW:
        tvm_ffi.structural_walk(expr, (kind, slow.append))
    reads = loads(expr)
    if not slow or not reads or not all(e.source in totals for e in reads):
        return None
    indices = items(reads[0].indices)
    same = all(tvm_ffi.structural_equal(e.indices, reads[0].indices) for e in reads)
    variables = NodeDict[None]()
    for index in indices:
        variables[index] = None
    distinct = all(isinstance(i, tirx.Var) for i in indices) and len(variables.items()) == len(
        indices
    )
    used = mentions(expr)
    return indices if same and distinct and all(v in variables for v, _ in used.items()) else None


def _nest(expr: Any, buffer: Any, indices: Sequence[Any]) -> Any:
    """The loop nest that writes a buffer."""
    at, axes = Values(), []
    for index, extent in zip(indices, items(buffer.ty.shape), strict=True):
        var = tirx.Var(index.name, dtype_of(index))
        axes.append(Axis(var, integer(int(extent), var)))
        at[index] = var
    place = [a.var for a in axes]
    return nest(buffer.name, axes, tirx.BufferStore(buffer, substitute(expr, at), place), None)
