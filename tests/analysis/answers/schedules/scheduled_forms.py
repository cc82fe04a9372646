"""Schedules that apply to any PrimFunc: what TVM can make of a legalised operator.

Each of ``SCHEDULES`` changes a fresh ``Schedule`` in place; a block that a step does not apply to
is left out. Rules of dlight and design spaces of meta_schedule generate further ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tvm
from tvm import s_tir, tirx

from .generated_schedules import by_dlight, by_meta_schedule
from .loop_schedules import LOOPS
from .schedule_steps import FAILS, each, fresh
from .stage_schedules import STAGES
from .thread_schedules import THREADS

SCHEDULES = {step.__name__: each(step) for step in (*LOOPS, *STAGES, *THREADS)}


def lowered(func: Any, *passes: Any) -> Any:
    """A function after some of TVM's lowering passes."""
    mod = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    return tvm.transform.Sequential(list(passes))(mod)["main"]


def _lowerings() -> dict[str, tuple[Any, ...]]:
    t = s_tir.transform
    blocks_gone = (
        t.LowerInitBlock(), t.PlanAndUpdateBufferAllocationLocation(), t.ConvertBlocksToOpaque(),
        t.LiftThreadBinding(), t.CompactBufferAllocation(), t.UnifyThreadBinding(),
        t.LowerMatchBuffer(),
    )  # fmt: skip
    opaque = (*blocks_gone, t.LowerOpaqueBlock())
    flat = (*opaque, tirx.transform.FlattenBuffer())
    return {
        "compacted": blocks_gone,
        "blocks lowered": opaque,
        "flattened": flat,
        "vectorized": (*flat, tirx.transform.VectorizeLoop()),
        "unrolled": (
            *flat, tirx.transform.VectorizeLoop(), t.InjectVirtualThread(),
            tirx.transform.UnrollLoop(), tirx.transform.StmtSimplify(), tirx.transform.RemoveNoOp(),
        ),
    }  # fmt: skip


def forms(func: Any, lowering: bool = True) -> Iterator[tuple[str, Any]]:
    """Every scheduled form, by name; those that TVM refuses to make are left out."""
    for name, schedule in SCHEDULES.items():
        s = fresh(func)
        try:
            schedule(s)
        except FAILS:
            continue
        yield name, s.mod["main"]
    yield from by_dlight(func)
    yield from by_meta_schedule(func)
    if lowering:
        yield from _lowered_forms(func)


TO_LOWER = ("parallel_vector", "fuse_split_vector", "cached_inside", "threads", "blockized")


def _lowered_forms(func: Any) -> Iterator[tuple[str, Any]]:
    for name in TO_LOWER:
        s = fresh(func)
        try:
            SCHEDULES[name](s)
        except FAILS:
            continue
        for kind, passes in _lowerings().items():
            try:
                yield f"{name}, {kind}", lowered(s.mod["main"], *passes)
            except FAILS:
                continue
