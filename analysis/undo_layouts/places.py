"""Where the elements of a logical buffer lie after moves."""

from __future__ import annotations

from collections.abc import Sequence

from ..results.buffer_layout import BufferLayout, PhysicalIndices
from ..terms.term import Int, TensorVar, Var, as_int, variable
from .move import CoordinateChange


def place(moves: Sequence[CoordinateChange], shape: tuple[Int, ...]) -> PhysicalIndices:
    """The indices in a buffer over the coordinates after all moves."""
    last = moves[-1].shape if moves else shape
    axes = tuple(variable("axis", f"x{k}", e) for k, e in enumerate(last))
    index = tuple(map(as_int, axes))
    for m in reversed(moves):
        index = m.old(index)
    return PhysicalIndices(axes, index)


def as_they_are(params: Sequence[TensorVar | Var]) -> tuple[BufferLayout | None, ...]:
    """By parameter, the buffer as the logical one."""
    return tuple(
        place((), p.shape).layout(p.shape) if isinstance(p, TensorVar) else None for p in params
    )
