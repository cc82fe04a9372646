"""Divide the loops of what stays with TVM among threads.

    Before: for n, c, h, w in T.grid(1, 64, 56, 56):                    y[n, c, h, w] = …
    After:  for nc in T.parallel(64):  for h, w in T.grid(56, 56):      y[…] = …

TVM's default build runs them in one thread. Where the rest of a model has two, a tenth of its time
becomes a fifth.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.s_tir import ScheduleError

from ...analysis.blocks.tir import static
from ...analysis.support.tvm_compat import SBlockRealize
from .start_reductions import spatial_loops

#: TVM's attribute of PrimFuncs that were scheduled.
SCHEDULED = "tirx.is_scheduled"
#: The fewest iterations that are worth it: dividing a loop takes as long as some thousands.
FEWEST = 1 << 15
#: Iterations of a divided loop for each thread, so that all end at about the same time.
EACH = 4


def parallel_loops(mod: Any, cores: int) -> Any:
    """Return the module with its long loops divided among threads; ``mod`` is not changed.

    Args:
        mod: A module of Relax functions and PrimFuncs with static shapes; others stay serial.
        cores: The number of threads that will run it.
    """
    out = mod.clone()
    for gvar, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc) and (other := _divided(func, cores)) is not None:
            out.update_func(gvar, other)
    return out


def _divided(func: Any, cores: int) -> Any | None:
    """The PrimFunc with its long loops divided; None if it has none."""
    if not isinstance(func.body, SBlockRealize) or bool((func.attrs or {}).get(SCHEDULED, False)):
        return None
    if _iterations(func) < FEWEST:
        return None
    schedule = s_tir.Schedule(tvm.IRModule({"main": func}))
    blocks = schedule.get_child_blocks(schedule.get_sblock(func.body.block.name_hint))
    changed = [_divide(schedule, block, cores) for block in blocks]
    return schedule.mod["main"].with_attrs(func.attrs) if any(changed) else None


def _iterations(func: Any) -> int:
    """A bound of the iterations of each nest of loops, for which no schedule is needed."""
    extents: list[int] = []
    tvm_ffi.structural_walk(func.body, (tirx.For, lambda f: extents.append(static(f.extent) or 1)))
    return prod(map(partial(max, 1), extents))


def _divide(schedule: Any, block: Any, cores: int) -> bool:
    """Divide the outer loops of a block if they are long; return whether they were divided."""
    loops = schedule.get_loops(block)
    extents = [static(schedule.get(loop).extent) for loop in loops]
    if prod(e or 0 for e in extents) < FEWEST:  # or unknown
        return False
    outer = extents[: spatial_loops(schedule, block)]
    count = _outer([e for e in outer if e], EACH * cores)
    if count == 0:
        return False
    try:
        schedule.parallel(schedule.fuse(*loops[:count]) if count > 1 else loops[0])
    except ScheduleError:  # another block is in the loops, or iterations depend on each other
        return False
    return True


def _outer(extents: Sequence[int], enough: int) -> int:
    """How many outer loops have enough iterations together; 0 if all have one."""
    sizes = [prod(extents[: k + 1]) for k in range(len(extents))]
    if not sizes or sizes[-1] == 1:
        return 0
    return next((k + 1 for k, size in enumerate(sizes) if size >= enough), len(sizes))
