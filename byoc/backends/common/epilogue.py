"""The epilogue of a product, as C++ over one element ``v``; operands are ``p[k][j * s[k]]``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...backend.region import Call, Tensor

BINARY = {
    "relax.add": "{} + {}", "relax.subtract": "{} - {}", "relax.multiply": "{} * {}",
    "relax.divide": "{} / {}", "relax.maximum": "larger({}, {})",
    "relax.minimum": "smaller({}, {})",
}  # fmt: skip
_ONE: dict[str, str] = {
    "relax.nn.relu": "larger(v, T(0))", "relax.nn.relu6": "smaller(larger(v, T(0)), T(6))",
    "relax.sigmoid": "sigmoid(v)", "relax.nn.silu": "v * sigmoid(v)", "relax.tanh": "std::tanh(v)",
    "relax.exp": "std::exp(v)", "relax.log": "std::log(v)", "relax.sqrt": "std::sqrt(v)",
    "relax.abs": "std::abs(v)", "relax.square": "v * v", "relax.negative": "-v",
    "relax.nn.gelu": "v * T(0.5) * (T(1) + std::erf(v * T(0.70710678118654752)))",
    "relax.nn.gelu_tanh": "v * T(0.5) * (T(1) + std::tanh(T(0.79788456080286536) * "
                          "(v + T(0.044715) * v * v * v)))",
    "relax.nn.softplus": "softplus(v)",
}  # fmt: skip
_WITH: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "relax.nn.leakyrelu": lambda mapping: f"(v > 0 ? v : v * {number(mapping['alpha'])})",
    "relax.clip": lambda mapping: (
        f"smaller(larger(v, {number(mapping['min'])}), {number(mapping['max'])})"
    ),
}
UNARY = (*_ONE, *_WITH)
#: Functions that call the C library for each element: 2 to 5 ns, ten times those of vectors.
CALLED = ("relax.sigmoid", "relax.nn.silu", "relax.tanh", "relax.exp", "relax.log", "relax.nn.gelu",
          "relax.nn.gelu_tanh", "relax.nn.softplus")  # fmt: skip
#: Casts, where all is computed in one type.
_SAME = ("relax.astype",)


def number(scalar: Any) -> str:
    """A C++ literal of the element type, with all digits."""
    value = float(scalar)
    if math.isnan(value):
        return "T(NAN)"
    if value in (float("inf"), float("-inf")):
        return "T(INFINITY)" if value > 0 else "T(-INFINITY)"
    return f"T({value!r})"


def statements(calls: Sequence[Call], others: list[Tensor]) -> list[str]:
    """A statement for each call; the operands that they read are appended to ``others``."""
    return [f"v = {_value(c, others)};" for c in calls]


def _value(call: Call, others: list[Tensor]) -> str:
    if call.op in _SAME:
        return "v"
    if call.op in _WITH:
        return _WITH[call.op](call.attrs)
    if call.op in _ONE:
        return _ONE[call.op]
    return BINARY[call.op].format(*(_read(o, call, others) for o in call.arguments))


def _read(operand: Tensor | float, call: Call, others: list[Tensor]) -> str:
    if not isinstance(operand, Tensor):
        return number(operand)
    if operand.source == "call" and operand.index == call.result.index - 1:
        return "v"
    if operand not in others:
        others.append(operand)
    k = others.index(operand)
    return f"p[{k}][j * s[{k}]]"
