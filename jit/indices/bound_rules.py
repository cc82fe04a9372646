"""What the elements of an operator's result are between, given those of its operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

from tvm import relax, tirx

from .index_origins import is_integer
from .integer_bounds import NO_BOUND, ElementRange, Elements, either, int64, number, pick, plus

#: Operators whose elements are those of the first operand.
MOVES = frozenset(
    f"relax.{name}" for name in (
        "reshape", "flatten", "expand_dims", "squeeze", "permute_dims", "broadcast_to", "repeat",
        "tile", "flip", "strided_slice", "dynamic_strided_slice", "split", "take",
        "gather_elements", "gather_nd", "sort",
    )
)  # fmt: skip


def _cast(bounds: Elements, call: Any) -> ElementRange:
    if str(call.args[0].ty.dtype) == "bool":
        return ElementRange(int64(0), int64(1))
    return bounds.of(call.args[0]) if is_integer(call.args[0]) else NO_BOUND


def _sum(bounds: Elements, call: Any) -> ElementRange:
    """A sum of integers without a bound may wrap around."""
    a, b = map(bounds.of, call.args)
    if not (_has_both(a) and _has_both(b)):
        return NO_BOUND
    return _unless_wrapped(plus(a.low, b.low), plus(a.high, b.high))


def _difference(bounds: Elements, call: Any) -> ElementRange:
    a, b = map(bounds.of, call.args)
    if not (_has_both(a) and _has_both(b)):
        return NO_BOUND
    return _unless_wrapped(plus(a.low, b.high, -1), plus(a.high, b.low, -1))


def _has_both(bounds: ElementRange) -> bool:
    # `in` and `==` would build an expression of TVM.
    return bounds.low is not None and bounds.high is not None


def _unless_wrapped(low: Any, high: Any) -> ElementRange:
    """An end of more than 64 bits wraps around, and then the other one may be exceeded, too."""
    return NO_BOUND if low is None or high is None else ElementRange(low, high)


def _product(bounds: Elements, call: Any) -> ElementRange:
    a, b = map(bounds.of, call.args)
    ends = [number(e) for e in (a.low, a.high, b.low, b.high)]
    if None in ends:
        return NO_BOUND
    products = [x * y for x in ends[:2] for y in ends[2:]]  # type: ignore[operator]
    return _unless_wrapped(int64(min(products)), int64(max(products)))


def _quotient(bounds: Elements, call: Any) -> ElementRange:
    a, b = map(bounds.of, call.args)
    divisor = number(b.low)
    if divisor is None or divisor < 1 or number(b.high) != divisor:
        return NO_BOUND
    return ElementRange(*(None if end is None else tirx.floordiv(end, int64(divisor))
                    for end in (a.low, a.high)))  # fmt: skip


def _remainder(bounds: Elements, call: Any) -> ElementRange:
    divisor = bounds.of(call.args[1])
    low = number(divisor.low)
    if low is None or low < 1:
        return NO_BOUND
    return ElementRange(
        int64(0), None if divisor.high is None else plus(divisor.high, int64(1), -1)
    )


def _least(bounds: Elements, call: Any) -> ElementRange:
    a, b = map(bounds.of, call.args)
    return ElementRange(pick(min, tirx.min, a.low, b.low), either(min, tirx.min, a.high, b.high))


def _greatest(bounds: Elements, call: Any) -> ElementRange:
    a, b = map(bounds.of, call.args)
    return ElementRange(either(max, tirx.max, a.low, b.low), pick(max, tirx.max, a.high, b.high))


def _clip(bounds: Elements, call: Any) -> ElementRange:
    ends = [getattr(arg, "value", None) for arg in call.args[1:3]]
    if not all(isinstance(end, int) for end in ends) or not is_integer(call.args[0]):
        return NO_BOUND
    low, high = (int(end) for end in ends if end is not None)
    return ElementRange(int64(low), int64(high)) if low <= high else NO_BOUND


def _where(bounds: Elements, call: Any) -> ElementRange:
    return bounds.of(call.args[1]).union(bounds.of(call.args[2]))


def _concat(bounds: Elements, call: Any) -> ElementRange:
    fields = bounds.fields(call.args[0])
    return reduce(ElementRange.union, fields) if fields else NO_BOUND


def _shape(bounds: Elements, call: Any) -> ElementRange:
    sizes = [ElementRange(size, size) for size in bounds.sizes(call.args[0])]
    return reduce(ElementRange.union, sizes) if sizes else NO_BOUND


def _arange(bounds: Elements, call: Any) -> ElementRange:
    start, end, step = call.args
    if not isinstance(step, tirx.IntImm) or int(step) < 1 or not is_integer(call):
        return NO_BOUND
    return ElementRange(start, end - 1)


def _extreme(bounds: Elements, call: Any) -> ElementRange:
    """The largest or smallest of no elements is a number of its own."""
    shape, axes = getattr(call.args[0].ty, "shape", None), call.attrs.axis
    if not isinstance(shape, relax.ShapeExpr):
        return NO_BOUND
    dims = list(shape.values)
    reduced = dims if axes is None else [dims[int(axis)] for axis in axes]
    return bounds.of(call.args[0]) if all(number(d) for d in reduced) else NO_BOUND


def _filled(value: int) -> Callable[[Elements, Any], ElementRange]:
    return lambda bounds, call: ElementRange(int64(value), int64(value))


def _full(bounds: Elements, call: Any) -> ElementRange:
    return bounds.of(call.args[1])


def _extreme_position(bounds: Elements, call: Any) -> ElementRange:
    """TVM's code returns -1 where no element is above the dtype's least one, as of -inf alone."""
    return ElementRange(int64(-1), _position(call).high)


def _sorted_position(bounds: Elements, call: Any) -> ElementRange:
    return _position(call)


def top_bounds(bounds: Elements, call: Any, field: int) -> ElementRange:
    """Of fewer elements than are asked for, the rest of the results is not set."""
    shape, count = getattr(call.args[0].ty, "shape", None), int(call.attrs.k)
    if not isinstance(shape, relax.ShapeExpr):
        return NO_BOUND
    size = number(list(shape.values)[int(call.attrs.axis)])
    if size is None or count > size:
        return NO_BOUND
    return bounds.of(call.args[0]) if field == 0 else _position(call)


def _position(call: Any) -> ElementRange:
    """Return the bounds of a position on an axis of the first operand."""
    shape, axis = getattr(call.args[0].ty, "shape", None), call.attrs.axis
    if not isinstance(shape, relax.ShapeExpr):
        return NO_BOUND
    dims = list(shape.values)
    size = math.prod(dims, start=int64(1)) if axis is None else dims[int(axis)]
    return ElementRange(int64(0), size - 1)


#: What an operator's elements are between, by its name in Relax; of integers without wrapping.
RULES: Mapping[str, Callable[[Elements, Any], ElementRange]] = {
    "astype": _cast, "add": _sum, "subtract": _difference, "multiply": _product,
    "floor_divide": _quotient, "floor_mod": _remainder, "minimum": _least, "maximum": _greatest,
    "clip": _clip, "where": _where, "concat": _concat, "shape_to_tensor": _shape,
    "arange": _arange, "zeros": _filled(0), "zeros_like": _filled(0), "ones": _filled(1),
    "ones_like": _filled(1), "full": _full, "max": _extreme, "min": _extreme,
    "argmax": _extreme_position, "argmin": _extreme_position, "argsort": _sorted_position,
}  # fmt: skip
