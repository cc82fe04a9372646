"""Abstract values of elements in the padding and of computations on them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...analysis.terms.evaluate import numpy_dtype
from ...analysis.terms.term import CallTerm, Term

Number = float | int | bool


@dataclass(frozen=True)
class KnownNumber:
    """A known number."""

    number: Number


@dataclass(frozen=True)
class ValidElement:
    """The value of a valid element; ``computed`` if the kernel also uses it at n."""

    computed: bool = False


@dataclass(frozen=True)
class LoopState:
    """The state of a loop before this iteration."""

    state: Term


@dataclass(frozen=True)
class AnyValue:
    """Any value, including NaN."""


Value = KnownNumber | ValidElement | LoopState | AnyValue
VALID, COMPUTED, ANYTHING = ValidElement(), ValidElement(True), AnyValue()


def from_numpy(number: Any) -> Value:
    """Convert a number computed by numpy; NaN becomes `AnyValue`."""
    plain = number.item() if hasattr(number, "item") else number
    return ANYTHING if isinstance(plain, float) and math.isnan(plain) else KnownNumber(plain)


def joined(a: Value, b: Value) -> Value:
    """Return the union of two values."""
    if a == b:
        return a
    finite = all(
        isinstance(x, ValidElement) or (isinstance(x, KnownNumber) and math.isfinite(x.number))
        for x in (a, b)
    )
    return VALID if finite else ANYTHING


#: Operations that are exact in every implementation.
_EXACT: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "min": np.minimum,
    "max": np.maximum, "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt, "floor": np.floor,
    "ceil": np.ceil, "trunc": np.trunc, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal, "isnan": np.isnan,
    "isinf": np.isinf, "isfinite": np.isfinite,
}  # fmt: skip
_INF = math.inf
#: Values of other functions that are exact in every implementation.
_POINTS: dict[str, dict[float, float]] = {
    "exp": {-_INF: 0.0, 0.0: 1.0, _INF: _INF},
    "exp2": {-_INF: 0.0, 0.0: 1.0, _INF: _INF},
    "tanh": {0.0: 0.0},
    "erf": {0.0: 0.0},
    "sin": {0.0: 0.0},
    "sigmoid": {-_INF: 0.0, _INF: 1.0, 0.0: 0.5},
    "log": {1.0: 0.0},
    "round": {0.0: 0.0, 1.0: 1.0},
    "nearbyint": {0.0: 0.0, 1.0: 1.0},
}
#: Finite for finite operands, of about their size.
_BOUNDED = frozenset({"abs", "neg", "min", "max", "tanh", "sigmoid", "erf", "floor", "ceil"})


def computed(call: CallTerm, args: list[Value]) -> tuple[Value, bool]:
    """Evaluate a floating-point operation; also return whether it assumes finite elements."""
    if all(isinstance(a, KnownNumber) for a in args):
        return _of_numbers(call, [a.number for a in args if isinstance(a, KnownNumber)]), False
    pair = _one_number(args)
    if pair is None:
        if (call.op in _BOUNDED or _widens(call)) and all(
            isinstance(a, ValidElement) for a in args
        ):
            return VALID, True
        return ANYTHING, False
    number, operand, first = pair
    return _RULES.get(call.op, _no_rule)(number, operand, first, call)


def _widens(call: CallTerm) -> bool:
    return (
        call.op == "cast"
        and call.dtype in ("float32", "float64")
        and "float" in call.args[0].dtype
        and (call.dtype == "float64" or call.args[0].dtype != "float64")
    )


def _of_numbers(call: CallTerm, numbers: list[Number]) -> Value:
    if call.op == "cast":
        return _cast(numbers[0], call.dtype)
    if call.op in _POINTS:
        point = _POINTS[call.op].get(float(numbers[0]))
        return ANYTHING if point is None else KnownNumber(point)
    fn = _EXACT.get(call.op)
    if fn is None:
        return ANYTHING
    kind = numpy_dtype(call.args[0].dtype)
    with np.errstate(all="ignore"):
        if call.op == "div" and not np.issubdtype(kind, np.floating):
            return ANYTHING
        return from_numpy(fn(*(np.asarray(x, kind) for x in numbers)))


def _cast(number: Number, dtype: str) -> Value:
    if isinstance(number, float) and not math.isfinite(number) and "float" not in dtype:
        return ANYTHING
    if dtype.startswith(("float8", "float4")):
        return ANYTHING
    kind = numpy_dtype(dtype)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        if not info.min <= int(number) <= info.max:
            return ANYTHING
    with np.errstate(all="ignore"):
        return from_numpy(np.asarray(number).astype(kind))


def _one_number(args: list[Value]) -> tuple[float, Value, bool] | None:
    """Return the number among two operands, the other operand, and whether the number is first."""
    if len(args) != 2:
        return None
    for position in (0, 1):
        arg, operand = args[position], args[1 - position]
        if isinstance(arg, KnownNumber) and isinstance(operand, (ValidElement, LoopState)):
            return float(arg.number), operand, position == 0
    return None


Ruled = tuple[Value, bool]
_NOT: Ruled = (ANYTHING, False)


def _no_rule(number: float, operand: Value, first: bool, call: CallTerm) -> Ruled:
    return _NOT


def _add(number: float, operand: Value, first: bool, call: CallTerm) -> Ruled:
    if number == 0:
        return operand, False
    return (KnownNumber(number), True) if math.isinf(number) else _NOT


def _sub(number: float, operand: Value, first: bool, call: CallTerm) -> Ruled:
    if number == 0 and not first:
        return operand, False
    return (KnownNumber(number if first else -number), True) if math.isinf(number) else _NOT


def _mul(number: float, operand: Value, first: bool, call: CallTerm) -> Ruled:
    if number == 1:
        return operand, False
    return (KnownNumber(0.0), True) if number == 0 else _NOT


def _div(number: float, operand: Value, first: bool, call: CallTerm) -> Ruled:
    if number == 0 and first and operand == COMPUTED:
        return KnownNumber(0.0), True  # n divides by it with a finite result, so it is not 0
    return (operand, False) if number == 1 and not first else _NOT


def _least(number: float, operand: Value, first: bool, call: CallTerm) -> Ruled:
    return _end(number, operand, _INF)


def _most(number: float, operand: Value, first: bool, call: CallTerm) -> Ruled:
    return _end(number, operand, -_INF)


def _end(number: float, operand: Value, neutral: float) -> Ruled:
    """Evaluate ``min`` or ``max`` of a number and a value."""
    if number == neutral:
        return operand, True
    if number == -neutral:
        return KnownNumber(number), True
    return (VALID, True) if isinstance(operand, ValidElement) else _NOT


def _less(number: float, operand: Value, first: bool, call: CallTerm) -> Ruled:
    """Evaluate comparisons with an infinity."""
    if not math.isinf(number) or "float" not in call.args[0].dtype:
        return _NOT
    below = (number < 0) == first  # the first operand is the smaller one
    return KnownNumber(below if call.op in ("lt", "le") else not below), True


def _differs(number: float, operand: Value, first: bool, call: CallTerm) -> Ruled:
    if not math.isinf(number) or "float" not in call.args[0].dtype:
        return _NOT
    return KnownNumber(call.op == "ne"), True


_RULES: dict[str, Callable[[float, Value, bool, CallTerm], Ruled]] = {
    "add": _add, "sub": _sub, "mul": _mul, "div": _div, "min": _least, "max": _most,
    "lt": _less, "le": _less, "gt": _less, "ge": _less, "eq": _differs, "ne": _differs,
}  # fmt: skip
