"""Evaluate operators on the elements of small tensors: the shape arithmetic of exporters.

Each function takes arrays of objects (see `values.Value`) and returns one. It raises `Unknown` if
an element cannot be expressed; the node is then converted like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tvm import tirx

from .scalars import Rational, Unknown, is_expr, rational
from .size_arithmetic import SizeArithmetic
from .values import SMALL

Elements = np.ndarray[Any, Any]
Rule = Callable[..., Elements]


def evaluate(
    op: str, inputs: list[Elements | None], attrs: Mapping[str, Any], arithmetic: SizeArithmetic
) -> Elements:
    """Return the elements of an operator's result.

    Args:
        op: The operator of the default domain.
        inputs: The elements of each input, None if it is absent.
        attrs: The attributes of the node; axes of old operator sets are among them.
        arithmetic: The arithmetic on elements.

    Raises:
        Unknown: The operator has no rule, or an element of the result has no expression.
    """
    rule = RULES.get(op)
    if rule is None or any(x is not None and x.size > SMALL for x in inputs):
        raise Unknown
    try:
        arrays = [None if x is None else x.astype(object) for x in inputs]
        result = rule(arrays, attrs, arithmetic)
    except (TypeError, ValueError, IndexError, AttributeError, AssertionError) as error:
        raise Unknown from error  # not the arguments that the rule expects
    if result.size > SMALL:
        raise Unknown
    return result


def _each(function: Callable[..., Any], *arrays: Elements) -> Elements:
    """Apply a function to the elements of arrays that broadcast."""
    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    flat = [np.broadcast_to(x, shape).reshape(-1) for x in arrays]
    result = np.empty(int(np.prod(shape)), object)
    for k, items in enumerate(zip(*flat, strict=True)):
        result[k] = function(*items)
    return result.reshape(shape)


def _binary(method: str) -> Rule:
    return lambda x, attrs, a: _each(getattr(a, method), x[0], x[1])


def _folded(method: str) -> Rule:
    def rule(x: list[Elements], attrs: Mapping[str, Any], a: SizeArithmetic) -> Elements:
        result = x[0]
        for other in x[1:]:
            result = _each(getattr(a, method), result, other)
        return result

    return rule


def _comparison(holds: Any, negated: Any) -> Rule:
    return lambda x, attrs, a: _each(lambda p, q: a.compare(p, q, holds, negated), x[0], x[1])


def _numbers(array: Elements) -> list[int]:
    items = array.reshape(-1).tolist()
    if any(is_expr(x) or isinstance(x, Rational) for x in items):
        raise Unknown
    return [int(x) for x in items]


def _axes(x: list[Elements | None], attrs: Mapping[str, Any], place: int = 1) -> list[int] | None:
    if len(x) > place and x[place] is not None:
        return _numbers(x[place])  # type: ignore[arg-type]
    return None if attrs.get("axes") is None else list(attrs["axes"])


def _cast(x: list[Elements], attrs: Mapping[str, Any], a: SizeArithmetic) -> Elements:
    to = np.dtype(attrs["to"])

    def cast(item: Any) -> Any:
        if to.kind == "f":
            if is_expr(item) and str(item.ty) == "bool":
                item = tirx.Cast("int64", item)
            return rational(item)
        if to.kind == "b":
            return a.compare(item, 0, lambda p, q: tirx.NE(p, q), lambda p, q: tirx.EQ(p, q))
        if is_expr(item):
            return tirx.Cast("int64", item) if str(item.ty) == "bool" else item
        return a.truncate(item) if isinstance(item, Rational) else int(item)

    if to.kind not in "fbi" or (to.itemsize < 4 and to.kind != "b"):
        raise Unknown
    return _each(cast, x[0])


def _reshape(x: list[Elements], attrs: Mapping[str, Any], a: SizeArithmetic) -> Elements:
    target = _numbers(x[1])
    if not attrs.get("allowzero", 0):
        target = [x[0].shape[k] if d == 0 else d for k, d in enumerate(target)]
    return x[0].reshape(target)


def _slice(x: list[Elements | None], attrs: Mapping[str, Any], a: SizeArithmetic) -> Elements:
    data, starts = x[0], list(attrs["starts"]) if "starts" in attrs else _numbers(_must(x[1]))
    ends = list(attrs["ends"]) if "ends" in attrs else _numbers(_must(x[2]))
    axes = _axes(x, attrs, 3) or list(range(len(starts)))
    steps = _numbers(x[4]) if len(x) > 4 and x[4] is not None else [1] * len(starts)
    assert data is not None
    index: list[Any] = [slice(None)] * data.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = data.shape[axis]
        stop = None if step < 0 and end < -size else end
        index[axis] = slice(max(start, -size) if step < 0 else start, stop, step)
    part: Elements = data[tuple(index)]
    return part


def _must(array: Elements | None) -> Elements:
    if array is None:
        raise Unknown
    return array


def _gather(x: list[Elements], attrs: Mapping[str, Any], a: SizeArithmetic) -> Elements:
    axis = attrs.get("axis", 0) % x[0].ndim
    taken = x[0].take(_numbers(x[1]), axis)
    return taken.reshape(x[0].shape[:axis] + x[1].shape + x[0].shape[axis + 1 :])


def _unsqueeze(x: list[Elements], attrs: Mapping[str, Any], a: SizeArithmetic) -> Elements:
    axes = _axes(list(x), attrs)
    assert axes is not None
    rank = x[0].ndim + len(axes)
    return np.expand_dims(x[0], tuple(axis % rank for axis in axes))


def _squeeze(x: list[Elements], attrs: Mapping[str, Any], a: SizeArithmetic) -> Elements:
    axes = _axes(list(x), attrs)
    shape = [
        extent for k, extent in enumerate(x[0].shape)
        if (extent != 1 if axes is None else k not in {axis % x[0].ndim for axis in axes})
    ]  # fmt: skip
    return x[0].reshape(shape)


def _reduction(method: str) -> Rule:
    def rule(x: list[Elements | None], attrs: Mapping[str, Any], a: SizeArithmetic) -> Elements:
        data, axes = _must(x[0]), _axes(x, attrs)
        if not axes:
            if attrs.get("noop_with_empty_axes"):
                return data
            axes = list(range(data.ndim))
        result = data
        for axis in sorted(axis % data.ndim for axis in axes):
            if result.shape[axis] == 0:
                raise Unknown
            parts = [result.take([k], axis) for k in range(result.shape[axis])]
            result = parts[0]
            for part in parts[1:]:
                result = _each(getattr(a, method), result, part)
            result = _as_taken(result, data, axis)
            data = result
        keep = attrs.get("keepdims", 1)
        return result if keep else result.reshape(_without(result.shape, axes))

    return rule


def _as_taken(result: Elements, data: Elements, axis: int) -> Elements:
    return result.reshape([1 if k == axis else d for k, d in enumerate(data.shape)])


def _without(shape: tuple[int, ...], axes: list[int]) -> list[int]:
    dropped = {axis % len(shape) for axis in axes}
    return [d for k, d in enumerate(shape) if k not in dropped]


def _range(x: list[Elements], attrs: Mapping[str, Any], a: SizeArithmetic) -> Elements:
    start, limit, delta = (_numbers(part)[0] for part in x)
    return np.array(list(range(start, limit, delta)), object)


def _filled(x: list[Elements], attrs: Mapping[str, Any], a: SizeArithmetic) -> Elements:
    shape = _numbers(x[0])
    if np.prod(shape) > SMALL:
        raise Unknown
    value = attrs.get("value")
    return np.full(shape, 0.0 if value is None else np.asarray(value).item(), object)


def _expand(x: list[Elements], attrs: Mapping[str, Any], a: SizeArithmetic) -> Elements:
    shape = np.broadcast_shapes(x[0].shape, tuple(_numbers(x[1])))
    if np.prod(shape) > SMALL:
        raise Unknown
    return np.broadcast_to(x[0], shape)


def _scatter(x: list[Elements], attrs: Mapping[str, Any], a: SizeArithmetic) -> Elements:
    if attrs.get("reduction", "none") != "none" or x[0].ndim != 1:
        raise Unknown
    result = x[0].copy()
    for k, update in zip(_numbers(x[1]), x[2].reshape(-1), strict=True):
        result[k] = update
    return result


def _clip(x: list[Elements | None], attrs: Mapping[str, Any], a: SizeArithmetic) -> Elements:
    result = _must(x[0])
    low = x[1] if len(x) > 1 else np.array(attrs["min"], object) if "min" in attrs else None
    high = x[2] if len(x) > 2 else np.array(attrs["max"], object) if "max" in attrs else None
    result = result if low is None else _each(a.maximum, result, low)
    return result if high is None else _each(a.minimum, result, high)


def _not(x: list[Elements], attrs: Mapping[str, Any], a: SizeArithmetic) -> Elements:
    return _each(lambda p: tirx.Not(p) if is_expr(p) else not p, x[0])


def _logical(decided: bool, combine: Any) -> Rule:
    def one(p: Any, q: Any) -> Any:
        if not is_expr(p):
            return decided if bool(p) == decided else q
        if not is_expr(q):
            return decided if bool(q) == decided else p
        return combine(p, q)

    return lambda x, attrs, a: _each(one, x[0], x[1])


def _modulo(x: list[Elements], attrs: Mapping[str, Any], a: SizeArithmetic) -> Elements:
    if attrs.get("fmod", 0):
        raise Unknown
    return _each(a.modulo, x[0], x[1])


RULES: dict[str, Rule] = {
    "Identity": lambda x, attrs, a: x[0],
    "Cast": _cast,
    "Add": _binary("add"),
    "Sub": _binary("subtract"),
    "Mul": _binary("multiply"),
    "Div": _binary("divide"),
    "Mod": _modulo,
    "Min": _folded("minimum"),
    "Max": _folded("maximum"),
    "Neg": lambda x, attrs, a: _each(a.negate, x[0]),
    "Floor": lambda x, attrs, a: _each(a.floor, x[0]),
    "Ceil": lambda x, attrs, a: _each(a.ceil, x[0]),
    "Clip": _clip,
    "Equal": _comparison(tirx.EQ, tirx.NE),
    "Less": _comparison(tirx.LT, tirx.GE),
    "LessOrEqual": _comparison(tirx.LE, tirx.GT),
    "Greater": _comparison(tirx.GT, tirx.LE),
    "GreaterOrEqual": _comparison(tirx.GE, tirx.LT),
    "Not": _not,
    "And": _logical(False, tirx.And),
    "Or": _logical(True, tirx.Or),
    "Where": lambda x, attrs, a: _each(a.select, x[0], x[1], x[2]),
    "Gather": _gather,
    "Slice": _slice,
    "Concat": lambda x, attrs, a: np.concatenate(x, axis=attrs.get("axis", 1)),
    "Reshape": _reshape,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Transpose": lambda x, attrs, a: np.transpose(x[0], attrs.get("perm")),
    "Expand": _expand,
    "Tile": lambda x, attrs, a: np.tile(x[0], _numbers(x[1])),
    "Range": _range,
    "ConstantOfShape": _filled,
    "ReduceProd": _reduction("multiply"),
    "ReduceSum": _reduction("add"),
    "ReduceMax": _reduction("maximum"),
    "ReduceMin": _reduction("minimum"),
    "ScatterElements": _scatter,
    "ScatterND": _scatter,
}
