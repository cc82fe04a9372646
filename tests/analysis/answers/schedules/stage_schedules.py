"""Schedules that add, move or change stages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx

from .schedule_steps import Schedule, kinds


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


STAGES = (
    cached_shared, cached_inside, decomposed, rfactored, rfactored_split, computed_at,
    computed_at_tile, reverse_computed_at, inlined, reverse_inlined, blockized,
    blockized_decomposed, aligned, pipelined, block_relaid, stage_relaid, padded_einsum, reindexed,
    padding_decomposed,
)  # fmt: skip
