"""The largest elements of windows, with their positions, which no operator of Relax returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import te, tirx

#: Returns the position along a spatial axis, and whether it is inside, for the axis, its size in
#: the data, a window and a step in it.
Place = Callable[[int, Any, Any, Any], tuple[Any, Any]]
#: Returns the largest extent of a window along a spatial axis, for the axis and its size.
Extent = Callable[[int, Any], Any]


def largest_of_windows(
    data: Any, sizes: Sequence[Any], extent: Extent, place: Place, has_nan: bool = False
) -> Any:
    """Return the position of the largest element of each window in the flat spatial axes, and it.

    The sizes of the data are passed on, because TVM makes symbols of the PrimFunc of them: those of
    the program are not defined there.

    Args:
        data: The tensor; its last axes are spatial.
        sizes: The spatial sizes of the result.
        extent: The largest extent of a window along an axis.
        place: Where a window reads.
        has_nan: Whether NaN is the largest, and the last of them is taken; else it is never taken.
    """
    lead, count = len(data.shape) - len(sizes), len(sizes)
    inner = list(data.shape)[lead:]
    steps = [te.reduce_axis((0, extent(k, n)), name=f"k{k}") for k, n in enumerate(inner)]

    def element(*at: Any) -> Any:
        places = [place(k, inner[k], at[lead + k], steps[k]) for k in range(count)]
        inside = tirx.all(*(within for _, within in places))
        flat = places[0][0]
        for (position, _), size in zip(places[1:], inner[1:], strict=True):
            flat = flat * size + position
        value = data(*at[:lead], *(position for position, _ in places))
        lowest = tirx.min_value(data.dtype) if "int" in str(data.dtype) else _lowest(data.dtype)
        none = tirx.const(-1, "int64")
        return reducer(
            (tirx.if_then_else(inside, flat.astype("int64"), none),
             tirx.if_then_else(inside, value, lowest)), axis=steps)  # fmt: skip

    better = _better_or_nan if has_nan and "int" not in str(data.dtype) else _better
    reducer = te.comm_reducer(better, _identity, name="largest")
    return te.compute((*data.shape[:lead], *sizes), element, name="largest")


def _lowest(dtype: Any) -> Any:
    return tirx.const(float("-inf"), dtype)


def _better(left: Any, right: Any) -> Any:
    """Return the pair with the larger element; the first of equal ones; never one outside."""
    return _chosen(left, right, _larger(left, right))


def _better_or_nan(left: Any, right: Any) -> Any:
    """Return the pair with the larger element, as `_better`; of NaN, the last."""
    is_nan, was_nan = tirx.isnan(right[1]), tirx.isnan(left[1])
    later = tirx.any(tirx.Not(was_nan), right[0] > left[0])
    larger = tirx.all(tirx.Not(was_nan), _larger(left, right))
    return _chosen(left, right, tirx.any(larger, tirx.all(is_nan, later)))


def _larger(left: Any, right: Any) -> Any:
    return tirx.any(right[1] > left[1], tirx.all(right[1] == left[1], right[0] < left[0]))


def _chosen(left: Any, right: Any, larger: Any) -> Any:
    takes = tirx.all(right[0] >= 0, tirx.any(left[0] < 0, larger))
    return tuple(tirx.Select(takes, right[k], left[k]) for k in (0, 1))


def _identity(index: Any, value: Any) -> Any:
    lowest = tirx.min_value(value) if "int" in str(value) else _lowest(value)
    return tirx.const(-1, index), lowest
