"""How many vectors a thread has along an axis that some of their operands do not depend on.

    y[n, p, c] = x[n, p, c] * sigmoid(s[n, c])                the function is called once
    y[n, p, c] = (x[n, p, c] - m[n, c]) * r[n, c] * w[c]      three of four operands are read once

Each vector of the second needs 16 bytes of x and 80 of the others, from the cache. An instance norm
of 64 MiB takes 35.3 us of an H200 with one vector a thread, and 33.6 with two or four. A scale of
channels takes 16.0 us with one, 15.1 with two and 16.4 with four.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi

from .....analysis.blocks.loop_steps import Axis
from .....analysis.blocks.tir import is_guard, loads, mentions
from .....analysis.lifting.tir.node import NodeDict, substitute
from .aligned_steps import AlignedSteps
from .program.gpu_program import itemsize
from .program.merged_axes import MergedAxes, bound, simplified

#: The most vectors of a thread, and threads that fill a GPU.
MOST, ENOUGH = 2, 132 * 512


def sharing(aligned: AlignedSteps, groups: MergedAxes, vectors: int) -> tuple[int, int]:
    """The group of axes along which a thread has several vectors, and how many.

    It has one, unless some call depends on other groups only, or most bytes that are loaded do.
    """
    if any(s.reduced for s in aligned.steps):
        return 0, 1
    updates = [(s, u) for s in aligned.steps for u in s.updates]
    analyzer = bound(aligned.axes)
    parts = [simplified(substitute(e, aligned.renamed(s)), analyzer)
             for s, u in updates for e in aligned.parts(u)]  # fmt: skip
    called = [mentions(e) for part in parts for e in functions(part)]
    stored = sum(itemsize(u.buffer) for _, u in updates)
    for k, group in enumerate(groups.groups[:-1]):
        apart = any(len(u.items()) and not _along(group, u) for u in called)
        if not apart and not _reads_again(parts, group, groups.groups[-1], stored):
            continue
        for times in range(MOST, 1, -1):
            if groups.sizes[k] % times == 0 and vectors // times >= ENOUGH:
                return k, times
    return 0, 1


def functions(expr: Any) -> list[Any]:
    """The calls of functions in an expression."""
    nodes: list[Any] = []
    tvm_ffi.structural_walk(expr, (tvm.ir.Call, nodes.append))
    return [e for e in nodes if not is_guard(e)]


def _reads_again(
    parts: list[Any], group: tuple[Axis, ...], inner: tuple[Axis, ...], stored: int
) -> bool:
    """Whether vectors along a group would load more again than they load and store anew.

    ``stored`` are the bytes of an element's results.
    """
    again, anew = 0, stored
    seen: list[Any] = []
    for expr in (e for part in parts for e in loads(part)):
        used = mentions(expr)
        if not _along(inner, used) or any(tvm_ffi.structural_equal(e, expr) for e in seen):
            continue  # all lanes have one load
        seen.append(expr)
        if _along(group, used):
            anew += itemsize(expr.source)
        else:
            again += itemsize(expr.source)
    return again > anew


def _along(group: tuple[Axis, ...], used: NodeDict[None]) -> bool:
    """Whether an axis of a group is among variables."""
    return any(a.var in used for a in group)
