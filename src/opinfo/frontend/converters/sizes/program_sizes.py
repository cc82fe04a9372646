"""Sizes of torch programs as expressions of TVM."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import tvm
from tvm import tirx

from ...onnx_graph.scalars import Rational, Unknown, rational
from ...onnx_graph.scalars import size as plain
from ...onnx_graph.size_arithmetic import SizeArithmetic

_NARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add, "Mul": operator.mul, "Max": tirx.max, "Min": tirx.min,
}  # fmt: skip
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "FloorDiv": operator.floordiv, "CleanDiv": operator.floordiv, "Mod": operator.mod,
    "PythonMod": operator.mod,
    "CeilDiv": lambda a, b: tirx.floordiv(a + b - 1, b),
}  # fmt: skip


#: Functions of a real number, by way of which programs compute sizes.
_REAL: dict[str, Callable[..., Any]] = {
    "ToFloat": lambda arithmetic, a: rational(a),
    "FloorToInt": lambda arithmetic, a: arithmetic.floor(a).top,
    "CeilToInt": lambda arithmetic, a: arithmetic.ceil(a).top,
    "TruncToInt": lambda arithmetic, a: arithmetic.truncate(a),
    "IntTrueDiv": lambda arithmetic, a, b: arithmetic.divide(rational(a), rational(b)),
    "FloatTrueDiv": lambda arithmetic, a, b: arithmetic.divide(rational(a), rational(b)),
    "Add": lambda arithmetic, *parts: functools.reduce(arithmetic.add, parts),
    "Mul": lambda arithmetic, *parts: functools.reduce(arithmetic.multiply, parts),
}


def expression(size: Any, variables: Mapping[str, Any]) -> Any:
    """Return a size of sympy as an expression of int64.

    Raises:
        NotImplementedError: It has a function that TVM has not, or depends on the data.
    """
    value = _value(size, variables)
    if isinstance(value, Rational):
        raise NotImplementedError(f"{size} is a real number, expected an integer")
    return value if isinstance(value, tvm.ir.Expr) else tirx.IntImm("int64", int(value))


def real(number: Any, variables: Mapping[str, Any]) -> Rational:
    """Return a real number that a program computes from sizes.

    Raises:
        NotImplementedError: It is not a fraction with a small denominator.
    """
    return rational(_value(number, variables))


def _value(size: Any, variables: Mapping[str, Any]) -> Any:
    """Return an integer as an expression of int64, a real number as a `Rational`."""
    if size.is_Integer:
        return tirx.IntImm("int64", int(size))
    if size.is_Symbol:
        if str(size) not in variables:
            raise NotImplementedError(f"the size {size} depends on the data, expected on shapes")
        return variables[str(size)]
    try:
        if size.is_Float:
            return rational(float(size))
        return _computed(size, [_value(part, variables) for part in size.args])
    except Unknown:
        raise NotImplementedError(
            f"{size} is a real number, expected a fraction with a small denominator such as 1.5"
        ) from None


def _computed(size: Any, parts: list[Any]) -> Any:
    kind = type(size).__name__
    if kind in _REAL and (kind not in _NARY or any(isinstance(x, Rational) for x in parts)):
        return _REAL[kind](SizeArithmetic(), *map(plain, parts))
    if kind in _NARY:
        return functools.reduce(_NARY[kind], parts)
    if kind in _BINARY and len(parts) == 2:
        return tvm.sym.Analyzer().simplify(_BINARY[kind](*parts))
    if kind == "Pow" and size.args[1].is_Integer and 0 < size.args[1] < 9:
        return functools.reduce(operator.mul, [parts[0]] * int(size.args[1]))
    raise NotImplementedError(f"the size {size} has {kind}, expected sums, products and quotients")
