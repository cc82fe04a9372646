"""Schedules that bind threads."""

from __future__ import annotations

from typing import Any

from .schedule_steps import Schedule, fused, kinds


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


THREADS = (threads, virtual_threads, cross_thread, rfactored_threads, cooperative_fetch)
