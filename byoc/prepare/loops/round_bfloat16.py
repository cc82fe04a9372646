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
from .bfloat16_words import HALF, WIDE, rounded, word_of

#: A type of nodes, and the function that replaces one.
Rule = tuple[Any, Callable[[Any, Any], Any]]


def round_bfloat16(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a module whose casts to bfloat16 round in float32; `mod` is not modified.

    Casts whose result is stored in a parameter, too: TVM makes an infinity or a zero of some NaN.
    Scheduled functions stay: schedules round, and have no bfloat16 in variables
    (`byoc.schedule.nest.bfloat16_values`).

    Args:
        mod: A module for a CPU, after fusion.
    """
    return replaced_functions(mod, _rounded)


def rounding_rules(
    params: Sequence[Any], narrow: Callable[[Any], Any], stored: Callable[[Any], Any]
) -> list[Rule]:
    """Return rules for `structural_mutate` by which casts to bfloat16 round in float32.

    Args:
        params: The parameters of the PrimFunc.
        narrow: Returns a float32 rounded to bfloat16, as float32.
        stored: Returns it as bfloat16, where a cast is stored in a parameter.
    """

    def cast(node: Any, mutator: Any) -> Any:
        node = mutator.default_mutate(node)
        if dtype_of(node) != HALF:
            return node
        return tirx.Cast(HALF, narrow(tirx.Cast(WIDE, node.value)))

    def store(node: Any, mutator: Any) -> Any:
        is_result = any(node.buffer.same_as(param) for param in params)
        if not (is_result and isinstance(node.value, tirx.Cast) and dtype_of(node.value) == HALF):
            return mutator.default_mutate(node)
        value = stored(tirx.Cast(WIDE, mutator.mutate(node.value.value)))
        return tirx.BufferStore(node.buffer, value, list(node.indices))

    return [(tirx.Cast, cast), (tirx.BufferStore, store)]


def _rounded(func: Any) -> Any:
    """Return a PrimFunc whose casts round; other functions, and scheduled ones, stay."""
    if not isinstance(func, tirx.PrimFunc) or "tirx.is_scheduled" in (func.attrs or {}):
        return func
    rules = rounding_rules(list(func.params), _bound, _bound_word)
    body = tvm_ffi.structural_mutate(func.body, rules)
    return func if body.same_as(func.body) else func.with_body(body)


def _bound(number: Any) -> Any:
    """Return a float32 rounded to bfloat16, as float32; it is computed once."""
    var = tirx.Var("number", WIDE)
    return tirx.Let(var, number, rounded(var))


def _bound_word(number: Any) -> Any:
    """Return a float32 rounded to bfloat16; it is computed once."""
    var = tirx.Var("number", WIDE)
    return tirx.Let(var, number, tirx.reinterpret(HALF, word_of(var)))
