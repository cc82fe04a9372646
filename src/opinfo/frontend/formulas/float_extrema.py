"""Largest and smallest elements along axes; TVM's own start from the lowest finite number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import te, tirx


def extremum(largest: bool) -> Any:
    """Return the reducer to the largest or the smallest element; its identity is an infinity."""
    start = float("-inf" if largest else "inf")
    combine = tirx.max if largest else tirx.min
    return te.comm_reducer(
        lambda a, b: combine(a, b), lambda dtype: tirx.const(start, dtype), "extremum"
    )


def extremum_of_floats(data: Any, axes: Sequence[int], keep: bool, largest: bool) -> Any:
    """Reduce a tensor; the identity is an infinity."""
    reducer = extremum(largest)
    inner = {axis: te.reduce_axis((0, data.shape[axis]), name=f"k{axis}") for axis in axes}
    outer = [axis for axis in range(len(data.shape)) if keep or axis not in axes]

    def element(*places: Any) -> Any:
        index = {**dict(zip(outer, places, strict=True)), **inner}
        return reducer(data(*(index[axis] for axis in sorted(index))), axis=list(inner.values()))

    shape = [1 if axis in axes else data.shape[axis] for axis in outer]
    return te.compute(shape, element, name="extremum")
