"""What a thread accumulates the terms of reductions of few terms in."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from .....analysis.blocks.loop_steps import LoopStep, Update
from .program.combiners import combinations, combiner
from .program.gpu_program import NoGpuSchedule, is_coupled
from .program.thread_loops import load, number


def accumulators(step: LoopStep) -> list[tuple[Update, Any, str]]:
    """Return the updates of a reduction, their initial values, and the types they are kept in."""
    if is_coupled(step):
        return [part for c in combinations(step)
                for part in zip(c.updates, c.starts, c.dtypes, strict=True)]  # fmt: skip
    return [(u, u.init, accumulator_dtype(u)) for u in step.updates]


def accumulator_dtype(update: Update) -> str:
    """Return the type in which a reduction is accumulated: float32 for sums of halves.

    Few maxima gain nothing in float32, as of a pool.
    """
    try:
        combine = combiner(update)
    except NoGpuSchedule:
        return str(update.buffer.ty.dtype)
    return combine.dtype if combine.kind is tirx.Add else str(update.buffer.ty.dtype)


def widened(update: Update, register: Any) -> Any:
    """Return the updated value over the register, which may have a wider type."""
    if str(register.ty.dtype) == str(update.buffer.ty.dtype):
        return update.value
    combine = combiner(update)
    return combine(load(register, number(0)), combine.term)
