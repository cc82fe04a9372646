"""Apply random schedule steps to a PrimFunc, which preserve its result."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import tvm
from tvm.s_tir import Schedule

from ..analysis.support.ir.deep_copy import copied
from ..analysis.support.tvm_compat import SBlockRealize

Step = Callable[[Schedule, Any, random.Random], object]


def reschedule(func: tvm.tirx.PrimFunc, seed: int, steps: int = 4) -> tvm.tirx.PrimFunc:
    """Return the function after some steps; steps that do not apply are skipped.

    It schedules a copy, because a Schedule may modify shared bodies.
    """
    rng = random.Random(seed)
    copy = copied(func)
    if not isinstance(copy.body, SBlockRealize):
        return copy  # plain loops cannot be scheduled
    root = copy.body.block.name_hint
    sch = Schedule(tvm.IRModule({"main": copy}))
    for _ in range(steps):
        blocks = sch.get_child_blocks(sch.get_sblock(root))
        try:
            rng.choice(STEPS)(sch, rng.choice(blocks), rng)
        except (RuntimeError, ValueError, IndexError):
            continue
    return sch.mod["main"]


def _split(sch: Schedule, block: Any, rng: random.Random) -> None:
    sch.split(rng.choice(sch.get_loops(block)), [None, rng.choice((2, 3, 4))])


def _fuse(sch: Schedule, block: Any, rng: random.Random) -> None:
    loops = sch.get_loops(block)
    at = rng.randrange(len(loops) - 1)
    sch.fuse(loops[at], loops[at + 1])


def _reorder(sch: Schedule, block: Any, rng: random.Random) -> None:
    loops = sch.get_loops(block)
    sch.reorder(*rng.sample(loops, len(loops)))


def _vectorize(sch: Schedule, block: Any, rng: random.Random) -> None:
    sch.vectorize(sch.get_loops(block)[-1])


def _parallel(sch: Schedule, block: Any, rng: random.Random) -> None:
    sch.parallel(sch.get_loops(block)[0])


def _unroll(sch: Schedule, block: Any, rng: random.Random) -> None:
    sch.unroll(rng.choice(sch.get_loops(block)))


def _inline(sch: Schedule, block: Any, rng: random.Random) -> None:
    sch.compute_inline(block)


def _cache_read(sch: Schedule, block: Any, rng: random.Random) -> None:
    sch.cache_read(block, 0, "local")


def _cache_write(sch: Schedule, block: Any, rng: random.Random) -> None:
    sch.cache_write(block, 0, "local")


STEPS: tuple[Step, ...] = (
    *(_split, _split, _fuse, _fuse, _reorder, _reorder),
    *(_vectorize, _parallel, _unroll, _inline, _cache_read, _cache_write),
)
