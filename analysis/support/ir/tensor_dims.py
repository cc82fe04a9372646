"""The dimensions of Relax tensors, and types as messages have them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from tvm import relax, tirx

_NUMBER = re.compile(r"T\.int64\((-?\d+)\)")


def tensor_dims(expr: Any) -> list[Any] | None:
    """Return the dimensions of an expression; None if they are unknown."""
    shape = getattr(expr.ty, "shape", None)
    return list(shape.values) if isinstance(shape, relax.ShapeExpr) else None


def required_condition(got: Any, size: Any) -> Any | None:
    """Return the condition without which a cast fails, if its size is chosen by one.

    The size is a number otherwise, which is negative, or not the one that is cast. Sizes such as
    `max(n, 1)` are chosen by a condition, too, and do not fail.

    Args:
        got: A size of what is cast; None if it is unknown.
        size: The size of the type.
    """
    if not isinstance(size, tirx.Select) or not isinstance(size.false_value, tirx.IntImm):
        return None
    other = int(size.false_value)
    differs = isinstance(got, tirx.IntImm) and int(got) != other
    return size.condition if other < 0 or differs else None


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
