"""Start reductions before their loops: whose extents may be 0, and those of whole tensors.

    Before: for i, k in T.grid(m, n):  with T.init(): y[i] = 0;  y[i] = y[i] + x[i, k]
    After:  for i in T.grid(m):        y[i] = 0
            for i, k in T.grid(m, n):  y[i] = y[i] + x[i, k]

TVM executes the start of a reduction in the first iteration of its loops. Where there is none, the
result would be what the memory held before: a sum over no rows is 0.

In a nest that reduces a whole tensor to one number, no loop is left to hoist the test for the first
iteration to. LLVM unrolls the inner loops at level 3, with the test in each copy: for a maximum of
8 x 20 x 64 numbers, that took over 11 s of CPU, and takes 0.25 s with the start apart.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.s_tir import ScheduleError

from ....analysis.blocks.tir import mentions
from ....analysis.support.tvm_compat import SBlockRealize, sym

#: TVM's number for the axes that a block reduces.
REDUCED = 2


def start_reductions(mod: Any) -> Any:
    """Return the module with such reductions started apart; ``mod`` is not changed."""
    out = mod.clone()
    for gvar, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc) and (other := started(func)) is not func:
            out.update_func(gvar, other)
    return out


def started(func: Any) -> Any:
    """Return a PrimFunc with its reductions started apart, or the same one if none needs it."""
    if not isinstance(func.body, SBlockRealize):
        return func
    schedule = s_tir.Schedule(tvm.IRModule({"main": func}))
    root = schedule.get_sblock(func.body.block.name_hint)
    changed = False
    for block in schedule.get_child_blocks(root):
        node = schedule.get(block)
        if node.init is None or not (_reduces_all(node) or _may_be_empty(node)):
            continue
        if (loop := _first_reduced(schedule, block)) is None:
            continue
        try:
            schedule.decompose_reduction(block, loop)
        except ScheduleError:
            continue  # loops over threads or another order: its schedule says where it starts
        changed = True
    return schedule.mod["main"].with_attrs(func.attrs) if changed else func


def _may_be_empty(block: Any) -> bool:
    """Whether an extent that a block reduces is not proved to be positive, for sizes from 0 on."""
    analyzer = sym.Analyzer()
    extents = [v.dom.extent for v in block.iter_vars if int(v.iter_type) == REDUCED]
    for var, _ in [pair for extent in extents for pair in mentions(extent).items()]:
        analyzer.update(var, sym.ConstIntBound(0, sym.ConstIntBound.POS_INF), True)
    return not all(analyzer.can_prove(extent > 0) for extent in extents)


def _reduces_all(block: Any) -> bool:
    """Whether a block reduces a nest of loops to one number."""
    long = [v for v in block.iter_vars if getattr(v.dom.extent, "value", None) != 1]
    return len(long) > 1 and all(int(v.iter_type) == REDUCED for v in long)


def _first_reduced(schedule: Any, block: Any) -> Any | None:
    """The outermost loop that a block reduces over; None if it reduces over none."""
    loops = schedule.get_loops(block)
    count = spatial_loops(schedule, block)
    return loops[count] if count < len(loops) else None


def spatial_loops(schedule: Any, block: Any) -> int:
    """How many loops around a block come before the first one that it reduces over."""
    node = schedule.get(block)
    realizes: list[Any] = []

    def note(part: Any) -> None:
        if part.block.same_as(node):
            realizes.append(part)

    tvm_ffi.structural_walk(schedule.mod["main"].body, (SBlockRealize, note))
    (realize,) = realizes
    kinds = [int(v.iter_type) for v in node.iter_vars]
    reduced = [mentions(e) for e, k in zip(realize.iter_values, kinds, strict=True) if k == REDUCED]
    variables = [schedule.get(loop).loop_var for loop in schedule.get_loops(block)]
    return next((k for k, var in enumerate(variables) if any(var in used for used in reduced)),
                len(variables))  # fmt: skip
