"""Keep NaN, and the sign of 0, where a number is limited by a constant.

Before: `y[i] = max(x[i], 0)`; after: `y[i] = max(0, x[i])`.

TVM computes `max(a, b)` as `a if a > b else b`, so NaN as `a` was lost: the relu of NaN was 0. ONNX
Runtime and torch keep NaN. With the constant first, the same instruction does so. PrimFuncs that
cast floats to integers stay: a place that was limited would be read outside if it is NaN.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx

from ....analysis.blocks.tir import dtype_of
from ....analysis.support.ir.rewrite_functions import replaced_functions


def kept_nan(mod: Any) -> Any:
    """Return the module with constants first in maxima and minima of floats; `mod` stays."""
    return replaced_functions(mod, _function)


def _function(func: Any) -> Any:
    if not isinstance(func, tirx.PrimFunc) or _casts_to_integers(func):
        return func
    rules = [(tirx.Max, _constant_first), (tirx.Min, _constant_first)]
    body = tvm_ffi.structural_mutate(func.body, rules)
    return func if body.same_as(func.body) else func.with_body(body)


def _casts_to_integers(func: Any) -> bool:
    found: list[bool] = []

    def cast(node: Any) -> None:
        found.append("float" in dtype_of(node.value) and "float" not in dtype_of(node))

    tvm_ffi.structural_walk(func.body, (tirx.Cast, cast))
    return any(found)


def _constant_first(node: Any, mutator: Any) -> Any:
    node = mutator.default_mutate(node)
    is_constant = [_constant(part) for part in (node.a, node.b)]
    return type(node)(node.b, node.a) if is_constant == [False, True] else node


def _constant(expr: Any) -> bool:
    value = expr.value if isinstance(expr, tirx.Broadcast) else expr
    return isinstance(value, tirx.FloatImm)
