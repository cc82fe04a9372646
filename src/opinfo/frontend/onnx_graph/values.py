"""The values of an ONNX graph during its import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from tvm import relax

from ...analysis.support.tvm_compat import GenericConst, array_of
from .scalars import Rational

#: A size: a number, or an expression over the symbolic dimensions of the inputs.
Dim: TypeAlias = Any
#: Limit on the elements of a tensor whose elements are tracked one by one.
SMALL = 4096


class NotConvertible(ValueError):
    """A node that has no equivalent in Relax; the message is one line without the node."""

    def __init__(self, text: str, dims: Sequence[Dim] = ()) -> None:
        super().__init__(text)
        self.dims = tuple(dims)  # sizes that would have to be static


class NodeError(ValueError):
    """A node cannot be imported; the message names it.

    Attributes:
        dims: The sizes that would have to be static.
        is_illegal: Whether no runtime can execute the node, for the sizes of its inputs.
    """

    def __init__(self, text: str, dims: Sequence[Dim] = (), is_illegal: bool = False) -> None:
        super().__init__(text)
        self.dims, self.is_illegal = tuple(dims), is_illegal


@dataclass(eq=False)
class TensorValue:
    """A tensor with what is known of it: its elements, its expression, or both.

    `elements` is an array of numbers, or an array of objects: numbers, expressions over symbolic
    dimensions, and `Rational`.
    """

    dtype: str
    elements: np.ndarray[Any, Any] | None = None
    expr: Any = None

    @property
    def is_constant(self) -> bool:
        """Whether all elements are numbers."""
        return self.elements is not None and self.elements.dtype != object


@dataclass(eq=False)
class ListValue:
    """An ONNX sequence of known length."""

    items: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class AbsentValue:
    """An ONNX optional without an element."""


def kind(value: Any) -> str:
    """Return what a value that is not a tensor is, for a message."""
    return "a sequence" if isinstance(value, ListValue) else "an optional without an element"


def constant(array: np.ndarray[Any, Any]) -> TensorValue:
    """Return a value of known numbers."""
    return TensorValue(array.dtype.name, array)


def elements_value(elements: np.ndarray[Any, Any], dtype: str) -> TensorValue:
    """Return a value of elements, in its own dtype if all of them are numbers."""
    items = elements.reshape(-1).tolist()
    if all(isinstance(x, (bool, int, float, np.generic)) for x in items):
        return TensorValue(dtype, np.array(items, dtype).reshape(elements.shape))
    if all(isinstance(x, (bool, int, float)) or _is_number(x) for x in items):
        return TensorValue(
            dtype, np.array([float(x) for x in items], dtype).reshape(elements.shape)
        )
    return TensorValue(dtype, elements)


def _is_number(item: Any) -> bool:
    return isinstance(item, Rational) and isinstance(item.top, int)


def of_expr(expr: Any) -> TensorValue:
    """Return the value of a Relax expression with a tensor type."""
    if isinstance(expr, GenericConst):
        array = array_of(expr).numpy()
        return TensorValue(str(expr.ty.dtype), array, expr)
    if not isinstance(expr.ty, relax.TensorType):
        raise NotConvertible(f"expected a tensor as its result, got {type(expr.ty).__name__}")
    return TensorValue(str(expr.ty.dtype), None, expr)
