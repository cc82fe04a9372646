"""Schedules that dlight's rules and the design spaces of meta_schedule generate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tvm
from tvm.s_tir import dlight, meta_schedule

from .schedule_steps import FAILS, fresh

CUDA = {"kind": "cuda", "arch": "sm_80", "max_threads_per_block": 1024, "thread_warp_size": 32,
        "max_shared_memory_per_block": 49152}  # fmt: skip
LLVM = {"kind": "llvm", "num-cores": 4}


def _rules() -> dict[str, tuple[Any, Any]]:
    gpu, cpu = dlight.gpu, dlight.cpu
    found = {f"gpu.{c.__name__}": (c(), CUDA) for c in (
        gpu.Matmul, gpu.GEMV, gpu.LowBatchGEMV, gpu.Reduction, gpu.RMSNorm, gpu.Transpose,
        gpu.GeneralReduction, gpu.Fallback,
    ) if c is not gpu.LowBatchGEMV}  # fmt: skip
    found |= {f"cpu.{c.__name__}": (c(), LLVM) for c in (cpu.GEMV, cpu.Reduction)}
    return found


def by_dlight(func: Any) -> Iterator[tuple[str, Any]]:
    """What each rule of dlight that applies makes of a function."""
    for name, (rule, target) in _rules().items():
        where = tvm.target.Target(target)
        own = fresh(func).mod["main"]
        try:
            with where:
                found = rule.apply(own, where, False)
        except (*FAILS, AssertionError, AttributeError, KeyError):
            continue
        if found is not None:
            for s in found if isinstance(found, list) else [found]:
                yield f"dlight.{name}", s.mod["main"]


def by_meta_schedule(func: Any) -> Iterator[tuple[str, Any]]:
    """The post-order-apply design spaces for CPU and GPU, one random sample each."""
    for target in (LLVM, CUDA):
        where = tvm.target.Target(target)
        mod = fresh(func).mod
        try:
            context = meta_schedule.TuneContext(
                mod=mod, target=where, space_generator="post-order-apply", num_threads=1,
                rand_state=7,
            )  # fmt: skip
            space = context.generate_design_space()
        except FAILS:
            continue
        for n, s in enumerate(space):
            for post in context.space_generator.postprocs or ():
                try:
                    if not post.apply(s):
                        break
                except FAILS:
                    break
            yield f"meta_schedule.{where.kind.name}.{n}", s.mod["main"]
