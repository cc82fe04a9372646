"""Whether and how the terms of a reduction are divided among blocks of threads.

for r, c: s += x[r, c]                    parts over a digit of r; rows of a part are contiguous
for c; r: s[c] += x[r, c]                 parts over a digit of r; lanes are columns
for n, g; p, c: s[n, g] += x[n, p, g, c]  parts over a digit of p, and over c, which makes lanes
for n; c: s[n] += x[n, c]                 one part, if each total is for much more than its terms
for n, p, c: y[n, p, c] = z[n, p, c] * s[n]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .....analysis.blocks.loop_steps import Axis, LoopStep
from .....analysis.blocks.strides import strided_access
from .....analysis.blocks.tir import loads, static
from .....analysis.lifting.tir.node import items
from ..schedules.program.gpu_program import (
    GpuProgram,
    NoGpuSchedule,
    extents,
    has_windows,
    itemsize,
    product,
    value_parts,
)
from ..schedules.program.merged_axes import bound

#: Bytes that the memory of a GPU, a block of threads, and a block of columns move in a microsecond:
#: a block of columns is for 32 bytes of a row.
MEMORY, BLOCK, COLUMNS = 3e6, 6e4, 1.8e4
#: Microseconds that one more kernel of a CUDA graph costs, and what must be gained by it.
LAUNCH, GAIN = 2.0, 1.15
#: Bytes that are read together: shorter runs of rows waste the rest.
RUN = 64
#: Blocks that fill a GPU well, the bytes that a block should read at least, and those that it can
#: keep beside other blocks, to read them again.
BLOCKS, LEAST, KEPT = 528, 16 * 1024, 64 * 1024
#: What follows a reduction moves so many times the bytes of its terms, if a row is not the same for
#: both. A block of TVM's kernel for them then moves these bytes in a microsecond.
MUCH, UNEVEN = 8, 4e3
#: Rows side by side that one block of a kernel of columns has, in bytes.
SIDE = 512


@dataclass(frozen=True)
class SplitPlan:
    """How a reduction is divided.

    Attributes:
        digits: For each reduced axis, how many parts it is divided into. If all are 1, the
            reduction is a kernel of its own, and what follows is another one.
        across: The reduced axes along which terms are contiguous, kept apart to be lanes.
        order: The axes of parts from the slowest to the fastest in memory: spatial axes, reduced
            ones of more than one part, and those of ``across``.
    """

    digits: tuple[int, ...]
    across: tuple[Axis, ...]
    order: tuple[Axis, ...]

    @property
    def divides(self) -> bool:
        """Whether there is more than one part."""
        return product(self.digits) > 1 or bool(self.across)


def split_plan(program: GpuProgram, step: LoopStep) -> SplitPlan | None:
    """Return the plan of a reduction that should not be one kernel with what follows it, or None.

    Raises:
        NoGpuSchedule: Its terms overlap, or its accesses are not understood.
    """
    parts = [e for u in step.updates for e in value_parts(u, program.definitions)]
    if has_windows(step, parts):
        raise NoGpuSchedule("windows of a reduction overlap")
    steps, size = _strides(program, step, parts)
    terms, rows = product(extents(step.reduced)), product(extents(step.spatial))
    inner = _contiguous(step, steps)
    kept = _across(step, steps, inner, size)
    lanes = not inner or bool(kept)
    after = _after(program, terms * rows, size)
    read = terms * rows * size
    total = read + after
    apart = after > MUCH * read
    now = total / (rows * UNEVEN) if apart else _now(rows, total, inner, lanes, size, bool(kept))
    if now < GAIN * (total / MEMORY + (2 if after else 1) * LAUNCH):
        return None
    across = product(extents(kept))
    digits = _digits(step, steps, kept, _parts(rows * across, terms // across, lanes, size))
    if product(digits) == 1 and not apart:
        return None
    place = {id(a): s for a, s in zip(step.axes, steps, strict=True)}
    cut = [a for a, d in zip(step.reduced, digits, strict=True) if d > 1]
    order = sorted([*step.spatial, *cut, *kept], key=lambda a: -place[id(a)])
    return SplitPlan(digits, kept, tuple(order))


def _strides(program: GpuProgram, step: LoopStep, parts: Sequence[Any]) -> tuple[list[int], int]:
    """The stride of each axis in the largest tensor that is read, and the bytes of an element."""
    reads = [e for part in parts for e in loads(part)
             if e.source in program.params and len(items(e.source.ty.shape))]  # fmt: skip
    if not reads:
        raise NoGpuSchedule("a reduction reads no tensor")
    largest = max(reads, key=lambda e: product([static(n) or 1 for n in e.source.ty.shape]))
    analyzer = bound(step.axes)
    access = strided_access(
        largest.source, items(largest.indices), [a.var for a in step.axes], analyzer
    )
    steps = []
    for axis in step.axes:
        if static(axis.extent) == 1:
            steps.append(0)
            continue
        one = access.step(axis.var)
        if one is None or one < 0:
            raise NoGpuSchedule("a reduction reads at computed places")
        steps.append(one)
    return steps, itemsize(largest.source)


def _contiguous(step: LoopStep, steps: Sequence[int]) -> list[Axis]:
    """The reduced axes along which terms are contiguous, the fastest first."""
    out: list[Axis] = []
    run, contiguous = 1, True
    while contiguous:
        contiguous = False
        for axis, stride in zip(step.axes, steps, strict=True):
            if axis.reduced and stride == run and static(axis.extent) != 1:
                out.append(axis)
                run *= static(axis.extent) or 1
                contiguous = True
                break
    return out


def _across(
    step: LoopStep, steps: Sequence[int], inner: Sequence[Axis], size: int
) -> tuple[Axis, ...]:
    """The contiguous reduced axes, if they are short and spatial axes go on where they end."""
    run = product(extents(inner))
    spatial = [s for a, s in zip(step.axes, steps, strict=True) if not a.reduced]
    return tuple(inner) if inner and run * size < RUN and run in spatial else ()


def _after(program: GpuProgram, terms: int, size: int) -> int:
    """Bytes that steps with results for all terms move, as the normalisation after the sums does.

    In one kernel they have no more blocks than the reduction.
    """
    results = [(product(extents(s.spatial)), u.buffer) for s in program.steps if not s.reduced
               for u in s.updates if u.buffer in program.params]  # fmt: skip
    return sum(n * (size + itemsize(buffer)) for n, buffer in results if n >= terms)


def _now(
    rows: int, total: int, inner: Sequence[Axis], lanes: bool, size: int, wasteful: bool
) -> float:
    """Microseconds of one kernel that moves ``total`` bytes."""
    rate = max(1, rows * size // 32) * COLUMNS if lanes and not wasteful else rows * BLOCK
    waste = 2 * RUN / (product(extents(inner)) * size) if wasteful else 1.0
    return max(total / MEMORY, total / rate) * max(1.0, waste)


def _parts(rows: int, terms: int, lanes: bool, size: int) -> int:
    """How many parts of each row fill a GPU."""
    blocks = max(1, rows * size // SIDE) if lanes else rows
    most = max(1, terms * rows * size // LEAST // blocks)
    fewest = 1 if lanes else terms * size // KEPT
    return max(1, min(BLOCKS // blocks, most), fewest)


def _digits(
    step: LoopStep, steps: Sequence[int], kept: Sequence[Axis], parts: int
) -> tuple[int, ...]:
    """Divide the slowest axes into ``parts`` parts, or nearly as many."""
    place = {id(a): s for a, s in zip(step.axes, steps, strict=True)}
    digits = {id(a): 1 for a in step.reduced}
    free = [a for a in step.reduced if not any(a is k for k in kept)]
    for axis in sorted(free, key=lambda a: -place[id(a)]):
        extent = static(axis.extent) or 1
        if extent <= parts:
            digits[id(axis)] = extent
            parts //= extent
            continue
        digits[id(axis)] = nearest(extent, parts)
        break
    return tuple(digits[id(a)] for a in step.reduced)


def nearest(extent: int, parts: int) -> int:
    """The divisor of an extent that is nearest to a number of parts; else the number itself."""
    if parts <= 1:
        return 1
    near = [d for d in range(max(2, parts // 2), min(extent, 2 * parts) + 1) if extent % d == 0]
    return min(near, key=lambda d: max(d / parts, parts / d), default=parts)
