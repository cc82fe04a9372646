"""Sums of what the threads of a block of columns have, which is in shared memory.

s_part[p, r]                                  of thread p, for row r
s_of[g, r] = sum of s_part[p, r] over a p of each group g
s_sum[r] = sum of s_of[g, r] over g
"""

from __future__ import annotations

from typing import Any

from ......analysis.blocks.tir import seq
from ..program.thread_loops import THREAD, load, local, number, store, thread_loop, unrolled, when


def added_parts(
    part: Any, total: Any, init: Any, combine: Any, threads: int
) -> tuple[Any, list[Any]]:
    """Return the statement that sets the total of each row, and the buffers that it needs.

    Groups of threads add up parts first, one thread of each row the groups.

    Args:
        part: The parts, (parts, rows).
        total: The totals, (rows,).
        init: What totals start from.
        combine: The `Combiner`.
        threads: How many threads the block has.
    """
    (parts, rows), groups = (int(n) for n in part.ty.shape), 1
    while groups * 2 * rows <= threads and groups * groups * 4 <= parts:
        groups *= 2
    if groups == 1:
        whole, acc = _added(total, 1, part, init, combine, threads)
        return whole, [acc]
    middle = local(f"{total.name}_of", [groups, rows], combine.dtype, "shared")
    first, one = _added(middle, groups, part, init, combine, threads)
    second, two = _added(total, 1, middle, init, combine, threads)
    return seq([first, second]), [middle, one, two]


def _added(
    to: Any, groups: int, part: Any, init: Any, combine: Any, threads: int
) -> tuple[Any, Any]:
    """``to[g, r]``, or ``to[r]``, as the total of a group of the parts of a row; the register."""
    rows, parts = int(part.ty.shape[1]), int(part.ty.shape[0]) // groups
    acc = local(f"{to.name}_acc", [1], combine.dtype)
    zero = number(0)

    def one(place: Any) -> Any:
        group, row = place // number(rows), place % number(rows)
        at = [group, row] if groups > 1 else [place]
        first = group * number(parts) if groups > 1 else zero
        body = unrolled("p", parts, lambda p: store(acc, combine(
            load(acc, zero), load(part, first + p, at[-1])), zero))  # fmt: skip
        return seq([store(acc, init, zero), body, store(to, load(acc, zero), *at)])

    def thread(x: Any) -> Any:
        out, count = [], groups * rows
        for k in range(-(-count // threads)):
            at = x if k == 0 else number(k * threads) + x
            inside = at < number(count) if (k + 1) * threads > count else None
            out.append(when(inside, one(at)))
        return seq(out)

    return thread_loop(THREAD, threads, thread), acc
