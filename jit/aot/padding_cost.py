"""Whether a padded bucket is worth its copies and its work, and from which sizes on.

Padding 3 rows to 8 costs nothing that one sees, and to 2**36 it fails, where the generic kernel
beside it serves at once. What it costs is told at the worst, from 1 on: at the bucket less at 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx

from ...analysis import Refusal
from ..dims.symbolic_dims import bind
from ..kernels.workspace import itemsize
from ..padding import Padded

#: Bytes that padding may take at all: a request must not fail for memory that it does not need.
COPIES = 256 << 20
#: What costs 0.2 ms or less by a schedule, so that all sizes are served: bytes, runs of statements.
FREE_COPIES, FREE_RUNS = 1 << 20, 1 << 23
#: Beyond that, how many times larger than the size it serves a padded dimension is at most.
FACTOR = 4
#: Bytes of a tensor beyond what a machine addresses, where 64 bits do not hold the arithmetic.
ADDRESSED = 1 << 48


def lowest(func: Any, bound: Any, values: Mapping[str, int],
           padded: Sequence[Padded]) -> dict[str, int] | Refusal:  # fmt: skip
    """The smallest value of each padded dimension for which ``bound``, which is ``func`` at these
    values, is worth padding to."""
    if not padded:
        return {}
    small = bind(func, {**values, **{p.name: 1 for p in padded}})
    copies = sum(map(size, buffers(bound))) - sum(map(size, buffers(small)))
    if copies > COPIES:
        return Refusal(f"padding takes {copies} bytes, allowed are {COPIES}")
    free = copies <= FREE_COPIES and runs(bound.body) - runs(small.body) <= FREE_RUNS
    return {p.name: 1 if free else -(-values[p.name] // FACTOR) for p in padded}


def buffers(func: Any) -> list[Any]:
    """Those that are passed and those that are allocated."""
    found = [p for p in func.params if tirx.is_buffer_var(p)]
    tvm_ffi.structural_walk(func.body, [
        (s_tir.SBlock, lambda s: found.extend(s.alloc_buffers)),
        (tirx.AllocBuffer, lambda s: found.append(s.buffer)),
    ])  # fmt: skip
    return found


def size(b: Any) -> int:
    """Bytes; an extent that is not a number counts once."""
    return math.prod(map(_number, b.ty.shape)) * itemsize(b)


def runs(s: Any) -> int:
    """How often statements are run; a loop whose extent is not a number counts once."""
    if isinstance(s, tirx.For):
        return _number(s.extent) * runs(s.body)
    if isinstance(s, tirx.SeqStmt):
        return sum(map(runs, s.seq))
    if isinstance(s, tirx.IfThenElse):
        return runs(s.then_case) + (runs(s.else_case) if s.else_case is not None else 0)
    inside = s.block if isinstance(s, s_tir.SBlockRealize) else getattr(s, "body", None)
    return 1 if inside is None else runs(inside)


def _number(e: Any) -> int:
    return int(e.value) if isinstance(e, tirx.IntImm) else 1
