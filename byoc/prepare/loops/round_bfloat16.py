"""Round numbers to bfloat16 where a program does, also inside of a kernel.

TVM computes bfloat16 in float32 on CPUs. Its pass `BF16ComputeLegalize` drops casts to bfloat16
whose result stays in the kernel, so `float32(bfloat16(x))` was `x`.

Before: `t[i] = Cast("bfloat16", x[i]); y[i] = Cast("float32", t[i])`; after: `t[i]` is the cast of
the upper 16 bits of `x[i]`, rounded to even, so a dropped cast changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ....analysis.blocks.tir import dtype_of
from ....analysis.support.ir.rewrite_functions import replaced_functions

#: A type of nodes, and the function that replaces one.
Rule = tuple[Any, Callable[[Any, Any], Any]]
_LOWER = 0xFFFF


def round_bfloat16(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a module whose casts to bfloat16 round in float32; `mod` is not modified.

    Casts whose result is stored in a parameter are as TVM rounds them. Scheduled functions stay:
    schedules round, and have no bfloat16 in variables (`jit.schedule.nest.bfloat16_values`).

    Args:
        mod: A module for a CPU, after fusion.
    """
    return replaced_functions(mod, _rounded)


def rounding_rules(params: Sequence[Any], rounded: Callable[[Any], Any]) -> list[Rule]:
    """Return rules for `structural_mutate` by which casts to bfloat16 round in float32.

    A cast whose result is stored in a parameter stays, as TVM rounds it.

    Args:
        params: The parameters of the PrimFunc.
        rounded: Returns a float32 rounded to bfloat16, as float32.
    """

    def cast(node: Any, mutator: Any) -> Any:
        node = mutator.default_mutate(node)
        if dtype_of(node) != "bfloat16":
            return node
        return tirx.Cast("bfloat16", rounded(tirx.Cast("float32", node.value)))

    def store(node: Any, mutator: Any) -> Any:
        is_result = any(node.buffer.same_as(param) for param in params)
        if not (is_result and isinstance(node.value, tirx.Cast)):
            return mutator.default_mutate(node)
        value = tirx.Cast(dtype_of(node.value), mutator.mutate(node.value.value))
        return tirx.BufferStore(node.buffer, value, list(node.indices))

    return [(tirx.Cast, cast), (tirx.BufferStore, store)]


def _rounded(func: Any) -> Any:
    """Return a PrimFunc whose casts round; other functions, and scheduled ones, stay."""
    if not isinstance(func, tirx.PrimFunc) or "tirx.is_scheduled" in (func.attrs or {}):
        return func
    body = tvm_ffi.structural_mutate(func.body, rounding_rules(list(func.params), _upper))
    return func if body.same_as(func.body) else func.with_body(body)


def _upper(number: Any) -> Any:
    """Return a float32 rounded to the upper 16 of its bits, to even; NaN stays."""
    bits = tirx.Var("bits", "uint32")
    is_odd = tirx.shift_right(bits, _word(16)) & _word(1)
    rounded = (bits + _word(_LOWER >> 1) + is_odd) & _word(0xFFFFFFFF ^ _LOWER)
    is_nan = (bits & _word(0x7FFFFFFF)) > _word(0x7F800000)
    kept = tirx.reinterpret("float32", tirx.Select(is_nan, bits, rounded))
    return tirx.Let(bits, tirx.reinterpret("uint32", number), kept)


def _word(value: int) -> Any:
    return tirx.const(value, "uint32")
