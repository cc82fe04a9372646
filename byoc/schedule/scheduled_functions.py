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
from typing import Any

import tvm
from tvm import tirx

from ...analysis.support.warn import warn
from ...analysis.support.wording import last_line
from ..dims.symbolic_dims import rooted
from ..dims.symbolic_dims import static as is_static
from ..prepare.loops.kept_nan import kept_nan
from .function_shape import FunctionShape, read_shape
from .rules import POINTWISE, SERIAL
from .schedule import PLAIN, schedule
from .scheduled import Scheduled

#: The fewest iterations of a loop nest that are worth it: they take some microseconds, and a
#: schedule takes LLVM 50 to 200 ms. A function that LLVM calls for each element counts as so many.
FEWEST, CALLED = 1 << 15, 8


def scheduled_functions(mod: Any, target: Any, cores: int = 1) -> dict[str, Any]:
    """Return schedules of the long PrimFuncs of a module, by the functions' names.

    Functions with symbolic shapes, those that `schedule` refuses, and those that gain nothing have
    none. One that makes our code fail has none either, and a warning names it.

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
        if not isinstance(func, tirx.PrimFunc):
            continue
        name = gvar.name_hint
        try:
            result = _scheduled(name, func, divided)
        except Exception as error:  # a function of a form that was not expected keeps its loops
            warn(f"{name} keeps the loops of its operators: it could not be scheduled: "
                 f"{type(error).__name__}: {last_line(error)[:200]}")  # fmt: skip
            continue
        if result is not None:
            out[name] = rooted(result.func)
    return out


def _scheduled(name: str, func: Any, target: Any) -> Scheduled | None:
    """Return a schedule of a function; None if it has none, or gains nothing."""
    if not is_static(func):
        return None
    shape = read_shape(func)
    if shape.iterations * (CALLED if shape.calls else 1) < FEWEST or shape.is_refused:
        return None
    kept = kept_nan(tvm.IRModule({"main": func}))["main"]
    result = schedule(kept, target, name=name)
    return result if isinstance(result, Scheduled) and _gains(result, shape) else None


def replaced(mod: Any, ours: Mapping[str, Any]) -> Any:
    """Return a module with functions in place of those with their names; ``mod`` is not changed."""
    out = mod.clone()
    for gvar, _ in mod.functions_items():
        if gvar.name_hint in ours:
            out.update_func(gvar, ours[gvar.name_hint])
    return out


def _gains(result: Scheduled, shape: FunctionShape) -> bool:
    """Return whether a schedule is expected to be faster than the loops of the function.

    LLVM vectorises one operator on elements as well, except for functions that it calls for each
    element, and code with branches or computed places not at all. Where a kernel fits no rule, its
    loops are those that the function has.
    """
    if SERIAL in result.rules or PLAIN in result.rules:
        return False
    if set(result.rules) != {POINTWISE}:
        return True
    return not (shape.branches and shape.calls) and (shape.blocks > 1 or shape.calls)
