"""What is known of the tensors of a written graph: dtypes, and which hold integers of what size."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...backend.region import Array
from ...patterns.extents.symbolic_shapes import same_shape
from ..onnx_operators.graph.element_types import ELEMENT_TYPES, SMALL
from ..onnx_operators.graph.graph_writer import GraphWriter, NodeProto

#: Up to here float32 holds all integers, and sums of them are exact.
EXACT = 1 << 24
_NAMES = {number: name for name, number in ELEMENT_TYPES.items()}


@dataclass(frozen=True)
class IntegerCodes:
    """Integers of 8 bits, less a scalar zero point.

    Attributes:
        name: The tensor of the integers.
        zero: The zero point, a tensor or constant of the same dtype; None for 0.
        bound: The largest magnitude of a difference.
    """

    name: str
    zero: str | None
    bound: int


@dataclass(frozen=True)
class IntegerFacts:
    """Facts about the tensors of a graph.

    Attributes:
        writer: The graph.
        bounds: For tensors that hold integers only: the largest magnitude there can be.
        origins: For tensors that are casts of the same integers: the tensors they are casts of.
    """

    writer: GraphWriter
    bounds: dict[str, int] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    def dtype(self, name: str) -> str | None:
        """The dtype of a tensor or a constant; None if it is not known."""
        array, tensor = self.writer.arrays.get(name), self.writer.tensors.get(name)
        if array is not None:
            return str(array.dtype)
        return None if tensor is None else tensor.dtype

    def shape(self, name: str) -> tuple[Any, ...] | None:
        """The shape of a tensor or a constant; None if it is not known."""
        array, tensor = self.writer.arrays.get(name), self.writer.tensors.get(name)
        if array is not None:
            return array.shape
        return None if tensor is None else tensor.shape

    def bound(self, name: str) -> int | None:
        """The largest magnitude of a tensor's integers; None if it may hold other numbers."""
        if name in self.bounds:
            return self.bounds[name]
        array, dtype = self.writer.arrays.get(name), self.dtype(name)
        if array is not None:
            return greatest(array)
        return None if dtype not in SMALL else 255 if dtype == "uint8" else 128

    def number(self, name: str, value: float) -> bool:
        """Whether a tensor is a constant with one element, which has this value."""
        return self.writer.number(name) == value

    def cast(self, node: NodeProto) -> str | None:
        """The tensor that a cast restores; other casts that keep integers are remembered."""
        (source,), dtype = node.inputs, _NAMES[node.attrs["to"]]
        origin = self.origins.get(source, source)
        for name in (source, origin):
            if self.dtype(name) == dtype:
                return name
        bound = self.bound(source)
        if bound is not None and _holds(dtype, bound):
            self.bounds[node.output], self.origins[node.output] = bound, origin
        return None

    def codes(self, name: str) -> IntegerCodes | None:
        """The integers of 8 bits of which a tensor is the difference from a zero point."""
        difference = self.writer.before(name, "Sub")
        if difference is None:
            small = self._small(name)
            return None if small is None else IntegerCodes(small, None, self.bound(small) or 0)
        small = self._small(difference.inputs[0])
        zero = None if small is None else self._zero(difference.inputs[1], small)
        return None if small is None or zero is None else IntegerCodes(small, zero, 255)

    def _small(self, name: str) -> str | None:
        """The tensor of 8 bits of which a tensor is a cast."""
        origin = self.origins.get(name, name)
        return origin if name in self.origins and self.dtype(origin) in SMALL else None

    def _zero(self, name: str, small: str) -> str | None:
        """A scalar of the same dtype of which a tensor is a cast, or a constant that fits."""
        dtype = self.dtype(small)
        value = self.writer.number(name)
        if value is not None:
            info = np.iinfo(str(dtype))
            fits = float(value).is_integer() and info.min <= value <= info.max
            return self.writer.scalar(value, str(dtype)) if fits else None
        zero = self._small(name)
        if zero is None or self.dtype(zero) != dtype:
            return None
        shape = self.shape(zero)
        return zero if shape is not None and same_shape(shape, (1,) * min(len(shape), 1)) else None


def greatest(array: Array) -> int | None:
    """The largest magnitude in an array of integers; None if it has other numbers."""
    if array.size == 0 or array.dtype == bool or array.dtype.kind not in "iuf":
        return None
    wide = array.astype("float64")
    if not np.isfinite(wide).all() or (wide != np.rint(wide)).any():
        return None
    return int(np.abs(wide).max())


def _holds(dtype: str, bound: int) -> bool:
    """Whether a dtype holds all integers up to a magnitude."""
    return bound <= EXACT if dtype == "float32" else dtype in ("int32", "int64") and bound < 1 << 31
