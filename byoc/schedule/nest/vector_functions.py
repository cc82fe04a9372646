"""Vectorisable float32 functions: exponential, error function, hyperbolic tangent.

LLVM would call the C library for each element. These approximations are polynomials and rational
functions, accurate to a few units in the last place, like a reassociated sum. Results below 2^-125
are 0, and NaN stays NaN.

    exp(x) = 2^n * p(x - n * log 2),  n the integer nearest to x / log 2
    erf(x) = x * p(x^2) / q(x^2),  tanh(x) = x * r(x^2) / s(x^2)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ....analysis.blocks.tir import calls, dtype_of, is_guard, mentions

_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
        5.0000001201e-1)  # fmt: skip
#: Arguments with the smallest and the largest exponential computed this way.
_LOW, _HIGH = -86.6, 88.72283
_ERF = (
    (-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05,
     -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02),
    (-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03,
     -1.42647390514189e-02),
)  # fmt: skip
_TANH = (
    (-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08,
     1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03),
    (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03),
)  # fmt: skip


class FunctionExpander:
    """Expands these functions; ``bindings`` are variables for subexpressions, in order.

    A call under a guard is not expanded, because its argument may be undefined outside the guard.
    """

    def __init__(self) -> None:
        self.bindings: list[tuple[Any, Any]] = []
        self.rules = [(tvm.ir.Call, self._call), (tirx.Select, lambda expr, mutator: expr)]

    def __call__(self, expr: Any) -> Any:
        return tvm_ffi.structural_mutate(expr, self.rules) if calls(expr) else expr

    def _call(self, call: Any, mutator: Any) -> Any:
        if is_guard(call):
            return call
        call = mutator.default_mutate(call)
        rule = _rule(call)
        return call if rule is None else rule(self, self.let(call.args[0]))

    def let(self, expr: Any) -> Any:
        """Bind an expression to a fresh variable and return the variable."""
        var = tirx.Var("x", dtype_of(expr))
        self.bindings.append((var, expr))
        return var


Rule = Callable[[FunctionExpander, Any], Any]


def _rule(call: Any) -> Rule | None:
    if not isinstance(call.op, tvm.ir.Op):
        return None
    rule = _RULES.get(str(call.op.name).rpartition(".")[2])  # other calls may return addresses
    return rule if rule is not None and dtype_of(call) == "float32" else None


def is_expanded(call: Any) -> bool:
    """Return whether a call has a vector form here, which LLVM does not have."""
    return not is_guard(call) and _rule(call) is not None


def vectorizable(expr: Any, axis: Any) -> bool:
    """Return whether an expression can be vectorised along an axis.

    No guard may depend on the axis, and every call must have a vector form.
    """
    expanded = FunctionExpander()(expr)
    nodes: list[Any] = []
    tvm_ffi.structural_walk(expanded, (tvm.ir.Call, nodes.append))
    return all(_vectorizable(call, axis) for call in nodes)


def _vectorizable(call: Any, axis: Any) -> bool:
    if is_guard(call):
        return axis is None or axis not in mentions(call.args[0])
    return isinstance(call.op, tvm.ir.Op) and bool(call.op.get_attr("TVectorizable"))


def _number(value: float) -> Any:
    return tirx.FloatImm("float32", value)


def _polynomial(coefficients: Sequence[float], x: Any) -> Any:
    out = _number(coefficients[0])
    for coef in coefficients[1:]:
        out = out * x + _number(coef)
    return out


def _within(x: Any, low: float, high: float) -> Any:
    """Clamp to a range and keep NaN, which TVM's minimum does not."""
    above = tirx.Select(x > _number(high), _number(high), x)
    return tirx.Select(x < _number(low), _number(low), above)


def _exp(expander: FunctionExpander, x: Any) -> Any:
    y = expander.let(_within(x, _LOW, _HIGH))
    n = expander.let(tirx.floor(y * _number(1.44269504088896341) + _number(0.5)))
    r = expander.let(y - n * _number(0.693359375) - n * _number(-2.12194440e-4))
    y = expander.let(_scale(_polynomial(_EXP, r) * (r * r) + r + _number(1), n))
    y = tirx.Select(x < _number(_LOW), _number(0), y)
    return tirx.Select(x > _number(_HIGH), _number(float("inf")), y)


def _scale(y: Any, n: Any) -> Any:
    """Return ``y * 2^n`` for n in -125 … 128."""
    exponent = tirx.Cast("int32", n) + tirx.IntImm("int32", 126)
    power = tirx.reinterpret("float32", tirx.shift_left(exponent, tirx.IntImm("int32", 23)))
    return y * power * _number(2)


def _erf(expander: FunctionExpander, x: Any) -> Any:
    quotient = _odd(expander, expander.let(_within(x, -4, 4)), _ERF)
    # Rounding would pass 1, and 1 + erf(x) be negative. With a constant first, NaN is kept.
    return tirx.Max(_number(-1), tirx.Min(_number(1), quotient))


def _tanh(expander: FunctionExpander, x: Any) -> Any:
    limit = 7.90531110763549805
    return _odd(expander, expander.let(_within(x, -limit, limit)), _TANH)


def _odd(expander: FunctionExpander, x: Any, pair: tuple[Sequence[float], Sequence[float]]) -> Any:
    numerator, denominator = pair
    square = expander.let(x * x)
    return x * _polynomial(numerator, square) / _polynomial(denominator, square)


def _sigmoid(expander: FunctionExpander, x: Any) -> Any:
    return _number(1) / (_number(1) + _exp(expander, expander.let(_number(0) - x)))


def _rsqrt(expander: FunctionExpander, x: Any) -> Any:
    return _number(1) / tirx.sqrt(x)


_RULES: dict[str, Rule] = {
    "exp": _exp,
    "erf": _erf,
    "tanh": _tanh,
    "sigmoid": _sigmoid,
    "rsqrt": _rsqrt,
}
