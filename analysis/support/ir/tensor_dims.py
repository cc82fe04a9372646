"""The dimensions of Relax tensors, and types as messages have them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from tvm import relax

_NUMBER = re.compile(r"T\.int64\((-?\d+)\)")


def tensor_dims(expr: Any) -> list[Any] | None:
    """Return the dimensions of an expression; None if they are unknown."""
    shape = getattr(expr.ty, "shape", None)
    return list(shape.values) if isinstance(shape, relax.ShapeExpr) else None


def operand_types(call: Any) -> str:
    """Format the types of the tensors that a call reads: ``float32[m, 8], int64[4]``."""
    return ", ".join(tensor_type(x) for x in tensors_of(call.args))


def tensors_of(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the tensors among values, also in tuples."""
    for value in values:
        if isinstance(value, relax.Tuple):
            yield from tensors_of(value.fields)
        elif isinstance(value.ty, relax.TensorType):
            yield value


def tensor_type(tensor: Any) -> str:
    """Format a tensor's type: ``float32[m, 8]``."""
    dims = tensor_dims(tensor)
    sizes = map(text_of_size, dims) if dims is not None else "?" * max(tensor.ty.ndim, 0)
    return f"{tensor.ty.dtype}[{', '.join(sizes)}]"


def text_of_size(size: Any) -> str:
    """Format a size; TVM prints its numbers as ``T.int64(3)``."""
    return _NUMBER.sub(r"\1", str(size))
