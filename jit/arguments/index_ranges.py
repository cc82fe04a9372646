"""Ranges of the elements of parameters that index an axis, such as token ids."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..indices.index_origins import Origin, origin, values_of
from ..indices.index_reads import reads
from .extent import Extent, extent_of, value


@dataclass(frozen=True)
class IndexRange:
    """A range of the elements of a tensor.

    Attributes:
        param: The index of the parameter.
        low: The smallest element that may be.
        high: The largest one.
        component: The position on the last axis of the elements; None means all.
    """

    param: int
    low: Extent
    high: Extent
    component: int | None = None

    def outside(self, tensor: Any, sizes: Mapping[str, int]) -> tuple[float, int, int] | None:
        """Return an element of a tensor of a CPU that is outside, and the range; or None."""
        array = tensor if isinstance(tensor, np.ndarray) else np.from_dlpack(tensor)
        if self.component is not None:
            array = array[..., self.component]
        low, high = value(self.low, sizes), value(self.high, sizes)
        if not array.size or low is None or high is None:
            return None
        ends = (_integer(x.item()) for x in (array.min(), array.max()))
        return next(((x, low, high) for x in ends if not low <= x <= high), None)


def _integer(x: float) -> float:
    """Return a number as code casts it; infinities and NaN, which are in no range, stay."""
    return int(x) if math.isfinite(x) else x


def index_ranges_of(func: Any, names: Mapping[Any, str]) -> tuple[IndexRange, ...]:
    """Return the ranges of parameters whose elements index an axis in each call.

    Args:
        func: A Relax function before it is lowered.
        names: The names of the parameters' symbolic extents.
    """
    params = {param: k for k, param in enumerate(func.params)}
    ranges: dict[tuple[int, int], IndexRange] = {}
    for start, low, high in origins_at_call(func, names):
        k, component = params[start.tensor], start.component
        key = k, -1 if component is None else component
        known = ranges.get(key, IndexRange(k, low, high, component))
        ranges[key] = IndexRange(k, _most("max", known.low, low), _most("min", known.high, high),
                                 component)  # fmt: skip
    return tuple(ranges[key] for key in sorted(ranges))


def origins_at_call(func: Any, names: Mapping[Any, str]) -> Iterator[tuple[Origin, Extent, Extent]]:
    """Yield the indices that are parameters and are read at in each call, with their ranges.

    Reads in branches and inner functions may not happen, so they do not count; nor do those of
    axes whose sizes do not follow from the parameters.
    """
    values = values_of(func)
    params = set(func.params)
    for call in values.values():
        for read in reads(call):
            start = origin(read, call, values)
            ends = _extents((start.low, start.high), names)
            if start.tensor in params and ends is not None and start.also is None:
                yield start, *ends


def _extents(ends: tuple[Any, Any], names: Mapping[Any, str]) -> tuple[Extent, Extent] | None:
    """Return extents over the given names; None if they have others."""
    known = dict(names)
    low, high = (extent_of(end, known) for end in ends)
    return None if low is None or high is None or len(known) > len(names) else (low, high)


def _most(op: str, a: Extent, b: Extent) -> Extent:
    if a == b:
        return a
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b) if op == "max" else min(a, b)
    return (op, a, b)
