"""Constants with the axis innermost along which the lanes of a kernel read them.

Before: y = R.call_tir(cls.conv, (x, k))        k: (96, 3, 3, 1), and k[c, r, s, 0] for lanes c
After:  y = R.call_tir(cls.conv, (x, k0))       k0: (3, 3, 1, 96), and k0[r, s, 0, c]

Weights of depthwise convolutions: lanes are channels, so that a vector of weights is one load.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import IRModule, relax, s_tir, tirx

from .....analysis.blocks.tir import loads, mentions, static
from .....analysis.lifting.tir.node import NodeDict, items
from .....analysis.support.ir.call_ops import is_call_tir
from .....analysis.support.tvm_compat import GenericConst, array_of
from ..schedules.program.gpu_program import (
    NoGpuSchedule,
    has_symbols,
    has_windows,
    read_program,
    value_parts,
)
from .replace_calls import Replacement, replace_calls


def with_constant_layouts(mod: Any) -> Any:
    """Return the module with constants transposed for the kernels of windows that read them."""
    calls: NodeDict[list[Any]] = NodeDict()
    for _, func in mod.functions_items():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func.body, lambda e: _note(e, calls))
    moved: NodeDict[tuple[Any, dict[int, list[int]]]] = NodeDict()
    for gvar, func in mod.functions_items():
        if not isinstance(func, tirx.PrimFunc) or gvar not in calls:
            continue
        orders = {k: o for k, o in _orders(func).items() if _constant(k, calls[gvar])}
        other = _transposed(func, orders) if orders else None
        if other is not None:
            moved[gvar] = other, orders
    if not moved.items():
        return mod

    def added(builder: Any) -> NodeDict[Replacement]:
        out: NodeDict[Replacement] = NodeDict()
        for gvar, (func, orders) in moved.items():
            out[gvar] = _added(builder, gvar, func, orders)
        return out

    return replace_calls(mod, added)


def _note(expr: Any, calls: NodeDict[list[Any]]) -> None:
    if is_call_tir(expr):
        calls[expr.args[0]] = [*(calls.get(expr.args[0]) or []), expr]


def _constant(k: int, calls: list[Any]) -> bool:
    """Whether an argument is a constant in all calls of a PrimFunc."""
    return all(isinstance(items(c.args[1].fields)[k], GenericConst) for c in calls)


def _orders(func: Any) -> dict[int, list[int]]:
    """The axes of parameters in the order that suits the lanes, by the number of the parameter."""
    try:
        program = read_program(func, False, symbolic=has_symbols(func))
    except NoGpuSchedule:
        return {}
    orders = {}
    for step in program.steps:
        for update in step.updates:
            if not step.reduced or not has_windows(step, value_parts(update, program.definitions)):
                continue
            lane = update.indices[-1]
            for expr in loads(update.value):
                place = [k for k, index in enumerate(items(expr.indices)) if index.same_as(lane)]
                apart = sum(lane in mentions(i) for i in items(expr.indices)) == 1
                extents = [static(e) for e in expr.source.ty.shape]
                inner = place and any(e != 1 for e in extents[place[0] + 1 :])
                if inner and apart and expr.source in program.params:
                    k = next(k for k, p in enumerate(func.params) if p.same_as(expr.source))
                    rest = [a for a in range(len(extents)) if a != place[0]]
                    orders[k] = [*rest, place[0]]
    return orders


def _transposed(func: Any, orders: dict[int, list[int]]) -> Any | None:
    """The PrimFunc on transposed parameters; None if one is read by several blocks."""
    schedule = s_tir.Schedule(IRModule({"main": func}))
    for k, order in orders.items():
        param = schedule.mod["main"].params[k]
        found = [
            (block, n)
            for block in schedule.get_child_blocks(schedule.get_sblock("root"))
            for n, region in enumerate(schedule.get(block).reads)
            if region.source.same_as(param)
        ]
        if len(found) != 1:
            return None
        block, n = found[0]
        axes = [tirx.Var(f"a{axis}", "int64") for axis in range(len(order))]
        moved = tirx.IndexMap(axes, [axes[axis] for axis in order], None)
        schedule.transform_layout(block, ("read", n), moved)
    return schedule.mod["main"].with_attrs(func.attrs)


def _added(builder: Any, gvar: Any, func: Any, orders: dict[int, list[int]]) -> Replacement:
    """Add ``func`` to the module for ``gvar``, for calls with constants whose axes have orders."""
    fresh = builder.add_func(func, gvar.name_hint)

    def replacement(_: Any, call: Any) -> Any:
        fields = list(call.args[1].fields)
        for k, order in orders.items():
            array = np.ascontiguousarray(array_of(fields[k]).numpy().transpose(order))
            fields[k] = relax.const(array, str(fields[k].ty.dtype))
        return relax.Call(call.op, [fresh, relax.Tuple(fields), *call.args[2:]], call.attrs,
                          call.ty_args)  # fmt: skip

    return replacement
