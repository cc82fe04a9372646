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
    for s in stages:
        for a in (*s.writes, *s.reads):
            if a.buffer not in found:
                found[a.buffer] = Layout.identity(len(a.shape))
    return found


def _settled(stage: Stage, stages: Sequence[Stage], found: Layouts, whole: bool) -> bool:
    """Set the layouts of buffers that a block writes, and return whether any was new."""
    new = False
    for w in stage.writes:
        if w.buffer in found:
            continue
        best = _best([*_from_reads(stage, w, found), *_from_readers(stages, w, found)], w, whole)
        if best is not None:
            found[w.buffer] = best
            new = True
    return new


@dataclass(frozen=True)
class _Candidate:
    layout: Layout
    aligned: int  # the number of aligned dimensions with more than one element
    rank: int


def _best(candidates: Sequence[_Candidate], w: BlockAccess, whole: bool) -> Layout | None:
    wanted = sum(e is not ONE for e in w.shape)
    fit = [c for c in candidates if not whole or c.aligned == wanted]
    if not fit:
        return None
    votes = [sum(c.layout == d.layout for d in fit) for c in fit]
    best = max(range(len(fit)), key=lambda k: (fit[k].aligned, fit[k].rank, votes[k], -k))
    return fit[best].layout


def _from_reads(stage: Stage, w: BlockAccess, found: Layouts) -> Iterator[_Candidate]:
    others = (a for a in (*stage.reads, *stage.writes) if not a.buffer.same_as(w.buffer))
    yield from _carried(others, w, found)


def _from_readers(stages: Iterable[Stage], w: BlockAccess, found: Layouts) -> Iterator[_Candidate]:
    for s in stages:
        for a in s.reads:
            if a.buffer.same_as(w.buffer):
                yield from _carried(s.writes, a, found)


def _carried(
    sources: Iterable[BlockAccess], to: BlockAccess, found: Layouts
) -> Iterator[_Candidate]:
    for a in sources:
        layout = found.get(a.buffer)
        if layout is not None:
            own, aligned = carried(a, layout, to)
            yield _Candidate(own, aligned, sum(e is not ONE for e in a.shape))


def carried(a: BlockAccess, layout: Layout, to: BlockAccess) -> tuple[Layout, int]:
    """The layout of ``to`` that follows that of ``a``, and the number of aligned dimensions.

    Dimensions without a counterpart in ``a`` are outermost.
    """
    pairs = _aligned(a, to)
    dims: list[Dim] = []
    for dim in layout.dims:
        digits = [d for k in dim for d in _digit(k, layout, a, to, pairs)]
        if digits:
            dims.append(tuple(digits))
    rest = [(Digit(b),) for b in range(len(to.shape)) if b not in pairs.values()]
    aligned = sum(to.shape[b] is not ONE for b in pairs.values())
    return Layout((*rest, *dims), pad_value=None), aligned


def _aligned(a: BlockAccess, to: BlockAccess) -> dict[int, int]:
    """For each dimension of ``a`` the one of ``to`` that has the same iterator."""
    pairs: dict[int, int] = {}
    for related in (_same, _share, _both):
        for i, p in enumerate(a.indices):
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
    d: Digit, layout: Layout, a: BlockAccess, to: BlockAccess, pairs: dict[int, int]
) -> list[Digit]:
    """The digit of ``to``, or its whole axis in place of the highest digit."""
    b = pairs.get(d.axis)
    if b is None:
        return []
    p, q = a.indices[d.axis], to.indices[b]
    if d.extent is None and d.div == 1:
        return [Digit(b)]
    extent, own = to.shape[b], a.shape[d.axis]
    tile = max(k.div for k in layout.digits if k.axis == d.axis)
    divides = extent.const is not None and extent.const % tile == 0
    if p is q and (extent is own or divides):
        return [Digit(b, d.div, d.extent)]
    return [Digit(b)] if d.extent is None else []
