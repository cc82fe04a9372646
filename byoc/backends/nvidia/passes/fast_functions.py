"""Functions by the fast instructions of a GPU, in kernels whose results are rounded to halves.

Before: T.sigmoid(x)        1 / (1 + expf(-x)), exact to 1 in 2**23: 30 instructions
After:  __fdividef(x < 0 ? t : 1, 1 + t), t = __expf(-|x|)   1 in 2**17: 8 instructions

Before: 0.5 + T.erf(x) * 0.5   exact to 1 in 2**23, in some 25 instructions
After:  0.5 * (x < 0 ? s : 2 - s), s = p(t) * __expf(-x * x), t = 1 / (1 + c |x|)   1 in 2**17

A half has 2**-11. Of halves themselves the functions are computed in float32, and rounded once.
The divisor is at most 2, as ``__fdividef`` returns 0 for one above 2**126, of which a float32
between the sigmoid and the result may be the logarithm.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from .....analysis.blocks.tir import loads
from .....analysis.lifting.tir.node import NodeDict, as_dtype, items
from .....analysis.support.ir.call_ops import op_name

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
    named: NodeDict[Any] = NodeDict()
    tvm_ffi.structural_walk(func.body, (tirx.Bind, lambda b: named.__setitem__(b.var, b.value)))
    rules = [(tvm.ir.Call, _call), (tirx.Add, partial(_sum, named))]
    return func.with_body(tvm_ffi.structural_mutate(func.body, rules))


def _call(node: Any, mutator: Any) -> Any:
    node = mutator.default_mutate(node)
    name = op_name(node).rpartition(".")[2]
    dtype = str(getattr(node.ty, "dtype", ""))  # pointers have none
    if name not in _FAST or dtype not in (*HALVES, "float32"):
        return node
    return as_dtype(_FAST[name](as_dtype(items(node.args)[0], "float32")), dtype)


def _sum(named: NodeDict[Any], node: Any, mutator: Any) -> Any:
    """c + c f(x) as c (1 + f(x)), which is 0 for a function that nears -1, not a difference."""
    for constant, product in ((node.a, node.b), (node.b, node.a)):
        factor = _factor(named, product, constant) if isinstance(constant, tirx.FloatImm) else None
        name = op_name(factor).rpartition(".")[2]
        if factor is not None and name in _PLUS_ONE and str(node.ty.dtype) in (*HALVES, "float32"):
            x = as_dtype(mutator.mutate(items(factor.args)[0]), "float32")
            return as_dtype(_number(constant.value) * _PLUS_ONE[name](x), str(node.ty.dtype))
    return mutator.default_mutate(node)


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


def _exp(x: Any) -> Any:
    return tirx.call_pure_extern("float32", "__expf", x)


def _number(value: float) -> Any:
    return tirx.FloatImm("float32", value)


def _divided(x: Any, y: Any) -> Any:
    return tirx.call_pure_extern("float32", "__fdividef", x, y)


def _sigmoid(x: Any) -> Any:
    zero, one = _number(0.0), _number(1.0)
    small = _exp(zero - tirx.abs(x))
    above = tirx.Select(x < zero, small, one)
    return _divided(above, one + small)


def _one_plus_erf(x: Any) -> Any:
    """1 + erf(x) by the tail of the normal distribution: erfc(|x|), or 2 less that."""
    t = _divided(_number(1.0), _number(1.0) + _number(TAIL_STEP) * tirx.abs(x))
    tail = _number(TAIL[-1])
    for coefficient in TAIL[-2::-1]:
        tail = tail * t + _number(coefficient)
    tail = tail * t * _exp(_number(0.0) - x * x)
    return tirx.Select(x < _number(0.0), tail, _number(2.0) - tail)


def _one_plus_tanh(x: Any) -> Any:
    return _number(2.0) * _sigmoid(_number(2.0) * x)


#: erfc(x) exp(x^2) = sum_k TAIL[k] t^(k + 1), t = 1 / (1 + TAIL_STEP x), to 4.5e-6 of it for
#: x in [0, 9]: fitted to relative errors by least squares with weights that grow where they are
#: largest.
TAIL_STEP = 0.43
TAIL = (0.24329933524131775, 0.2320651113986969, 0.28313902020454407, -0.01410742662847042,
        0.4099823236465454, -0.15437433123588562)  # fmt: skip
_FAST = {"exp": _exp, "sigmoid": _sigmoid}
_PLUS_ONE = {"erf": _one_plus_erf, "tanh": _one_plus_tanh}
