"""The loop nest of one stage over the coordinates of the physical buffers.

Spatial iterators become the physical dimensions of the buffer that the block writes; a reduction
is split where an operand's layout packs what it runs over. The old iterators are terms over them:

    Before: for n, c, h, w: with block(v_n, v_c, v_h, v_w): out[v_n, v_c, v_h, v_w] = …
    After:  for n, C, h, w, c: with block(v_n, v_C, v_h, v_w, v_c): …   v_c = 4 * C + c     (NCHW4c)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import tvm_ffi
from tvm import tirx

from ...analysis.blocks.blocks import BlockAccess, Stage
from ...analysis.lifting.tir.from_tir import ExpressionReader
from ...analysis.lifting.tir.node import items
from ...analysis.terms.quotient import is_div
from ...analysis.terms.scalar import conj, ge0
from ...analysis.terms.term import (
    ONE,
    TRUE,
    ZERO,
    CallTerm,
    Int,
    Term,
    Var,
    as_int,
    integer,
    variable,
)
from ...analysis.terms.traversal import free, ints, subterms
from ...analysis.undo_layouts.tensor_access import coefficient
from ..access.inner import Layouts
from ..model.extents import literal, physical, term
from ..model.layout import Layout


@dataclass(frozen=True)
class Iterator:
    """A new iterator; ``stem`` is what its name in TVMScript is formed from."""

    var: Var
    stem: str

    @property
    def extent(self) -> Int:
        assert self.var.extent is not None
        return self.var.extent

    @property
    def reduced(self) -> bool:
        return self.var.kind == "reduce"


@dataclass(frozen=True)
class Loop:
    """A digit of an iterator: ``extent`` values, ``div`` apart."""

    iterator: Iterator
    extent: Int
    div: int = 1


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

    def placed(self, access: BlockAccess, layout: Layout) -> tuple[Int | None, ...]:
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
    block_nest = BlockNest(iterators, _unsplit(iterators), at, inside, padded, place)
    if not follow:
        return block_nest
    return replace(
        block_nest, loops=_loop_order(block_nest, stage, layouts, spatial, reduced, tile)
    )


def _unsplit(iterators: Sequence[Iterator]) -> tuple[Loop, ...]:
    return tuple(Loop(i, i.extent) for i in iterators)


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
    return BlockNest(tuple(iterators.values()), _unsplit([iterators[v] for v in loops]), at)


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


# ---------------------------------------------------------------------------- loop order


def _loop_order(
    block_nest: BlockNest,
    stage: Stage,
    layouts: Layouts,
    spatial: Sequence[Iterator],
    reduced: Sequence[Iterator],
    tile: bool,
) -> tuple[Loop, ...]:
    """Spatial loops in the order of memory, reductions in the order of what they run over.

    Reductions are outside the innermost spatial loop if it runs over neighbours in every access:
    its iterations are then independent and contiguous. In a grouped convolution, that loop runs
    over the channels of one group, and the loop over groups is outside.
    """
    reads = [block_nest.placed(a, layouts[a.buffer]) for a in stage.reads]
    reads = [r for r in reads if None not in r]
    reduced = _in_read_order(reduced, reads)
    wide = [s for s in spatial if s.extent is not ONE]
    if not reduced or not wide:
        return _unsplit([*spatial, *reduced])
    last = wide[-1]
    k = spatial.index(last)
    inner, groups = _unsplit(spatial[k:]), _unsplit(())
    if not all(_fastest(last.var, r) for r in reads):
        few, many = _grouped(last, reads)
        if few is ONE:
            return _unsplit([*spatial, *reduced])
        groups = (Loop(last, many, few.const or 0),)
        inner = (Loop(last, few), *inner[1:])
    if tile:
        return _tiled(spatial[:k], groups, reduced, inner)
    return (*_unsplit(spatial[:k]), *groups, *_unsplit(reduced), *inner)


def _grouped(iterator: Iterator, reads: Sequence[tuple[Int | None, ...]]) -> tuple[Int, Int]:
    """How many steps of an iterator run over neighbours in every access, and how often they do.

    pad[f // 16 * 8 + r], w[f, r]    16 at a time
    """
    extent = iterator.extent.const or 0
    atoms = (atom for r in reads for p in r if p is not None for atom in subterms(p))
    cuts = {
        as_int(atom.args[1]).const
        for atom in atoms
        if isinstance(atom, CallTerm) and is_div(atom) and atom.args[0] is as_int(iterator.var)
    }
    for few in sorted((c for c in cuts if c and extent % c == 0), reverse=True):
        high = variable("loop", "high", integer(extent // few))
        low = variable("loop", "low", integer(few))
        at = {iterator.var: as_int(high) * few + as_int(low)}
        parts = ([None if p is None else ints(p, at) for p in r] for r in reads)
        if all(_fastest(low, r) for r in parts):
            return integer(few), integer(extent // few)
    return ONE, iterator.extent


#: Elements that are in registers at a time: neighbours, and terms of a sum.
WIDTH, DEPTH = 8, 4


def _tiled(
    outer: Sequence[Iterator],
    groups: Sequence[Loop],
    reduced: Sequence[Iterator],
    inner: Sequence[Loop],
) -> tuple[Loop, ...]:
    """Some steps of the last outer loop and of the last reduction go inside of the inner loops.

    Each element of an operand that is loaded is then used more than once:

        for w, r, c:  out[w, c] += x[w, r] * y[r, c]
        for w_0, r_0, c, w_1, r_1:  the same with w = 7 * w_0 + w_1 and r = 4 * r_0 + r_1
    """
    inside: list[Loop] = []
    around: list[list[Loop]] = []
    for part, most in ((outer, WIDTH), (reduced, DEPTH)):
        wide = [i for i in part if i.extent is not ONE]
        loops = list(_unsplit(part))
        few = _divisor(wide[-1].extent, most) if wide else 1
        if few > 1:
            at, steps = part.index(wide[-1]), integer((wide[-1].extent.const or 0) // few)
            loops[at : at + 1] = [] if steps is ONE else [Loop(wide[-1], steps, few)]
            inside.append(Loop(wide[-1], integer(few)))
        around.append(loops)
    return (*around[0], *groups, *around[1], *inner, *inside)


def _divisor(extent: Int, most: int) -> int:
    """The largest divisor up to ``most``; 1 if the extent is unknown."""
    size = extent.const
    return 1 if size is None else max(d for d in range(1, most + 1) if size % d == 0)


def _in_read_order(
    reduced: Sequence[Iterator], reads: Sequence[tuple[Int | None, ...]]
) -> list[Iterator]:
    """The reductions in the order of the dimensions of the operand that most of them run over."""

    def places(read: tuple[Int | None, ...]) -> dict[Var, int]:
        return {v: d for d, p in enumerate(read) if p is not None for v in free(p)}

    dims = max(map(places, reads), default={}, key=lambda p: sum(r.var in p for r in reduced))
    return sorted(reduced, key=lambda iterator: dims.get(iterator.var, -1))


def _fastest(var: Var, index: Sequence[Int | None]) -> bool:
    """Whether an access goes to the next element with ``var``, or does not depend on it."""
    dims = [k for k, p in enumerate(index) if p is not None and var in free(p)]
    if not dims:
        return True
    poly = index[-1]
    return dims == [len(index) - 1] and poly is not None and coefficient(poly, var) is ONE
