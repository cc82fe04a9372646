"""Layout flow: from the layouts of some buffers of a PrimFunc to those of the others.

The loops of a block have an order; an access is local if the buffer is laid out in that order. So
the layout of one buffer gives the order of the loops that its access carries (push forward), and an
order gives the layouts of the other buffers (pull back).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ...analysis.blocks.blocks import BlockAccess, Stage, Standard, standard
from ..model.align import AlignedDim, Unaligned, pieces, to_dims, to_loops
from ..model.digit import Digit
from ..model.digit_orders import agree, complete, merged
from ..model.layout import Layout


@dataclass(frozen=True)
class AlignedAccess:
    """An access of a block to a buffer, with the digits that its loops carry.

    ``broadcast``: loops over dimensions that the operand broadcasts, where its extent is 1.
    """

    buffer: int
    aligned: tuple[AlignedDim, ...]
    rank: int
    broadcast: tuple[AlignedDim, ...] = ()

    def loops(self, layout: Layout) -> list[Digit]:
        return to_loops(layout.digits, self.aligned)

    def layout(self, order: Sequence[Digit], template: Layout | None) -> Layout:
        if self.broadcast:
            with suppress(Unaligned):  # a split over an extent of 1 does not matter
                return self._complete(order, (*self.aligned, *self.broadcast), template)
        return self._complete(order, self.aligned, template)

    def _complete(
        self, order: Sequence[Digit], aligned: tuple[AlignedDim, ...], template: Layout | None
    ) -> Layout:
        dims = to_dims(order, aligned)
        distinct = list(dict.fromkeys(dims))  # two loops may carry one digit
        return complete(distinct, self.rank, template)


@dataclass(frozen=True)
class BlockAccesses:
    """The accesses of a block, writes first."""

    writes: tuple[AlignedAccess, ...]
    reads: tuple[AlignedAccess, ...]
    axes: int
    reduced: frozenset[int]

    @property
    def all(self) -> tuple[AlignedAccess, ...]:
        return (*self.writes, *self.reads)


Layouts = dict[int, Layout]


@dataclass(frozen=True)
class BlockGraph:
    """The blocks of a PrimFunc over numbered buffers: tensor parameters, then inner buffers.

    ``params`` has the buffer of each parameter; None for scalars.
    """

    steps: tuple[BlockAccesses, ...]
    ranks: tuple[int, ...]
    params: tuple[int | None, ...]
    written: frozenset[int]
    cache: dict[tuple[tuple[int, Layout], ...], Layouts | None] = field(
        default_factory=dict, compare=False, repr=False
    )

    def spread(self, seeds: Mapping[int, Layout]) -> Layouts | None:
        """The layouts of all buffers that keep every access local, from those of some; or None."""
        key = tuple(sorted(seeds.items(), key=lambda s: s[0]))
        if key not in self.cache:
            try:
                self.cache[key] = self._spread(seeds)
            except Unaligned:
                self.cache[key] = None
        return self.cache[key]

    def _spread(self, seeds: Mapping[int, Layout]) -> Layouts:
        layouts = dict(seeds)
        template = next((s for s in seeds.values() if s.permutation is not None), None)
        for _ in range(len(self.steps) + 1):
            before = len(layouts)
            for accesses in (*self.steps, *reversed(self.steps)):
                self._through(accesses, layouts, template)
            if len(layouts) == before:
                break
        for buffer, rank in enumerate(self.ranks):
            identity = Layout.identity(rank)
            layouts.setdefault(buffer, template if template and template.rank == rank else identity)
        for accesses in self.steps:
            order = self.order(accesses, layouts, seeds)
            for access in accesses.all:
                if not agree(order, access.loops(layouts[access.buffer]), accesses.reduced):
                    raise Unaligned(f"buffer {access.buffer} is not read in the order of the loops")
        return layouts

    def _through(self, accesses: BlockAccesses, layouts: Layouts, template: Layout | None) -> None:
        """Extend known layouts to the other buffers of a block."""
        sources = [p for p in accesses.all if p.buffer in layouts]
        if not sources or len(sources) == len(accesses.all):
            return
        order: list[Digit] = []
        for access in sources:
            order = merged(order, access.loops(layouts[access.buffer]))
        for access in accesses.all:
            if access.buffer not in layouts:
                try:
                    layouts[access.buffer] = access.layout(order, template)
                except Unaligned:
                    layouts[access.buffer] = access.layout(order, None)

    def order(
        self, accesses: BlockAccesses, layouts: Layouts, first: Mapping[int, Layout] | None = None
    ) -> Any:
        """The order of a block's loops: of its writes, then of its reads from ``first`` buffers."""
        order: list[Digit] = []
        chosen = [a for a in accesses.writes if a.buffer in layouts]
        inner = set(range(len(self.ranks))) - set(self.params)
        chosen += [
            a for a in accesses.reads if first is None or a.buffer in first or a.buffer in inner
        ]
        for access in chosen:
            order = merged(order, access.loops(layouts[access.buffer]))
        natural = [Digit(a) for a in range(accesses.axes)]
        return merged(order, natural)

    def admits(
        self, layouts: Layouts, buffer: int, layout: Layout, first: Mapping[int, Layout]
    ) -> bool:
        """Whether a read-only buffer may have ``layout`` if the others have ``layouts``."""
        for accesses in self.steps:
            reads = [p for p in accesses.reads if p.buffer == buffer]
            if reads:
                order = self.order(accesses, layouts, first)
                try:
                    if not all(agree(order, p.loops(layout), accesses.reduced) for p in reads):
                        return False
                except Unaligned:
                    return False
        return True

    @cached_property
    def outputs(self) -> tuple[int, ...]:
        return tuple(b for b in self.params if b is not None and b in self.written)

    @cached_property
    def inputs(self) -> tuple[int, ...]:
        return tuple(b for b in self.params if b is not None and b not in self.written)


