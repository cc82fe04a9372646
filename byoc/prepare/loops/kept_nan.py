"""Keep NaN in maxima and minima of elements, and the sign of 0 where a constant limits a number.

Before: `y[i] = max(x[i], 0)`;    after: `y[i] = max(0, x[i])`
Before: `y[i] = max(a[i], b[i])`; after: `y[i] = isnan(a[i]) ? a[i] : max(a[i], b[i])`

TVM computes `max(a, b)` as `a if a > b else b`, so NaN as `a` was lost: the relu of NaN was 0. ONNX
Runtime and torch keep NaN. With a constant first, the same instruction does so. PrimFuncs that
cast floats to integers stay: a place that was limited would be read outside if it is NaN. So do
reductions, which read what they store: theirs would take more instructions for each element.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx

from ....analysis.blocks.tir import dtype_of, loads
from ....analysis.lifting.tir.node import as_dtype
from ....analysis.support.ir.rewrite_functions import replaced_functions


def kept_nan(mod: Any) -> Any:
    """Return the module with constants first in maxima and minima of floats; `mod` stays."""
    return replaced_functions(mod, _function)


def _function(func: Any) -> Any:
    if not isinstance(func, tirx.PrimFunc) or _casts_to_integers(func):
        return func
    extremes = _Extremes()
    rules = [(tirx.Max, extremes.extreme), (tirx.Min, extremes.extreme),
             (tirx.BufferStore, extremes.store)]  # fmt: skip
    body = tvm_ffi.structural_mutate(func.body, rules)
    return func if body.same_as(func.body) else func.with_body(body)


def _casts_to_integers(func: Any) -> bool:
    found: list[bool] = []

    def cast(node: Any) -> None:
        found.append("float" in dtype_of(node.value) and "float" not in dtype_of(node))

    tvm_ffi.structural_walk(func.body, (tirx.Cast, cast))
    return any(found)


class _Extremes:
    """Rules for maxima and minima of floats."""

    def __init__(self) -> None:
        self.of_elements = False  # in a store that does not read what it stores

    def store(self, node: Any, mutator: Any) -> Any:
        read = (load.source for load in loads(node.value))
        self.of_elements = not any(source.same_as(node.buffer) for source in read)
        try:
            return mutator.default_mutate(node)
        finally:
            self.of_elements = False

    def extreme(self, node: Any, mutator: Any) -> Any:
        node = mutator.default_mutate(node)
        if _constant(node.a) or "float" not in dtype_of(node):
            return node
        if _constant(node.b):
            return type(node)(node.b, node.a)
        return _kept(node) if self.of_elements else node


def _kept(node: Any) -> Any:
    """A maximum or minimum of two floats that is NaN if the first one is."""
    dtype = dtype_of(node)
    if dtype.startswith("bfloat16"):  # TVM's pass for them converts no loads in variables
        return _chosen(node, node.a)
    first = tirx.Var("first", dtype)
    return tirx.Let(first, node.a, _chosen(node, first))


def _chosen(node: Any, first: Any) -> Any:
    wide = dtype_of(first).replace("bfloat16", "float32").replace("float16", "float32")
    # TVM simplifies `x != x` to false
    return tirx.Select(tirx.isnan(as_dtype(first, wide)), first, type(node)(first, node.b))


def _constant(expr: Any) -> bool:
    value = expr.value if isinstance(expr, tirx.Broadcast) else expr
    return isinstance(value, tirx.FloatImm)
