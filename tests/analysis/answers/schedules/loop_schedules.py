"""Schedules that change loops."""

from __future__ import annotations

from typing import Any

from .schedule_steps import Schedule, fused, kinds


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


LOOPS = (
    split_all, split_reorder, split_twice, fuse_split, fuse_split_vector, fuse_reduction,
    parallel_vector, unrolled, reduction_outside, unit_loops, partitioned,
)  # fmt: skip
