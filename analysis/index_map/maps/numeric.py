"""Evaluate TVM index expressions with numpy.

Terms are not involved: a proof by enumeration is about the caller's expressions and the returned
inverse themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ...support.ir.call_ops import op_name
from .to_terms import Unsupported

Array = npt.NDArray[Any]
LIMIT = 1 << 62


def evaluate(expr: Any, env: Mapping[Any, Array]) -> Array:
    """Return the values of a TVM expression at arrays of points.

    Raises:
        Unsupported: An operation has no equivalent, a division is by zero, or a value may not fit
            64 bits.
    """
    return _ArrayEvaluator(env)(expr)


class _ArrayEvaluator:
    """Evaluates expressions for arrays of values of their variables."""

    def __init__(self, env: Mapping[Any, Array]) -> None:
        # Comparing TVM variables builds an expression, so they are identified by their handles.
        self.env = {v.__chandle__(): a for v, a in env.items()}

    def __call__(self, expr: Any) -> Array:
        kind = type(expr).__name__
        fn = _BINARY.get(kind)
        if fn is not None:
            return fn(self(expr.a), self(expr.b))
        if kind == "IntImm":
            return np.asarray(expr.value, dtype=np.int64)
        if kind == "Var":
            values = self.env.get(expr.__chandle__())
            if values is None:
                raise Unsupported(f"variable {expr} has no value")
            return values
        return self.operation(kind, expr)

    def operation(self, kind: str, expr: Any) -> Array:
        if kind == "Call":
            return self.call(expr)
        if kind == "Select":
            return np.where(self(expr.condition), self(expr.true_value), self(expr.false_value))
        if kind == "Not":
            return np.logical_not(self(expr.a))
        if kind == "Cast":
            return self.cast(expr)
        raise Unsupported(f"cannot evaluate expression {kind} with numpy")

    def call(self, expr: Any) -> Array:
        name = op_name(expr).split(".")[-1]
        if name == "if_then_else":
            return np.where(self(expr.args[0]), self(expr.args[1]), self(expr.args[2]))
        if name == "likely":
            return self(expr.args[0])
        fn = _CALLS.get(name)
        if fn is None:
            raise Unsupported(f"cannot evaluate a call of {name} with numpy")
        return fn(self(expr.args[0]), self(expr.args[1]))

    def cast(self, expr: Any) -> Array:
        dtype = str(expr.ty.dtype)
        value = self(expr.value)
        if dtype == "int64" or (dtype == "int32" and _reach(value) < 1 << 31):
            return value.astype(np.int64)
        if dtype in ("bool", "int8", "uint8", "int16", "uint16"):
            return value.astype(dtype)
        raise Unsupported(f"cannot evaluate a cast to {dtype} with numpy")


def _reach(array: Array) -> int:
    return max(int(array.max()), -int(array.min())) if array.size else 0


def _checked(fn: Callable[[Array, Array], Array], reach: Callable[[int, int], int]) -> Any:
    def checked(a: Array, b: Array) -> Array:
        a, b = a.astype(np.int64, copy=False), b.astype(np.int64, copy=False)
        if reach(_reach(a), _reach(b)) >= LIMIT:
            raise Unsupported("values may exceed 64 bits")
        return fn(a, b)

    return checked


def _dividing(fn: Callable[[Array, Array], Array]) -> Any:
    def checked(a: Array, b: Array) -> Array:
        if not b.all():
            raise Unsupported("division by zero")
        return fn(a, b)

    return checked


def _shift_left(a: Array, b: Array) -> Array:
    if b.size and (int(b.min()) < 0 or int(b.max()) > 61):
        raise Unsupported("shift by a negative amount, or by too many bits")
    product: Array = _BINARY["Mul"](a, np.left_shift(np.int64(1), b))
    return product


def _shift_right(a: Array, b: Array) -> Array:
    if b.size and (int(b.min()) < 0 or int(b.max()) > 63):
        raise Unsupported("shift by a negative amount, or by too many bits")
    return np.right_shift(a, b)


def _truncdiv(a: Array, b: Array) -> Array:
    quotient = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -quotient, quotient)


_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "Add": _checked(np.add, lambda a, b: a + b),
    "Sub": _checked(np.subtract, lambda a, b: a + b),
    "Mul": _checked(np.multiply, lambda a, b: a * b),
    "FloorDiv": _dividing(np.floor_divide),
    "FloorMod": _dividing(np.mod),
    "Div": _dividing(_truncdiv),
    "Mod": _dividing(np.fmod),
    "Min": np.minimum,
    "Max": np.maximum,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "EQ": np.equal,
    "NE": np.not_equal,
    "And": np.logical_and,
    "Or": np.logical_or,
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "LShift": _shift_left,
    "RShift": _shift_right,
}
_CALLS: dict[str, Callable[[Array, Array], Array]] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "shift_left": _shift_left,
    "shift_right": _shift_right,
}
