"""The loop nest of one stage over the coordinates of the physical buffers.

Spatial iterators become the physical dimensions of the buffer that the block writes; a reduction
is split where an operand's layout packs what it runs over. The old iterators are terms over them:

    Before: for n, c, h, w: with block(v_n, v_c, v_h, v_w): out[v_n, v_c, v_h, v_w] = …
    After:  for n, C, h, w, c: with block(v_n, v_C, v_h, v_w, v_c): …   v_c = 4 * C + c     (NCHW4c)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import tvm_ffi
from tvm import tirx

from ...analysis.blocks.blocks import BlockAccess, Stage
from ...analysis.lifting.tir.from_tir import ExpressionReader
from ...analysis.lifting.tir.node import items
from ...analysis.terms.condition_terms import conj, ge0
from ...analysis.terms.term import ONE, TRUE, ZERO, Int, Term, Var, as_int, integer, variable
from ...analysis.terms.traversal import free, ints
from ...analysis.undo_layouts.tensor_access import coefficient
from ..access.inner_layouts import Layouts
from ..model.extents import literal, physical, term
from ..model.layout import Layout
from .loop_order import Index, Iterator, Loop, in_memory_order, unsplit


@dataclass(frozen=True)
class BlockNest:
    """Iterators in the block's order, loops in theirs, the old iterators as terms over the new.

    ``inside`` holds where the element that is stored, at ``place``, is one of the logical buffer;
    ``place`` is None where the old iterators are kept.
    """

    iterators: tuple[Iterator, ...]
    loops: tuple[Loop, ...]
    at: dict[Var, Int]
    inside: Term = TRUE
    padded: frozenset[Var] = field(default_factory=frozenset)
    place: tuple[Int, ...] | None = None

    def placed(self, access: BlockAccess, layout: Layout) -> Index:
        """The physical indices of an access; all None if a moved one depends on data."""
        index = tuple(None if p is None else ints(p, self.at) for p in access.indices)
        if layout.is_identity or any(p is None for p in index):
            return index if layout.is_identity else (None,) * len(layout.dims)
        return tuple(layout.forward(index, literal(access.shape)))


def nest(
    stage: Stage,
    layouts: Layouts,
    reader: ExpressionReader,
    follow: bool = True,
    tile: bool = False,
) -> BlockNest:
    """The nest that follows the layouts; ``follow`` also orders and splits reductions by them.

    ``tile`` also splits loops so that a few elements are in registers at a time.

    Iterators of extent 1 stay, as TVM's fusion wants an iterator for each coordinate of a store.
    """
    first = stage.writes[0]
    layout = layouts[first.buffer]
    if not _direct(stage, first):
        return _unchanged(stage)
    shape = literal(first.shape)
    spatial = tuple(
        Iterator(variable("loop", f"p{d}", poly), f"ax{d}")
        for d, poly in enumerate(physical(first.shape, layout))
    )
    place = tuple(as_int(s.var) for s in spatial)
    logical = tuple(map(term, layout.backward(place, shape)))
    at: dict[Var, Int] = {v: ZERO for v in stage.axes}
    inside: Term = TRUE
    padded: frozenset[Var] = frozenset()
    for var, value, extent in zip(_stored(stage, reader), logical, first.shape, strict=True):
        bound = ge0(extent - 1 - value)
        if bound is not TRUE:
            inside = conj(inside, bound)
            padded |= free(value)
        if var is not None and (bound is TRUE or extent is not ONE):
            at[var] = value
    reduced = [r for v in stage.axes if v.kind == "reduce"
               for r in _split(v, stage, layouts, at, follow)]  # fmt: skip
    iterators = (*spatial, *reduced)
    block_nest = BlockNest(iterators, unsplit(iterators), at, inside, padded, place)
    if not follow:
        return block_nest
    reads = [block_nest.placed(a, layouts[a.buffer]) for a in stage.reads]
    return replace(block_nest, loops=in_memory_order(spatial, reduced, reads, tile))


def _stored(stage: Stage, reader: ExpressionReader) -> list[Var | None]:
    """The iterator at each coordinate of the block's first store."""
    stores: list[Any] = []
    tvm_ffi.structural_walk(stage.block.body, (tirx.BufferStore, stores.append))
    index = [reader.index(i).atom for i in items(stores[0].indices)]
    return [p if isinstance(p, Var) else None for p in index]


def _direct(stage: Stage, access: BlockAccess) -> bool:
    """Whether every element is written by one iteration, with the spatial iterators as index."""
    used = [poly.atom for poly in access.indices if poly is not None and isinstance(poly.atom, Var)]
    spatial = [v for v in stage.axes if v.kind != "reduce" and v.extent is not ONE]
    covered = all(
        extent is ONE
        if poly is ZERO
        else poly is not None and isinstance(poly.atom, Var) and poly.atom.extent is extent
        for poly, extent in zip(access.indices, access.shape, strict=True)
    )
    same_element = all(
        write.indices == access.indices and write.shape == access.shape for write in stage.writes
    )
    written = {write.buffer.__chandle__() for write in stage.writes}
    scans = any(a.buffer.__chandle__() in written for a in stage.reads)
    return (
        covered
        and same_element
        and not scans
        and len(used) == len(spatial)
        and set(used) == set(spatial)
    )


def _unchanged(stage: Stage) -> BlockNest:
    """The nest with the old iterators and loops."""
    stems = {v: iv.var.name for v, iv in zip(stage.axes, stage.block.iter_vars, strict=True)}
    iterators = {v: Iterator(v, stems[v]) for v in stage.axes}
    at = {v: as_int(v) for v in stage.axes}
    loops = dict.fromkeys(v for v, _ in stage.order)
    return BlockNest(tuple(iterators.values()), unsplit([iterators[v] for v in loops]), at)


# ---------------------------------------------------------------------------- reductions


def _split(
    var: Var, stage: Stage, layouts: Layouts, at: dict[Var, Int], follow: bool
) -> list[Iterator]:
    """The digits of a reduction, from the highest; ``at`` gets its value."""
    assert var.extent is not None
    stem = next(iv.var.name for a, iv in zip(stage.axes, stage.block.iter_vars, strict=True)
                if a is var)  # fmt: skip
    cuts = _cuts(var, stage, layouts) if follow else []
    if not cuts:
        at[var] = as_int(var)
        return [Iterator(var, stem)]
    out = []
    at[var] = ZERO
    above = var.extent.const or 0
    for k, cut in enumerate((*cuts, 1)):
        digit = Iterator(
            variable("reduce", f"{var.name}_{k}", integer(above // cut)), f"{stem}_{k}"
        )
        if digit.extent is not ONE:
            at[var] = at[var] + as_int(digit.var) * cut
            out.append(digit)
        above = cut
    return out


def _cuts(var: Var, stage: Stage, layouts: Layouts) -> list[int]:
    """The place values, highest first, at which the layouts of reads split the reduction."""
    extent = var.extent.const if var.extent is not None else None
    divisors: set[int] = set()
    for access in stage.reads:
        for digit in layouts[access.buffer].digits:
            poly = access.indices[digit.axis]
            if poly is not None and digit.div > 1 and coefficient(poly, var) is ONE:
                divisors.add(digit.div)
    cuts = sorted((c for c in divisors if extent and c < extent and extent % c == 0), reverse=True)
    return [c for k, c in enumerate(cuts) if all(a % b == 0 for a, b in pairwise(cuts[: k + 1]))]
