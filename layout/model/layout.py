"""Layouts: physical coordinates made of digits of logical ones."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from tvm import tirx

from .digit import Digit
from .from_index_map import digits_of
from .string import parse, spell

Dim = tuple[Digit, ...]


@dataclass(frozen=True)
class Layout:
    """Where the elements of a value are in memory: each physical dimension is a mixed-radix number.

        physical[d] = Σ_k digit[k] * Π_{j > k} size[j]       digits from the highest to the lowest

    It is injective for every shape. It is surjective if each axis divides evenly into its digits;
    otherwise the rest of the physical buffer is padding.

    Args:
        dims: The digits of each physical dimension, highest first.
        pad_value: The value in the padding; None if unknown.
        axes: The value's own layout string, which names its axes: ``NCHW4c`` has different digits
            for values in NHWC than for values in NCHW.

    Raises:
        ValueError: The digits of an axis do not cover it exactly.

    >>> Layout.parse("NCHW4c")
    Layout("NCHW4c")
    >>> Layout.parse("NCHW4c").physical((1, 6, 8, 8))
    (1, 2, 8, 8, 4)
    """

    dims: tuple[Dim, ...]
    pad_value: float | int | None = 0
    axes: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dims", tuple(map(_joined, self.dims)))
        axes = {d.axis for d in self.digits}
        if axes != set(range(len(axes))):
            raise ValueError(f"Layout: expected digits of the axes 0, 1, ..., got {sorted(axes)}")
        for axis in axes:
            digits = sorted((d for d in self.digits if d.axis == axis), key=lambda d: -d.div)
            covered = digits[0].extent is None and digits[-1].div == 1
            if not covered or any(b.extent is None or a.div != b.div * b.extent
                                  for a, b in pairwise(digits)):  # fmt: skip
                raise ValueError(f"Layout: axis {axis} does not consist of its digits {digits}")

    @staticmethod
    def identity(rank: int) -> Layout:
        """The row-major layout of a value of this rank."""
        return _identity(rank)

    @classmethod
    def permuted(cls, order: Sequence[int]) -> Layout:
        """Physical dimension k is the logical axis ``order[k]``, as in ``permute_dims``."""
        return cls(tuple((Digit(k),) for k in order))

    @classmethod
    def parse(cls, text: str, logical: str = "", pad_value: float | None = 0) -> Layout:
        """The layout of a string such as ``NCHW4c``.

        Args:
            text: The string.
            logical: The order of the logical axes; by default the usual order of these letters,
                such as NCHW or OIHW, or else their order in the string.
            pad_value: The value in the padding; None if unknown.

        Raises:
            ValueError: The string is not a layout.
        """
        return cls(tuple((Digit(*d),) for d in parse(text, logical)), pad_value)

    @classmethod
    def from_index_map(
        cls, index_map: Any, shape: Sequence[Any], pad_value: float | None = 0
    ) -> Layout:
        """The layout of an index map from logical to physical coordinates.

        Args:
            index_map: A `tirx.IndexMap` or a function of the logical axes.
            shape: The logical shape: integers or TVM expressions.
            pad_value: The value in the padding; None if unknown.

        Raises:
            ValueError: The map is not injective or does not consist of digits.
        """
        return cls(digits_of(index_map, shape), pad_value)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # None hashes by its address, but the order of sets must be the same in every process.
        dims = tuple(tuple((d.axis, d.div, d.extent or 0) for d in dim) for dim in self.dims)
        return hash((dims, -1 if self.pad_value is None else self.pad_value))

    @cached_property
    def digits(self) -> Dim:
        """The digits, from the slowest to the fastest in memory."""
        return tuple(d for dim in self.dims for d in dim)

    @cached_property
    def rank(self) -> int:
        """The rank of the logical value."""
        return len({d.axis for d in self.digits})

    @cached_property
    def is_identity(self) -> bool:
        return self.dims == tuple((Digit(k),) for k in range(len(self.dims)))

    @cached_property
    def permutation(self) -> tuple[int, ...] | None:
        """The order of the axes if this layout only permutes them, else None."""
        if any(len(d) != 1 or d[0].extent is not None or d[0].div != 1 for d in self.dims):
            return None
        return tuple(d.axis for (d,) in self.dims)

    @cached_property
    def unfused(self) -> Layout:
        """The same memory with a dimension for each digit."""
        if all(len(dim) == 1 for dim in self.dims):
            return self
        return replace(self, dims=tuple((digit,) for digit in self.digits))

    def physical(self, shape: Sequence[Any]) -> tuple[Any, ...]:
        """The shape of the physical buffer."""
        return tuple(_product([d.size(shape) for d in dim]) for dim in self.dims)

    def padded(self, shape: Sequence[Any]) -> bool:
        """Whether the physical buffer is larger than the value; symbolic axes count as padded."""
        return any(d.extent is None and _pads(d, shape) for d in self.digits)

    def forward(self, index: Sequence[Any], shape: Sequence[Any]) -> tuple[Any, ...]:
        """The physical coordinates of logical ones.

        Args:
            index: A coordinate for each logical axis: integers, integer arrays that broadcast, or
                TVM expressions.
            shape: The logical shape.
        """
        out = []
        for dim in self.dims:
            value = dim[0].of(index)
            for digit in dim[1:]:
                value = value * digit.size(shape) + digit.of(index)
            out.append(value)
        return tuple(out)

    def backward(self, index: Sequence[Any], shape: Sequence[Any]) -> tuple[Any, ...]:
        """The logical coordinates of physical ones.

        Args:
            index: A coordinate for each physical axis, as for `forward`.
            shape: The logical shape; coordinates in the padding lie outside of it.
        """
        parts: dict[int, list[tuple[int, Any]]] = {}
        for coordinate, dim in zip(index, self.dims, strict=True):
            remaining = coordinate
            for k, digit in reversed(list(enumerate(dim))):
                value = remaining if k == 0 else remaining % digit.size(shape)
                remaining = remaining if k == 0 else remaining // digit.size(shape)
                parts.setdefault(digit.axis, []).append((digit.div, value))
        return tuple(_sum(parts[a]) for a in range(len(parts)))

    def order(self, shape: Sequence[Any]) -> Dim:
        """The digits in memory order, except those of size 1; equal orders mean equal memory."""
        wide = [d for d in self.digits if not _is_one(d.size(shape))]
        padded_axes = {d.axis for d in self.digits if d.extent is None and _pads(d, shape)}
        return _joined(wide, shape, padded_axes)

    def index_map(self, shape: Sequence[Any], dtype: str = "int64") -> Any:
        """The ``tirx.IndexMap`` from logical to physical coordinates.

        Args:
            shape: The logical shape: integers or TVM expressions.
            dtype: The dtype of the map's variables.
        """
        names = [tirx.Var(f"i{k}", dtype) for k in range(self.rank)]
        final = [tirx.const(f, dtype) if isinstance(f, int) else f
                 for f in self.forward(names, shape)]  # fmt: skip
        return tirx.IndexMap(names, final, None)

    def move(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The physical array of a logical one."""
        shape = array.shape
        if self.permutation is not None:
            return np.asarray(array.transpose(self.permutation), order="C")  # rank 0 stays
        places = self.forward(np.indices(shape, sparse=True), shape)
        out = np.full(self.physical(shape), self.pad_value or 0, array.dtype)
        out[tuple(np.broadcast_arrays(*places)) if places else ()] = array
        return out

    def over(self, axes: str) -> Layout:
        """The layout with names for the axes of its value."""
        return replace(self, axes=axes)

    def spell(self, logical: str = "") -> str:
        """The layout string, such as ``NCHW4c``, or else the text of the index map."""
        if self.axes and not logical:
            if self.is_identity:
                return self.axes
            logical = self.axes if self.axes.isalpha() and len(self.axes) == self.rank else ""
        if all(len(d) == 1 for d in self.dims):
            text = spell([(d.axis, d.div, d.extent) for (d,) in self.dims], logical)
            if text is not None:
                return text
        return ", ".join(map(_dim_text, self.dims)).join("[]")

    def __repr__(self) -> str:
        return f'Layout("{self.spell()}")'


