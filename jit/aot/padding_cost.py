"""Decide whether a padded bucket is worth its copies and work, and from which sizes.

Padding 3 rows to 8 costs nothing measurable. Padding them to 2**36 fails, although the generic
kernel would serve at once. The cost is taken at the worst case, padding from 1 to the bucket.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx

from ...analysis import Refusal
from ...byoc.dims.symbolic_dims import bind
from ..kernels.workspace import itemsize
from ..padding import PaddingProof

#: Limit on padding in bytes: a request must not fail for memory that it does not need.
COPIES = 256 << 20
#: Bytes and statement executions that cost at most 0.2 ms: below these, every size is padded.
FREE_COPIES, FREE_RUNS = 1 << 20, 1 << 23
#: Beyond that, the largest ratio of a padded extent to the extent it serves.
FACTOR = 4
#: Bytes beyond the address space of any machine, where 64-bit index arithmetic overflows.
ADDRESSED = 1 << 48


def lowest(func: Any, bound: Any, values: Mapping[str, int],
           padded: Sequence[PaddingProof]) -> dict[str, int] | Refusal:  # fmt: skip
    """Return the smallest value of each padded dimension that is worth padding to ``values``.

    ``bound`` is ``func`` at ``values``.
    """
    if not padded:
        return {}
    small = bind(func, {**values, **{p.name: 1 for p in padded}})
    copies = sum(map(size, buffers(bound))) - sum(map(size, buffers(small)))
    if copies > COPIES:
        return Refusal(f"padding copies {copies} bytes, expected at most {COPIES}")
    free = copies <= FREE_COPIES and runs(bound.body) - runs(small.body) <= FREE_RUNS
    return {p.name: 1 if free else -(-values[p.name] // FACTOR) for p in padded}


def buffers(func: Any) -> list[Any]:
    """Return the buffers that a function is passed or allocates."""
    all_buffers = [p for p in func.params if tirx.is_buffer_var(p)]
    tvm_ffi.structural_walk(func.body, [
        (s_tir.SBlock, lambda s: all_buffers.extend(s.alloc_buffers)),
        (tirx.AllocBuffer, lambda s: all_buffers.append(s.buffer)),
    ])  # fmt: skip
    return all_buffers


def size(buffer: Any) -> int:
    """Return the size of a buffer in bytes; a symbolic extent counts as 1."""
    return math.prod(map(_number, buffer.ty.shape)) * itemsize(buffer)


def runs(stmt: Any) -> int:
    """Count statement executions; a loop with a symbolic extent counts once."""
    if isinstance(stmt, tirx.For):
        return _number(stmt.extent) * runs(stmt.body)
    if isinstance(stmt, tirx.SeqStmt):
        return sum(map(runs, stmt.seq))
    if isinstance(stmt, tirx.IfThenElse):
        return runs(stmt.then_case) + (runs(stmt.else_case) if stmt.else_case is not None else 0)
    inside = stmt.block if isinstance(stmt, s_tir.SBlockRealize) else getattr(stmt, "body", None)
    return 1 if inside is None else runs(inside)


def _number(expr: Any) -> int:
    return int(expr.value) if isinstance(expr, tirx.IntImm) else 1