def flow(func: Any, form: Callable[[Any], Standard] = standard) -> BlockGraph:
    """The flow of a PrimFunc. Raises `Opaque` if it has none."""
    stages, _ = form(func)
    number: dict[int, int] = {}
    params: list[int | None] = []
    for param in func.params:
        is_buffer = hasattr(param.ty, "shape")
        params.append(number.setdefault(param.__chandle__(), len(number)) if is_buffer else None)
    ranks = {k: len(p.ty.shape) for p, k in zip(func.params, params, strict=True) if k is not None}

    def place(stage: Stage, access: BlockAccess) -> AlignedAccess:
        k = number.setdefault(access.buffer.__chandle__(), len(number))
        ranks[k] = len(access.indices)
        aligned = (
            piece
            for d, index in enumerate(access.indices)
            for piece in pieces(index, d, stage.axes, stage.reduced)
        )
        return AlignedAccess(k, tuple(aligned), len(access.indices))

    steps = []
    for stage in stages:
        writes = tuple(place(stage, a) for a in stage.writes)
        reads = tuple(_broadcast(place(stage, a), a, writes) for a in stage.reads)
        reduced = frozenset(k for k, v in enumerate(stage.axes) if v in stage.reduced)
        steps.append(BlockAccesses(writes, reads, len(stage.axes), reduced))
    written = frozenset(p.buffer for s in steps for p in s.writes)
    return BlockGraph(
        tuple(steps), tuple(ranks[k] for k in range(len(ranks))), tuple(params), written
    )


def _broadcast(
    read: AlignedAccess, access: BlockAccess, writes: Sequence[AlignedAccess]
) -> AlignedAccess:
    """A read with the loops over the dimensions that it broadcasts.

    In ``out[n, c, h, w] = x[n, c, h, w] * y[c, 0, 0]``, these are h and w.
    """
    ones = [k for k, i in enumerate(access.indices) if i is not None and i.const is not None]
    if len(writes) != 1 or not ones:
        return read
    missing = writes[0].rank - read.rank
    carried = {p.dim.axis - missing: p.loop for p in writes[0].aligned}
    if any(p.loop != carried.get(p.dim.axis) for p in read.aligned):
        return read
    broadcast = (AlignedDim(Digit(k), carried[k], exact=False) for k in ones if k in carried)
    return replace(read, broadcast=tuple(broadcast))
