"""Bounds of the elements of tensors that a function computes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from tvm import relax, sym, tirx

from ...analysis.lifting.tir.node import NodeDict
from ...analysis.support.tvm_compat import GenericConst, array_of
from .index_origins import Origin, is_integer, operator_name

#: Operators whose elements are those of the first operand.
_MOVES = frozenset(
    f"relax.{name}" for name in (
        "reshape", "flatten", "expand_dims", "squeeze", "permute_dims", "broadcast_to", "repeat",
        "tile", "flip", "strided_slice", "dynamic_strided_slice", "split", "take",
        "gather_elements", "gather_nd", "sort",
    )
)  # fmt: skip
#: Nested values that are followed; deeper ones have no bounds.
_DEPTH = 200


@dataclass(frozen=True)
class Bounds:
    """The smallest and the largest element, as expressions of int64; None is unknown."""

    low: Any = None
    high: Any = None

    def union(self, other: Bounds) -> Bounds:
        """Return bounds of the elements of either."""
        return Bounds(_pick(min, tirx.min, self.low, other.low),
                      _pick(max, tirx.max, self.high, other.high))  # fmt: skip


_NO_BOUND = Bounds()


class ElementBounds:
    """Bounds of the integers in the tensors of a function.

    Args:
        values: The values of its variables.
        checked: Tensors whose elements are checked before the function runs.
    """

    def __init__(self, values: Mapping[Any, Any], checked: Iterable[Origin] = ()) -> None:
        self._values = values
        self._known: NodeDict[Bounds] = NodeDict()
        for start in checked:
            if start.component is None and start.tensor not in self._known:
                self._known[start.tensor] = Bounds(start.low, start.high)
        self._depth = 0
        self._analyzer = sym.Analyzer()

    def inside(self, expr: Any, low: Any, high: Any) -> bool:
        """Return whether all elements are proved to be from `low` to `high`."""
        bounds = self.of(expr)
        if bounds.low is None or bounds.high is None:
            return False
        return self.contains(bounds.low, bounds.high, low, high)

    def contains(self, low: Any, high: Any, least: Any, most: Any) -> bool:
        """Return whether a range is proved to be in the one from `least` to `most`."""
        return all(map(self._analyzer.can_prove, (low >= least, high <= most)))

    def of(self, expr: Any) -> Bounds:
        """Return the bounds of the elements of an expression."""
        if isinstance(expr, GenericConst):
            return _constant(expr)
        known = self._known.get(expr)
        if known is None:
            self._depth += 1
            known = self._computed(expr) if self._depth < _DEPTH else _NO_BOUND
            self._depth -= 1
            self._known[expr] = known
        return known

    def _computed(self, expr: Any) -> Bounds:
        value = self._values.get(expr, expr) if isinstance(expr, relax.Var) else expr
        if isinstance(value, relax.Var):
            return _NO_BOUND if value.same_as(expr) else self.of(value)
        if isinstance(value, relax.TupleGetItem):
            return self._part(value)
        name = operator_name(value)
        if not isinstance(value, relax.Call) or not name.startswith("relax."):
            return _NO_BOUND
        if name in _MOVES:
            return self.of(value.args[0])
        rule = _RULES.get(name.removeprefix("relax."))
        return _NO_BOUND if rule is None else _within(rule(self, value), value)

    def _part(self, value: Any) -> Bounds:
        whole = self._values.get(value.tuple_value, value.tuple_value)
        if isinstance(whole, relax.Tuple):
            return self.of(whole.fields[value.index])
        if operator_name(whole) == "relax.topk":
            return _top(self, whole, value.index)
        return self.of(whole.args[0]) if operator_name(whole) == "relax.split" else _NO_BOUND

    def fields(self, expr: Any) -> list[Bounds]:
        """Return the bounds of the fields of a tuple."""
        whole = self._values.get(expr, expr)
        return [self.of(f) for f in whole.fields] if isinstance(whole, relax.Tuple) else []

    def sizes(self, expr: Any) -> list[Any]:
        """Return the sizes in a shape."""
        shape = self._values.get(expr, expr) if isinstance(expr, relax.Var) else expr
        return list(shape.values) if isinstance(shape, relax.ShapeExpr) else []


def _constant(expr: Any) -> Bounds:
    array = np.asarray(array_of(expr).numpy())
    if array.dtype.kind not in "iub" or not array.size:
        return _NO_BOUND
    return Bounds(_int64(int(array.min())), _int64(int(array.max())))


def _cast(bounds: ElementBounds, call: Any) -> Bounds:
    if str(call.args[0].ty.dtype) == "bool":
        return Bounds(_int64(0), _int64(1))
    return bounds.of(call.args[0]) if is_integer(call.args[0]) else _NO_BOUND


def _is_open(*bounds: Bounds) -> bool:
    """Whether an end is unknown; `in` would compare expressions of TVM with None, which raises."""
    return any(end is None for b in bounds for end in (b.low, b.high))


def _sum(bounds: ElementBounds, call: Any) -> Bounds:
    """A sum of integers without a bound may wrap around."""
    a, b = map(bounds.of, call.args)
    if _is_open(a, b):
        return _NO_BOUND
    return Bounds(_plus(a.low, b.low), _plus(a.high, b.high))


def _difference(bounds: ElementBounds, call: Any) -> Bounds:
    a, b = map(bounds.of, call.args)
    if _is_open(a, b):
        return _NO_BOUND
    return Bounds(_plus(a.low, b.high, -1), _plus(a.high, b.low, -1))


def _product(bounds: ElementBounds, call: Any) -> Bounds:
    a, b = map(bounds.of, call.args)
    ends = [_number(e) for e in (a.low, a.high, b.low, b.high)]
    if None in ends:
        return _NO_BOUND
    products = [x * y for x in ends[:2] for y in ends[2:]]  # type: ignore[operator]
    return Bounds(_int64(min(products)), _int64(max(products)))


def _quotient(bounds: ElementBounds, call: Any) -> Bounds:
    a, b = map(bounds.of, call.args)
    divisor = _number(b.low)
    if divisor is None or divisor < 1 or _number(b.high) != divisor:
        return _NO_BOUND
    return Bounds(*(None if end is None else tirx.floordiv(end, _int64(divisor))
                    for end in (a.low, a.high)))  # fmt: skip


def _remainder(bounds: ElementBounds, call: Any) -> Bounds:
    divisor = bounds.of(call.args[1])
    low = _number(divisor.low)
    if low is None or low < 1:
        return _NO_BOUND
    return Bounds(_int64(0), None if divisor.high is None else _plus(divisor.high, _int64(1), -1))


def _least(bounds: ElementBounds, call: Any) -> Bounds:
    a, b = map(bounds.of, call.args)
    return Bounds(_pick(min, tirx.min, a.low, b.low), _either(min, tirx.min, a.high, b.high))


def _greatest(bounds: ElementBounds, call: Any) -> Bounds:
    a, b = map(bounds.of, call.args)
    return Bounds(_either(max, tirx.max, a.low, b.low), _pick(max, tirx.max, a.high, b.high))


def _clip(bounds: ElementBounds, call: Any) -> Bounds:
    ends = [getattr(arg, "value", None) for arg in call.args[1:3]]
    if not all(isinstance(end, int) for end in ends) or not is_integer(call.args[0]):
        return _NO_BOUND
    low, high = (int(end) for end in ends if end is not None)
    return Bounds(_int64(low), _int64(high)) if low <= high else _NO_BOUND


def _where(bounds: ElementBounds, call: Any) -> Bounds:
    return bounds.of(call.args[1]).union(bounds.of(call.args[2]))


def _concat(bounds: ElementBounds, call: Any) -> Bounds:
    fields = bounds.fields(call.args[0])
    return reduce(Bounds.union, fields) if fields else _NO_BOUND


def _shape(bounds: ElementBounds, call: Any) -> Bounds:
    sizes = [Bounds(size, size) for size in bounds.sizes(call.args[0])]
    return reduce(Bounds.union, sizes) if sizes else _NO_BOUND


def _arange(bounds: ElementBounds, call: Any) -> Bounds:
    start, end, step = call.args
    if not isinstance(step, tirx.IntImm) or int(step) < 1 or not is_integer(call):
        return _NO_BOUND
    return Bounds(start, end - 1)


def _extreme(bounds: ElementBounds, call: Any) -> Bounds:
    """The largest or smallest of no elements is a number of its own."""
    shape, axes = getattr(call.args[0].ty, "shape", None), call.attrs.axis
    if not isinstance(shape, relax.ShapeExpr):
        return _NO_BOUND
    dims = list(shape.values)
    reduced = dims if axes is None else [dims[int(axis)] for axis in axes]
    return bounds.of(call.args[0]) if all(_number(d) for d in reduced) else _NO_BOUND


def _filled(number: int) -> Callable[[ElementBounds, Any], Bounds]:
    return lambda bounds, call: Bounds(_int64(number), _int64(number))


def _full(bounds: ElementBounds, call: Any) -> Bounds:
    return bounds.of(call.args[1])


def _extreme_position(bounds: ElementBounds, call: Any) -> Bounds:
    """TVM's code returns -1 where no element is above the dtype's least one, as of -inf alone."""
    return Bounds(_int64(-1), _position(call).high)


def _sorted_position(bounds: ElementBounds, call: Any) -> Bounds:
    return _position(call)


def _top(bounds: ElementBounds, call: Any, field: int) -> Bounds:
    """Of fewer elements than are asked for, the rest of the results is not set."""
    shape, count = getattr(call.args[0].ty, "shape", None), int(call.attrs.k)
    if not isinstance(shape, relax.ShapeExpr):
        return _NO_BOUND
    size = _number(list(shape.values)[int(call.attrs.axis)])
    if size is None or count > size:
        return _NO_BOUND
    return bounds.of(call.args[0]) if field == 0 else _position(call)


def _position(call: Any) -> Bounds:
    """Return the bounds of a position on an axis of the first operand."""
    shape, axis = getattr(call.args[0].ty, "shape", None), call.attrs.axis
    if not isinstance(shape, relax.ShapeExpr):
        return _NO_BOUND
    dims = list(shape.values)
    size = math.prod(dims, start=_int64(1)) if axis is None else dims[int(axis)]
    return Bounds(_int64(0), size - 1)


_RULES: Mapping[str, Callable[[ElementBounds, Any], Bounds]] = {
    "astype": _cast, "add": _sum, "subtract": _difference, "multiply": _product,
    "floor_divide": _quotient, "floor_mod": _remainder, "minimum": _least, "maximum": _greatest,
    "clip": _clip, "where": _where, "concat": _concat, "shape_to_tensor": _shape,
    "arange": _arange, "zeros": _filled(0), "zeros_like": _filled(0), "ones": _filled(1),
    "ones_like": _filled(1), "full": _full, "max": _extreme, "min": _extreme,
    "argmax": _extreme_position, "argmin": _extreme_position, "argsort": _sorted_position,
}  # fmt: skip


def _within(bounds: Bounds, value: Any) -> Bounds:
    """Return bounds of what fits in the dtype; other results may wrap around."""
    if not is_integer(value):
        return _NO_BOUND
    if str(value.ty.dtype) == "int64":
        return bounds
    info = np.iinfo(str(value.ty.dtype))
    ends = [_number(bounds.low), _number(bounds.high)]
    fits = all(end is not None and info.min <= end <= info.max for end in ends)
    return bounds if fits else _NO_BOUND


def _pick(plain: Any, symbolic: Any, a: Any, b: Any) -> Any:
    """Return the smaller or larger of two ends; None if one is unknown."""
    if a is None or b is None:
        return None
    x, y = _number(a), _number(b)
    return _int64(plain(x, y)) if x is not None and y is not None else symbolic(a, b)


def _either(plain: Any, symbolic: Any, a: Any, b: Any) -> Any:
    """Return the smaller or larger of the ends that are known."""
    known = [end for end in (a, b) if end is not None]
    return _pick(plain, symbolic, a, b) if len(known) == 2 else known[0] if known else None


def _plus(a: Any, b: Any, sign: int = 1) -> Any:
    """Return the sum of two ends, or their difference; None if it has more than 64 bits."""
    x, y = _number(a), _number(b)
    if x is not None and y is not None:
        return _int64(x + sign * y)
    return a + b if sign > 0 else a - b


def _int64(number: int) -> Any:
    return tirx.IntImm("int64", number) if -(1 << 63) <= number < 1 << 63 else None


def _number(end: Any) -> int | None:
    return int(end) if isinstance(end, tirx.IntImm) else None
