"""The place of a logical buffer's elements after changes of coordinates."""

from __future__ import annotations

from collections.abc import Sequence

from ..results.buffer_layout import BufferLayout, PhysicalIndices
from ..terms.term import Int, TensorVar, Var, as_int, variable
from .coordinate_change import CoordinateChange


def place(moves: Sequence[CoordinateChange], shape: tuple[Int, ...]) -> PhysicalIndices:
    """Return the indices in a buffer over the coordinates after all changes."""
    last = moves[-1].shape if moves else shape
    axes = tuple(variable("axis", f"x{k}", e) for k, e in enumerate(last))
    index = tuple(map(as_int, axes))
    for change in reversed(moves):
        index = change.old(index)
    return PhysicalIndices(axes, index)


def unchanged_layouts(params: Sequence[TensorVar | Var]) -> tuple[BufferLayout | None, ...]:
    """Return, for each parameter, the layout in which its buffer is the logical one."""
    return tuple(
        place((), param.shape).layout(param.shape)
        if isinstance(param, TensorVar) and not param.scalar
        else None
        for param in params
    )