@cache
def _identity(rank: int) -> Layout:
    return Layout(tuple((Digit(k),) for k in range(rank)))


def _pads(top: Digit, shape: Sequence[Any]) -> bool:
    """Whether an axis may not divide evenly into its digits; a symbolic one may not."""
    extent = shape[top.axis]
    return top.div != 1 and (not isinstance(extent, int) or extent % top.div != 0)


def _joined(
    digits: Sequence[Digit],
    shape: Sequence[Any] | None = None,
    padded_axes: Collection[int] = (),
) -> Dim:
    """Merge neighbouring digits of one axis, except for axes with padding inside."""
    out: list[Digit] = []
    for digit in digits:
        joins = bool(out) and out[-1].axis == digit.axis and digit.axis not in padded_axes
        if joins and digit.extent is not None:
            high = out[-1]
            if high.div == digit.div * digit.extent:
                extent = None if high.extent is None else high.extent * digit.extent
                out[-1] = Digit(digit.axis, digit.div, extent)
                continue
        out.append(digit)
    if shape is not None:  # the highest digit was left out because its size is 1
        for k, digit in enumerate(out):
            extent = shape[digit.axis]
            if (
                digit.extent is not None
                and isinstance(extent, int)
                and extent == digit.div * digit.extent
            ):
                out[k] = Digit(digit.axis, digit.div)
    return tuple(out)


def _product(sizes: Sequence[Any]) -> Any:
    return math.prod(sizes[1:], start=sizes[0])


def _is_one(size: Any) -> bool:
    return isinstance(size, int) and size == 1


def _sum(parts: Sequence[tuple[int, Any]]) -> Any:
    high = sorted(parts, key=lambda p: -p[0])
    scaled = [v if div == 1 else v * div for div, v in high]
    return sum(scaled[1:], start=scaled[0])


def _dim_text(dim: Dim) -> str:
    def digit_text(digit: Digit) -> str:
        text = f"i{digit.axis}" + (f"//{digit.div}" if digit.div != 1 else "")
        return text + (f"%{digit.extent}" if digit.extent is not None else "")

    return " . ".join(map(digit_text, dim))


#: The layouts of a function's parameters; None keeps the layout of one.
ParamLayouts = Sequence[Layout | None]
