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


def spread(stages: Sequence[Stage], known: Layouts) -> Layouts:
    """The layouts of all buffers that the blocks access; those in ``known`` are fixed."""
    found: Layouts = NodeDict()
    for buffer, layout in known.items():
        found[buffer] = layout
    for whole in (True, False):
        for _ in stages:
            if not any(_settled(s, stages, found, whole) for s in stages):
                break
    for stage in stages:
        for access in (*stage.writes, *stage.reads):
            if access.buffer not in found:
                found[access.buffer] = Layout.identity(len(access.shape))
    return found


def _settled(stage: Stage, stages: Sequence[Stage], found: Layouts, whole: bool) -> bool:
    """Set the layouts of buffers that a block writes, and return whether any was new."""
    new = False
    for access in stage.writes:
        if access.buffer in found:
            continue
        best = _best(
            [*_from_reads(stage, access, found), *_from_readers(stages, access, found)],
            access,
            whole,
        )
        if best is not None:
            found[access.buffer] = best
            new = True
    return new


@dataclass(frozen=True)
class _Candidate:
    layout: Layout
    aligned: int  # the number of aligned dimensions with more than one element
    rank: int


def _best(candidates: Sequence[_Candidate], access: BlockAccess, whole: bool) -> Layout | None:
    wanted = sum(e is not ONE for e in access.shape)
    fit = [c for c in candidates if not whole or c.aligned == wanted]
    if not fit:
        return None
    votes = [sum(c.layout == d.layout for d in fit) for c in fit]
    best = max(range(len(fit)), key=lambda k: (fit[k].aligned, fit[k].rank, votes[k], -k))
    return fit[best].layout


def _from_reads(stage: Stage, access: BlockAccess, found: Layouts) -> Iterator[_Candidate]:
    others = (a for a in (*stage.reads, *stage.writes) if not a.buffer.same_as(access.buffer))
    yield from _carried(others, access, found)


def _from_readers(stages: Iterable[Stage], w: BlockAccess, found: Layouts) -> Iterator[_Candidate]:
    for stage in stages:
        for a in stage.reads:
            if a.buffer.same_as(w.buffer):
                yield from _carried(stage.writes, a, found)


def _carried(
    sources: Iterable[BlockAccess], to: BlockAccess, found: Layouts
) -> Iterator[_Candidate]:
    for access in sources:
        layout = found.get(access.buffer)
        if layout is not None:
            own, aligned = carried(access, layout, to)
            yield _Candidate(own, aligned, sum(e is not ONE for e in access.shape))


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
    rest = [(Digit(b),) for b in range(len(to.shape)) if b not in pairs.values()]
    aligned = sum(to.shape[b] is not ONE for b in pairs.values())
    return Layout((*rest, *dims), pad_value=None), aligned


def _aligned(access: BlockAccess, to: BlockAccess) -> dict[int, int]:
    """For each dimension of ``access`` the one of ``to`` that has the same iterator."""
    pairs: dict[int, int] = {}
    for related in (_same, _share, _both):
        for i, p in enumerate(access.indices):
            for j, q in enumerate(to.indices):
                if p is None or q is None or i in pairs or j in pairs.values():
                    continue
                if related(p, q):
                    pairs[i] = j
    return pairs


def _same(p: Int, q: Int) -> bool:
    return p is q and p is not ZERO


def _both(p: Int, q: Int) -> bool:
    """Whether both indices have a common iterator, as in ``out[h] = x[h // 2]``."""
    return any(v.kind in ("loop", "reduce") for v in free(p) & free(q))


def _share(p: Int, q: Int) -> bool:
    """Whether both indices have a common iterator outside of divisions."""
    both = (v for v in free(p) & free(q) if v.kind in ("loop", "reduce"))
    return any(all(coefficient(t, v) not in (None, ZERO) for t in (p, q)) for v in both)


def _digit(
    digit: Digit, layout: Layout, access: BlockAccess, to: BlockAccess, pairs: dict[int, int]
) -> list[Digit]:
    """The digit of ``to``, or its whole axis in place of the highest digit."""
    b = pairs.get(digit.axis)
    if b is None:
        return []
    p, q = access.indices[digit.axis], to.indices[b]
    if digit.extent is None and digit.div == 1:
        return [Digit(b)]
    extent, own = to.shape[b], access.shape[digit.axis]
    tile = max(k.div for k in layout.digits if k.axis == digit.axis)
    divides = extent.const is not None and extent.const % tile == 0
    if p is q and (extent is own or divides):
        return [Digit(b, digit.div, digit.extent)]
    return [Digit(b)] if digit.extent is None else []
