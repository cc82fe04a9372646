"""Schedules that apply to any PrimFunc: what TVM can make of a legalised operator.

Each is a function of a fresh ``Schedule`` that changes it in place; a block that a step does not
apply to is left out. ``SPACES`` are generators of several schedules: dlight's rules and the design
spaces of meta_schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tvm
from tvm import s_tir, tirx
from tvm.s_tir import dlight, meta_schedule

from opinfo.analysis.support.deep_copy import copied

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


# ------------------------------------------------------------------------------- loops


def split_all(s: Schedule, b: Any) -> None:
    for loop in s.get_loops(b):
        s.split(loop, [None, 3])


def split_reorder(s: Schedule, b: Any) -> None:
    halves = [s.split(loop, [None, 4]) for loop in s.get_loops(b)]
    s.reorder(*(h[0] for h in halves), *(h[1] for h in reversed(halves)))


def split_twice(s: Schedule, b: Any) -> None:
    parts = [s.split(loop, [None, 2, 5]) for loop in s.get_loops(b)]
    s.reorder(*(p[k] for k in (0, 2, 1) for p in parts))


def fuse_split(s: Schedule, b: Any) -> None:
    s.split(fused(s, b), [None, 7])


def fuse_split_vector(s: Schedule, b: Any) -> None:
    outer, inner = s.split(fused(s, b), [None, 4])
    s.parallel(outer)
    s.vectorize(inner)


def fuse_reduction(s: Schedule, b: Any) -> None:
    _, reduced = kinds(s, b)
    s.split(s.fuse(*reduced) if len(reduced) > 1 else reduced[0], [None, 5])


def parallel_vector(s: Schedule, b: Any) -> None:
    spatial, reduced = kinds(s, b)
    s.reorder(*spatial[:-1], *reduced, spatial[-1])
    s.vectorize(spatial[-1])
    if len(spatial) > 1:
        s.parallel(spatial[0])


def unrolled(s: Schedule, b: Any) -> None:
    s.unroll(s.get_loops(b)[-1])


def reduction_outside(s: Schedule, b: Any) -> None:
    spatial, reduced = kinds(s, b)
    s.reorder(*reduced, *spatial)
    if not reduced:
        raise ValueError("no reduction")


def unit_loops(s: Schedule, b: Any) -> None:
    s.add_unit_loop(b)
    s.add_unit_loop(s.get_loops(b)[-1])


def partitioned(s: Schedule, b: Any) -> None:
    s.loop_partition(s.get_loops(b)[-1], [2, None])


# ------------------------------------------------------------------------------- stages


def cached_shared(s: Schedule, b: Any) -> None:
    for k in range(len(s.get(b).reads)):
        s.cache_read(b, k, "shared")
    s.cache_write(b, 0, "local")


def cached_inside(s: Schedule, b: Any) -> None:
    spatial, reduced = kinds(s, b)
    halves = [s.split(loop, [None, 4]) for loop in (*spatial, *reduced)]
    s.reorder(*(h[0] for h in halves), *(h[1] for h in halves))
    at = halves[-1][0]
    for k in range(len(s.get(b).reads)):
        s.compute_at(s.cache_read(b, k, "shared"), at)
    s.reverse_compute_at(s.cache_write(b, 0, "local"), halves[len(spatial) - 1][0])


def decomposed(s: Schedule, b: Any) -> None:
    _, reduced = kinds(s, b)
    s.decompose_reduction(b, reduced[0])


def rfactored(s: Schedule, b: Any) -> None:
    _, reduced = kinds(s, b)
    s.rfactor(reduced[-1], 0)


def rfactored_split(s: Schedule, b: Any) -> None:
    _, reduced = kinds(s, b)
    _, inner = s.split(reduced[-1], [None, 5])
    s.rfactor(inner, 0)


def computed_at(s: Schedule, b: Any) -> None:
    (consumer,) = s.get_consumers(b)
    s.compute_at(b, s.get_loops(consumer)[1])


def computed_at_tile(s: Schedule, b: Any) -> None:
    (consumer,) = s.get_consumers(b)
    loop = s.get_loops(consumer)[1]
    outer, _ = s.split(loop, [None, 3])
    s.compute_at(b, outer)


def reverse_computed_at(s: Schedule, b: Any) -> None:
    (producer,) = s.get_producers(b)
    s.reverse_compute_at(b, s.get_loops(producer)[1])


def inlined(s: Schedule, b: Any) -> None:
    s.compute_inline(b)


def reverse_inlined(s: Schedule, b: Any) -> None:
    s.reverse_compute_inline(b)


def blockized(s: Schedule, b: Any) -> None:
    halves = [s.split(loop, [None, 2]) for loop in s.get_loops(b)]
    s.reorder(*(h[0] for h in halves), *(h[1] for h in halves))
    s.blockize(halves[0][1])


def blockized_decomposed(s: Schedule, b: Any) -> None:
    spatial, reduced = kinds(s, b)
    halves = [s.split(loop, [None, 2]) for loop in (*spatial, *reduced)]
    s.reorder(*(h[0] for h in halves), *(h[1] for h in halves))
    outer = s.blockize(halves[0][1])
    s.decompose_reduction(outer, halves[len(spatial)][0])


def aligned(s: Schedule, b: Any) -> None:
    s.storage_align(b, 0, -1, 4, 1)
    s.annotate(b, "double_buffer_scope", 0)
    s.set_scope(b, 0, "shared")


def pipelined(s: Schedule, b: Any) -> None:
    loop = s.get_loops(b)[0]
    s.annotate(loop, "software_pipeline_stage", [0, 1])
    s.annotate(loop, "software_pipeline_order", [0, 1])
    s.annotate(loop, "pragma_auto_unroll_max_step", 16)


def block_relaid(s: Schedule, b: Any) -> None:
    n = len(s.get(b).iter_vars)
    s.transform_block_layout(b, _map(n, lambda *i: (i[0], *reversed(i[1:]))))


def stage_relaid(s: Schedule, b: Any) -> None:
    if not s.get_consumers(b):
        raise ValueError("an output")
    n = len(s.get(b).writes[0].region)
    s.transform_layout(b, ("write", 0), _map(n, lambda *i: (*i[1:], i[0])))


def _map(rank: int, fn: Callable[..., Any]) -> Any:
    return tirx.IndexMap.from_func(fn, ndim=rank)


def padded_einsum(s: Schedule, b: Any) -> None:
    s.pad_einsum(b, [4] * len(s.get(b).iter_vars))


def reindexed(s: Schedule, b: Any) -> None:
    s.reindex(b, ("read", 0))
    s.reindex(b, ("write", 0))


def padding_decomposed(s: Schedule, b: Any) -> None:
    s.decompose_padding(b, s.get_loops(b)[0])


# ------------------------------------------------------------------------------- threads


def threads(s: Schedule, b: Any) -> None:
    outer, inner = s.split(fused(s, b), [None, 32])
    s.bind(outer, "blockIdx.x")
    s.bind(inner, "threadIdx.x")


def virtual_threads(s: Schedule, b: Any) -> None:
    outer, middle, inner = s.split(fused(s, b), [None, 2, 8])
    s.bind(outer, "blockIdx.x")
    s.bind(middle, "vthread.x")
    s.bind(inner, "threadIdx.x")


def cross_thread(s: Schedule, b: Any) -> None:
    _, reduced = kinds(s, b)
    s.bind(fused(s, b), "blockIdx.x")
    _, inner = s.split(reduced[-1], [None, 4])
    s.bind(inner, "threadIdx.x")


def rfactored_threads(s: Schedule, b: Any) -> None:
    name = s.get(b).name_hint
    _, reduced = kinds(s, b)
    s.bind(fused(s, b), "blockIdx.x")
    _, inner = s.split(reduced[-1], [None, 4])
    partial = s.rfactor(inner, 0)
    s.bind(s.get_loops(s.get_sblock(name))[-1], "threadIdx.x")
    s.set_scope(partial, 0, "local")
    s.reverse_compute_at(s.get_sblock(name), s.get_loops(partial)[0])


def cooperative_fetch(s: Schedule, b: Any) -> None:
    """Threads fetch a tile of each operand into shared memory, then each computes its elements."""
    spatial, reduced = kinds(s, b)
    i = s.fuse(*spatial[:-1])
    (i0, i1), (j0, j1) = s.split(i, [None, 4]), s.split(spatial[-1], [None, 4])
    k0, k1 = s.split(reduced[0], [None, 4])
    s.reorder(i0, j0, i1, j1, k0, k1, *reduced[1:])
    s.bind(i0, "blockIdx.y")
    s.bind(j0, "blockIdx.x")
    s.bind(i1, "threadIdx.y")
    s.bind(j1, "threadIdx.x")
    s.reverse_compute_at(s.cache_write(b, 0, "local"), j1)
    for k in range(len(s.get(b).reads)):
        stage = s.cache_read(b, k, "shared")
        s.compute_at(stage, k0)
        depth = len(s.get_loops(b)) - len(reduced)
        loops = s.get_loops(stage)[5:]
        _, y, x, v = s.split(s.fuse(*loops), [None, 4, 4, 2])
        s.bind(y, "threadIdx.y")
        s.bind(x, "threadIdx.x")
        s.vectorize(v)
        assert depth
    s.decompose_reduction(b, k0)


LOOPS = (
    split_all, split_reorder, split_twice, fuse_split, fuse_split_vector, fuse_reduction,
    parallel_vector, unrolled, reduction_outside, unit_loops, partitioned,
)  # fmt: skip
STAGES = (
    cached_shared, cached_inside, decomposed, rfactored, rfactored_split, computed_at,
    computed_at_tile, reverse_computed_at, inlined, reverse_inlined, blockized,
    blockized_decomposed, aligned, pipelined, block_relaid, stage_relaid, padded_einsum, reindexed,
    padding_decomposed,
)  # fmt: skip
THREADS = (threads, virtual_threads, cross_thread, rfactored_threads, cooperative_fetch)
SCHEDULES = {step.__name__: each(step) for step in (*LOOPS, *STAGES, *THREADS)}

# ------------------------------------------------------------------------------- generators

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
