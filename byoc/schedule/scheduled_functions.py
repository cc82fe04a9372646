"""Schedule the long PrimFuncs of a module for a CPU.

    Before: for i in 0 … 131072:  a[i] = x[i] * s[i % 672]
            for i in 0 … 131072:  b[i] = a[i] + t[i % 672]
            for i in 0 … 131072:  y[i] = max(b[i], 0)
    After:  for r in 0 … 196:  for c in vectors of 672:  y[r, c] = max(x[r, c] * s[c] + t[c], 0)

TVM's default build runs the operators of a fused function one after the other, each over a tensor
of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ...analysis.blocks.tir import static
from ...analysis.lifting.tir.node import items
from ...analysis.support.tvm_compat import SBlock
from ..dims.symbolic_dims import rooted
from ..dims.symbolic_dims import static as is_static
from .nest.vector_functions import is_expanded
from .schedule import PLAIN, schedule
from .scheduled import Scheduled

#: The names of rules: elements one by one, and loops as they are.
POINTWISE, SERIAL = "pointwise", "serial"
#: The fewest iterations of a loop nest that are worth it: they take some microseconds, and a
#: schedule takes LLVM 50 to 200 ms. A function that LLVM calls for each element counts as so many.
FEWEST, CALLED = 1 << 15, 8


def scheduled_functions(mod: Any, target: Any, cores: int = 1) -> dict[str, Any]:
    """Return schedules of the long PrimFuncs of a module, by the functions' names.

    Functions with symbolic shapes, those that `schedule` refuses, and those that gain nothing have
    none.

    Args:
        mod: A module of Relax functions and PrimFuncs, after fusion.
        target: TVM's target; for all but LLVM there are none.
        cores: The number of threads to divide outer loops among.
    """
    config = dict(tvm.target.Target(target).export())
    if config.get("kind") != "llvm":
        return {}
    divided = tvm.target.Target({**config, "num-cores": cores})
    out: dict[str, Any] = {}
    for gvar, func in mod.functions_items():
        if not isinstance(func, tirx.PrimFunc) or not is_static(func):
            continue
        blocks, called = _blocks(func), _has_expanded(func)
        if max(map(_iterations, blocks), default=0) * (CALLED if called else 1) < FEWEST:
            continue
        result = schedule(func, divided)
        if isinstance(result, Scheduled) and _gains(result, len(blocks) > 1 or called):
            out[gvar.name_hint] = rooted(result.func)
    return out


def replaced(mod: Any, ours: Mapping[str, Any]) -> Any:
    """Return a module with functions in place of those with their names; ``mod`` is not changed."""
    out = mod.clone()
    for gvar, _ in mod.functions_items():
        if gvar.name_hint in ours:
            out.update_func(gvar, ours[gvar.name_hint])
    return out


def _gains(result: Scheduled, fuses: bool) -> bool:
    """Return whether a schedule is expected to be faster than the loops of the function.

    LLVM vectorises one operator on elements as well, except for functions that it calls for each
    element. Where a kernel fits no rule, its loops are those that the function has.

    Args:
        result: The schedule.
        fuses: The function has several nests of loops, or such calls.
    """
    if SERIAL in result.rules or PLAIN in result.rules:
        return False
    return fuses or set(result.rules) != {POINTWISE}


def _blocks(func: Any) -> list[Any]:
    """The blocks that have axes."""
    blocks: list[Any] = []
    tvm_ffi.structural_walk(func.body, (SBlock, blocks.append))
    return [b for b in blocks if items(b.iter_vars)]


def _iterations(block: Any) -> int:
    return prod(static(v.dom.extent) or 1 for v in items(block.iter_vars))


def _has_expanded(func: Any) -> bool:
    """Whether the function has a call for which a schedule has vectors, and LLVM has none."""
    found: list[Any] = []

    def note(call: Any) -> None:
        if is_expanded(call):
            found.append(call)

    tvm_ffi.structural_walk(func.body, (tvm.ir.Call, note))
    return bool(found)
