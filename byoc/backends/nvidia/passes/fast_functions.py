"""Functions by the fast instructions of a GPU, in kernels whose results are rounded to halves.

Before: T.sigmoid(x)        1 / (1 + expf(-x)), exact to 1 in 2**23: 30 instructions
After:  (x < 0 ? t : 1) * rcp(1 + t), t = exp(-|x|)          1 in 2**17: 7 instructions

Before: 0.5 + T.erf(x) * 0.5   exact to 1 in 2**23, in some 25 instructions
After:  0.5 * (x < 0 ? s : 2 - s), s = p(t) * exp(-x * x), t = rcp(1 + c |x|)   1 in 2**17

Before: a / b of float16    exact before it is rounded, in 12 instructions
After:  a * rcp(b)          1 in 2**22

A half has 2**-11. Of halves themselves the functions are computed in float32, and rounded once.
Quotients of bfloat16 stay: their divisors may be subnormal.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from .....analysis.blocks.tir import loads
from .....analysis.lifting.tir.node import NodeDict, as_dtype, items
from .....analysis.support.ir.call_ops import op_name
from .fast_instructions import divided, exp

HALVES = ("float16", "bfloat16")


def with_fast_functions(func: Any) -> Any:
    """Return a PrimFunc with fast functions, if all its results are halves, else unchanged."""
    if not isinstance(func, tirx.PrimFunc):
        return func
    stored: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tirx.BufferStore, lambda s: stored.append(s.buffer)))
    results = [p for p in items(func.params) if is_buffer_var(p)
               and any(p.same_as(b) for b in stored)]  # fmt: skip
    if not results or any(str(p.ty.dtype) not in HALVES for p in results):
        return func
    return func.with_body(_Fast(func.body)(func.body))


class _Fast:
    """Rewrites functions of a kernel's body."""

    def __init__(self, body: Any) -> None:
        self.named: NodeDict[Any] = NodeDict()
        tvm_ffi.structural_walk(body, (tirx.Bind, lambda b: self.named.__setitem__(b.var, b.value)))

    def __call__(self, body: Any) -> Any:
        rules = [(tvm.ir.Call, self.call), (tirx.Add, self.sum), (tirx.Div, self.quotient)]
        return tvm_ffi.structural_mutate(body, rules)

    def call(self, node: Any, mutator: Any) -> Any:
        node = mutator.default_mutate(node)
        name, dtype = _name(node), str(getattr(node.ty, "dtype", ""))  # pointers have none
        if name not in ("exp", "sigmoid") or dtype not in (*HALVES, "float32"):
            return node
        x = as_dtype(items(node.args)[0], "float32")
        return as_dtype(exp(x) if name == "exp" else _sigmoid(x), dtype)

    def sum(self, node: Any, mutator: Any) -> Any:
        """c + c f(x) as c (1 + f(x)), which is 0 for a function that nears -1, not a difference."""
        for constant, product in ((node.a, node.b), (node.b, node.a)):
            literal = isinstance(constant, tirx.FloatImm)
            factor = _factor(self.named, product, constant) if literal else None
            name, dtype = _name(factor), str(node.ty.dtype)
            if factor is not None and name in _PLUS_ONE and dtype in (*HALVES, "float32"):
                x = as_dtype(mutator.mutate(items(factor.args)[0]), "float32")
                return as_dtype(_number(constant.value) * _PLUS_ONE[name](x), dtype)
        return mutator.default_mutate(node)

    def quotient(self, node: Any, mutator: Any) -> Any:
        node = mutator.default_mutate(node)
        if str(node.ty.dtype) != "float16":
            return node
        return as_dtype(divided(as_dtype(node.a, "float32"), as_dtype(node.b, "float32")),
                        "float16")  # fmt: skip


def _name(call: Any) -> str:
    return str(op_name(call).rpartition(".")[2])


def _factor(named: NodeDict[Any], product: Any, constant: Any) -> Any:
    """The call that is multiplied by the constant, which may be 1."""
    value = _value(named, product)
    if not isinstance(value, tirx.Mul):
        return value if constant.value == 1.0 else None
    for literal, factor in ((value.a, value.b), (value.b, value.a)):
        if isinstance(literal, tirx.FloatImm) and literal.value == constant.value:
            return _value(named, factor)
    return None


def _value(named: NodeDict[Any], expr: Any) -> Any:
    """What a variable names, before casts of floats, unless it reads memory, which may change."""
    floats = (*HALVES, "float32")
    if isinstance(expr, tirx.Cast) and {str(e.ty.dtype) for e in (expr, expr.value)} <= {*floats}:
        return _value(named, expr.value)
    value = named.get(expr) if isinstance(expr, tirx.Var) else None
    return expr if value is None or loads(value) else _value(named, value)


def _number(value: float) -> Any:
    return tirx.FloatImm("float32", value)


def _sigmoid(x: Any) -> Any:
    zero, one = _number(0.0), _number(1.0)
    small = exp(zero - tirx.abs(x))
    return divided(tirx.Select(x < zero, small, one), one + small)


def _one_plus_erf(x: Any) -> Any:
    """1 + erf(x) by the tail of the normal distribution: erfc(|x|), or 2 less that."""
    t = divided(_number(1.0), _number(1.0) + _number(TAIL_STEP) * tirx.abs(x))
    tail = _number(TAIL[-1])
    for coefficient in TAIL[-2::-1]:
        tail = tail * t + _number(coefficient)
    tail = tail * t * exp(_number(0.0) - x * x)
    return tirx.Select(x < _number(0.0), tail, _number(2.0) - tail)


def _one_plus_tanh(x: Any) -> Any:
    return _number(2.0) * _sigmoid(_number(2.0) * x)


#: erfc(x) exp(x^2) = sum_k TAIL[k] t^(k + 1), t = 1 / (1 + TAIL_STEP x), to 4.5e-6 of it for
#: x in [0, 9]: fitted to relative errors by least squares with weights that grow where they are
#: largest.
TAIL_STEP = 0.43
TAIL = (0.24329933524131775, 0.2320651113986969, 0.28313902020454407, -0.01410742662847042,
        0.4099823236465454, -0.15437433123588562)  # fmt: skip
_PLUS_ONE = {"erf": _one_plus_erf, "tanh": _one_plus_tanh}
