"""Sizes of operands that are broadcast, and of those that are joined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tvm import relax, tirx

from ...analysis.support.ir.tensor_dims import tensor_dims
from .requirement import Requirement, equal, size_of

#: Sizes of an operand, and its position; None if they are unknown.
Dims = list[Any]


def broadcast(shapes: Mapping[int, Sequence[Any]]) -> Iterator[Requirement]:
    """Aligned sizes are equal, unless one is 1.

    Args:
        shapes: Sizes by operand; leading axes may be all that is broadcast.
    """
    rank = max(map(len, shapes.values()), default=0)
    for place in range(1, rank + 1):
        sizes = [(k, len(dims) - place, dims[-place]) for k, dims in shapes.items()
                 if place <= len(dims) and not is_one(dims[-place])]  # fmt: skip
        for *_, other in sizes[1:]:
            k, axis, size = sizes[0]
            yield equal(size_of(k, axis), size, other)


def of_operands(call: Any) -> Iterator[Requirement]:
    """The operands of a call are broadcast against each other."""
    shapes = {k: tensor_dims(arg) for k, arg in enumerate(call.args)}
    yield from broadcast({k: dims for k, dims in shapes.items() if dims is not None})


def of_joined(call: Any) -> Iterator[Requirement]:
    """Joined tensors have the same sizes along the other axes."""
    shapes = fields(call.args[0])
    first = next((dims for dims in shapes if dims is not None), None)
    for dims in shapes:
        if dims is None or first is None or dims is first or call.attrs.axis is None:
            continue
        for axis, (a, b) in enumerate(zip(first, dims, strict=False)):
            if axis != int(call.attrs.axis) % len(dims):
                yield equal(f"size {axis} of the first tensor", a, b)


def fields(operand: Any) -> list[Dims | None]:
    """Return the sizes of the tensors in an operand that is a tuple."""
    types = operand.ty.fields if isinstance(operand.ty, relax.TupleType) else ()
    shapes = [getattr(ty, "shape", None) for ty in types]
    return [list(s.values) if isinstance(s, relax.ShapeExpr) else None for s in shapes]


def is_one(dim: Any) -> bool:
    """Return whether a size is the number 1."""
    return isinstance(dim, tirx.IntImm) and int(dim) == 1
