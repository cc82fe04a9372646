"""Divide the loops of what stays with TVM among threads.

    Before: for n, c, h, w in T.grid(1, 64, 56, 56):                    y[n, c, h, w] = …
    After:  for nc in T.parallel(64):  for h, w in T.grid(56, 56):      y[…] = …

TVM's default build runs them in one thread. Where the rest of a model has two, a tenth of its time
becomes a fifth.

TVM's `Schedule.parallel` trusts a block that calls an axis spatial, though `out[idx[vi]] = x[vi]`
and `out[vi % 256] = x[vi]` write an element in several iterations. It also trusts a block that does
not declare its reads, though `out[vi] = out[vi - 1] + x[vi]` needs the iteration before. So a loop
is divided only if its variable is an index of everything that the loop writes, and the same index
wherever the loop reads that.
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

from ....analysis.blocks.tir import static
from ....analysis.support.tvm_compat import SBlock, SBlockRealize, TensorLoad, source_of
from .split_branches import has_views
from .start_reductions import spatial_loops

#: TVM's attribute of PrimFuncs that were scheduled.
SCHEDULED = "tirx.is_scheduled"
#: TVM's number for serial loops.
SERIAL = 0
#: TVM's attributes of code that runs once in each of several threads.
THREADS = ("thread_extent", "virtual_thread")
#: TVM's attribute of loops after which the threads of a parallel loop wait for each other.
BARRIER = "pragma_parallel_barrier_when_finish"
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


def has_barriers(mod: Any) -> bool:
    """Whether parallel loops of the module wait for each other's threads."""
    marks: list[bool] = []

    def annotated(part: Any) -> None:
        marks.append(BARRIER in part.annotations)

    def attribute(part: Any) -> None:
        marks.append(str(part.attr_key) == BARRIER)

    parts = [(tirx.For, annotated), (SBlock, annotated), (tirx.AttrStmt, attribute)]
    for func in mod.functions.values():
        if isinstance(func, tirx.PrimFunc):
            tvm_ffi.structural_walk(func.body, parts)
    return any(marks)


def _divided(func: Any, cores: int) -> Any | None:
    """The PrimFunc with its long loops divided; None if it has none."""
    if not isinstance(func.body, SBlockRealize) or bool((func.attrs or {}).get(SCHEDULED, False)):
        return None
    if _iterations(func) < FEWEST or _scheduled(func) or has_views(func):
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


def _scheduled(func: Any) -> bool:
    """Whether the PrimFunc has loops that are not serial, or binds threads."""
    marks: list[bool] = []

    def loop(part: Any) -> None:
        marks.append(int(part.kind) != SERIAL or part.thread_binding is not None)

    def attribute(part: Any) -> None:
        marks.append(str(part.attr_key) in THREADS)

    tvm_ffi.structural_walk(func.body, [(tirx.For, loop), (tirx.AttrStmt, attribute)])
    return any(marks)


def _divide(schedule: Any, block: Any, cores: int) -> bool:
    """Divide the outer loops of a block if they are long; return whether they were divided."""
    loops = schedule.get_loops(block)
    extents = [static(schedule.get(loop).extent) for loop in loops]
    if prod(e or 0 for e in extents) < FEWEST:  # or unknown
        return False
    outer = extents[: spatial_loops(schedule, block)]
    count = _outer([e for e in outer if e], EACH * cores)
    if count == 0 or not _writes_apart(schedule, block, loops[:count]):
        return False
    try:
        schedule.parallel(schedule.fuse(*loops[:count]) if count > 1 else loops[0])
    except ScheduleError:  # another block is in the loops, or iterations depend on each other
        return False
    return True


def _writes_apart(schedule: Any, block: Any, loops: Sequence[Any]) -> bool:
    """Whether different iterations of the loops write different elements.

    Sufficient, not necessary: the loops contain this block only, and each loop's variable is bound
    to an axis that is, in all stores to a buffer and in all loads of it, the same index of it.
    """
    realizes: list[Any] = []
    stores: list[Any] = []
    reads: list[Any] = []
    calls: list[Any] = []  # which may write anything
    parts = [(SBlockRealize, realizes), (tirx.BufferStore, stores), (tirx.Evaluate, calls),
             (TensorLoad, reads)]  # fmt: skip
    tvm_ffi.structural_walk(schedule.get(loops[0]), [(kind, x.append) for kind, x in parts])
    if len(realizes) != 1 or not stores or calls or schedule.get(block).match_buffers:
        return False
    (realize,) = realizes
    axes = [v.var for v in realize.block.iter_vars]
    for loop in map(schedule.get, loops):
        if static(loop.extent) == 1:
            continue
        bound = [a for a, e in zip(axes, realize.iter_values, strict=True)
                 if e.same_as(loop.loop_var)]  # fmt: skip
        if not any(_indexes(axis, stores, reads) for axis in bound):
            return False
    return True


def _indexes(axis: Any, stores: Sequence[Any], reads: Sequence[Any]) -> bool:
    """Whether all accesses to a buffer that is written have the axis as the same index of it."""
    accesses = [(s.buffer, s.indices) for s in stores] + [(source_of(r), r.indices) for r in reads]
    return all(
        set.intersection(*(
            {k for k, index in enumerate(indices) if index.same_as(axis)}
            for buffer, indices in accesses if buffer.same_as(first.buffer)
        ))
        for first in stores
    )  # fmt: skip


def _outer(extents: Sequence[int], enough: int) -> int:
    """How many outer loops have enough iterations together; 0 if all have one."""
    sizes = [prod(extents[: k + 1]) for k in range(len(extents))]
    if not sizes or sizes[-1] == 1:
        return 0
    return next((k + 1 for k, size in enumerate(sizes) if size >= enough), len(sizes))
