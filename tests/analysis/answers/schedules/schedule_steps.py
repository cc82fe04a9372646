"""What schedules are made of: a fresh schedule, its blocks and their loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import s_tir

from opinfo.analysis.support.ir.deep_copy import copied

Schedule = Any
FAILS = (RuntimeError, ValueError, IndexError, TypeError, AssertionError)


def fresh(func: Any) -> Schedule:
    """A schedule of a copy: a Schedule may change bodies that it shares."""
    own = copied(func).with_attr("global_symbol", "main")
    return s_tir.Schedule(tvm.IRModule({"main": own}))


def blocks(s: Schedule) -> list[Any]:
    return list(s.get_child_blocks(s.get_sblock("root")))


def kinds(s: Schedule, block: Any) -> tuple[list[Any], list[Any]]:
    """Spatial and reduction loops of a block whose iterators are its loops in order."""
    loops, iters = s.get_loops(block), s.get(block).iter_vars
    if len(loops) != len(iters):
        raise ValueError("not one loop an iterator")
    pairs = list(zip(loops, iters, strict=True))
    spatial = [loop for loop, iv in pairs if int(iv.iter_type) == 0]
    return spatial, [loop for loop, iv in pairs if int(iv.iter_type) == 2]


def each(step: Callable[[Schedule, Any], object]) -> Callable[[Schedule], None]:
    """A step for every block that it applies to; at least one."""

    def apply(s: Schedule) -> None:
        done = 0
        for name in [s.get(b).name_hint for b in blocks(s)]:
            try:
                step(s, s.get_sblock(name))
                done += 1
            except FAILS:
                continue
        if not done:
            raise ValueError("applies to no block")

    apply.__name__ = step.__name__.strip("_")
    return apply


def fused(s: Schedule, b: Any) -> Any:
    spatial, _ = kinds(s, b)
    return s.fuse(*spatial) if len(spatial) > 1 else spatial[0]
