"""Layouts of the buffers inside a PrimFunc, from those of its parameters.

Digits are carried from one buffer to another of the same block if both are indexed by the same
iterators. The buffers that the writer reads take precedence over those that readers write.

    x: NHWC,  pad[n, c, h, w] = x[n, c, h - 1, w - 1]   gives pad: NHWC
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...analysis.blocks.blocks import BlockAccess, Stage
from ...analysis.lifting.tir.node import NodeDict
from ...analysis.terms.term import ONE, ZERO, Int
from ...analysis.terms.traversal import free
from ...analysis.undo_layouts.tensor_access import coefficient
from ..model.digit import Digit
from ..model.layout import Dim, Layout

Layouts = NodeDict[Layout]


def spread(stages: Sequence[Stage], fixed: Layouts) -> Layouts:
    """The layouts of all buffers that the blocks access; those in ``fixed`` stay."""
    layouts: Layouts = NodeDict()
    for buffer, layout in fixed.items():
        layouts[buffer] = layout
    for all_aligned in (True, False):
        for _ in stages:
            if not any(_settle(s, stages, layouts, all_aligned) for s in stages):
                break
    for stage in stages:
        for access in (*stage.writes, *stage.reads):
            if access.buffer not in layouts:
                layouts[access.buffer] = Layout.identity(len(access.shape))
    return layouts


def _settle(stage: Stage, stages: Sequence[Stage], layouts: Layouts, all_aligned: bool) -> bool:
    """Set the layouts of buffers that a block writes, and return whether any was new."""
    new = False
    for access in stage.writes:
        if access.buffer in layouts:
            continue
        best = _best(
            [*_from_reads(stage, access, layouts), *_from_readers(stages, access, layouts)],
            access,
            all_aligned,
        )
        if best is not None:
            layouts[access.buffer] = best
            new = True
    return new


@dataclass(frozen=True)
class _Candidate:
    layout: Layout
    aligned: int  # the number of aligned dimensions with more than one element
    rank: int


def _best(
    candidates: Sequence[_Candidate], access: BlockAccess, all_aligned: bool
) -> Layout | None:
    wide_dims = sum(e is not ONE for e in access.shape)
    fit = [c for c in candidates if not all_aligned or c.aligned == wide_dims]
    if not fit:
        return None
    votes = [sum(c.layout == d.layout for d in fit) for c in fit]
    best = max(range(len(fit)), key=lambda k: (fit[k].aligned, fit[k].rank, votes[k], -k))
    return fit[best].layout


def _from_reads(stage: Stage, access: BlockAccess, layouts: Layouts) -> Iterator[_Candidate]:
    others = (a for a in (*stage.reads, *stage.writes) if not a.buffer.same_as(access.buffer))
    yield from _carried(others, access, layouts)


def _from_readers(
    stages: Iterable[Stage], written: BlockAccess, layouts: Layouts
) -> Iterator[_Candidate]:
    for stage in stages:
        for read in stage.reads:
            if read.buffer.same_as(written.buffer):
                yield from _carried(stage.writes, read, layouts)


def _carried(
    sources: Iterable[BlockAccess], to: BlockAccess, layouts: Layouts
) -> Iterator[_Candidate]:
    for access in sources:
        layout = layouts.get(access.buffer)
        if layout is not None:
            derived, aligned = carried(access, layout, to)
            yield _Candidate(derived, aligned, sum(e is not ONE for e in access.shape))


def carried(access: BlockAccess, layout: Layout, to: BlockAccess) -> tuple[Layout, int]:
    """The layout of ``to`` that follows that of ``access``, and the number of aligned dimensions.

    Dimensions without a counterpart in ``access`` are outermost.
    """
    pairs = _aligned(access, to)
    dims: list[Dim] = []
    for dim in layout.dims:
        digits = [d for k in dim for d in _digit(k, layout, access, to, pairs)]
        if digits:
            dims.append(tuple(digits))
    unmatched = [(Digit(b),) for b in range(len(to.shape)) if b not in pairs.values()]
    aligned = sum(to.shape[b] is not ONE for b in pairs.values())
    return Layout((*unmatched, *dims), pad_value=None), aligned


def _aligned(access: BlockAccess, to: BlockAccess) -> dict[int, int]:
    """The dimension of ``to`` with the same iterator, by dimension of ``access``."""
    pairs: dict[int, int] = {}
    for related in (_same, _share, _both):
        for i, source in enumerate(access.indices):
            for j, target in enumerate(to.indices):
                if source is None or target is None or i in pairs or j in pairs.values():
                    continue
                if related(source, target):
                    pairs[i] = j
    return pairs


def _same(first: Int, second: Int) -> bool:
    return first is second and first is not ZERO


def _both(first: Int, second: Int) -> bool:
    """Whether both indices have a common iterator, as in ``out[h] = x[h // 2]``."""
    return any(v.kind in ("loop", "reduce") for v in free(first) & free(second))


def _share(first: Int, second: Int) -> bool:
    """Whether both indices have a common iterator outside divisions."""
    common = (v for v in free(first) & free(second) if v.kind in ("loop", "reduce"))
    return any(all(coefficient(t, v) not in (None, ZERO) for t in (first, second)) for v in common)


def _digit(
    digit: Digit, layout: Layout, access: BlockAccess, to: BlockAccess, pairs: dict[int, int]
) -> list[Digit]:
    """The digit of ``to``, or its whole axis in place of the highest digit."""
    dim = pairs.get(digit.axis)
    if dim is None:
        return []
    source, target = access.indices[digit.axis], to.indices[dim]
    if digit.extent is None and digit.div == 1:
        return [Digit(dim)]
    extent, source_extent = to.shape[dim], access.shape[digit.axis]
    tile = max(k.div for k in layout.digits if k.axis == digit.axis)
    divides = extent.const is not None and extent.const % tile == 0
    if source is target and (extent is source_extent or divides):
        return [Digit(dim, digit.div, digit.extent)]
    return [Digit(dim)] if digit.extent is None else []
