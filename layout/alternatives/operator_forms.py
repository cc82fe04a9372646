"""The layouts in which a PrimFunc is still its Relax operator, from its access functions.

A matrix product may have any loop over its result as a batch dimension, and an operand that lacks
the loop has an extent of 1 there:

    out[t, n] = Σ_k x[t, k] * w[k, n]                   n = 64 * h + d, out in the order h, t, d
    out[h, t, d] = Σ_k x[1, t, k] * w[h, k, d]          relax.matmul

An elementwise operator broadcasts operands in the same way:

    out[t, n] = x[t, n] + b[n]                          out in the order h, t, d
    out[h, t, d] = x[h, t, d] + b[h, 1, d]              relax.add
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..access.flow import AlignedAccess, BlockAccesses, BlockGraph
from ..model.align import Unaligned, to_dims, to_loops
from ..model.digit import Digit
from ..model.layout import Layout

Shape = Sequence[Any]
Loops = Sequence[Digit]
Dims = Sequence[Loops]
BufferLayouts = Mapping[int, Layout]
"""The layout of each buffer of a PrimFunc."""
Free = Collection[int]
"""Buffers whose layouts cost nothing."""


@dataclass(frozen=True)
class Elementwise:
    """One block whose reads are elements of its result, or are broadcast to them.

    ``shapes`` has the shape of each buffer.
    """

    block: BlockAccesses
    shapes: Sequence[Shape]

    def orders(self, known: Iterable[tuple[int, Layout]]) -> list[Loops]:
        """The orders of the loops that are summed: none is."""
        return [()]

    def of_result(self, out: Layout, summed: Loops, free: Free) -> Iterator[BufferLayouts]:
        """The layouts of all buffers if the result has the layout ``out``."""
        (write,) = self.block.writes
        loops = _loop_dims(out, write, self.shapes)
        layouts = {write.buffer: out}
        for read in self.block.reads:
            layout = laid_out(loops, read, self.shapes)
            if layout is None:
                return
            layouts[read.buffer] = layout
        yield layouts

    def results(self, buffer: int, layout: Layout) -> Iterator[Layout]:
        """The layouts of the result that follow from that of an operand."""
        (write,) = self.block.writes
        read = next(r for r in self.block.reads if r.buffer == buffer)
        if _loops(read) == _loops(write):
            out = laid_out(_loop_dims(layout, read, self.shapes), write, self.shapes)
            yield from () if out is None else (out,)


@dataclass(frozen=True)
class ProductForm:
    """A sum of products of two operands: every loop of the result is carried by one or by both.

    ``shapes`` has the shape of each buffer. The operator is another one, such as a convolution with
    a kernel of one pixel, unless it is a ``matmul`` in its own layouts.
    """

    block: BlockAccesses
    shapes: Sequence[Shape]
    matmul: bool = True

    def orders(self, known: Iterable[tuple[int, Layout]]) -> list[Loops]:
        """The orders of the loops that are summed, from buffers with their layouts."""
        orders = {tuple(Digit(a) for a in sorted(self.summed)): None}
        for buffer, layout in known:
            for read in self.block.reads:
                if read.buffer == buffer:
                    dims = self._dims(layout, read)
                    orders.update({tuple(d): None for d in dims if self._summed(d)})
        wide = max(map(_loops_of, orders), key=len)
        return [order for order in orders if _loops_of(order) == wide]

    def of_result(self, out: Layout, summed: Loops, free: Free) -> Iterator[BufferLayouts]:
        """The layouts of all buffers if the result has the layout ``out``.

        Args:
            out: The layout of the result.
            summed: The order of the loops that are summed.
            free: The buffers whose layouts cost nothing.
        """
        (write,) = self.block.writes
        loops = _loop_dims(out, write, self.shapes)
        if len(loops) < 2 or not all(map(self._carried_together, loops)):
            return
        *_, row, column = loops
        for left, right in (self.block.reads, self.block.reads[::-1]):
            if _carries(right, row) or _carries(left, column) or not _carries(right, column):
                continue
            layouts = self._operands(left, right, loops, summed, free)
            if layouts is not None:
                yield {write.buffer: out, **layouts}

    def _carried_together(self, dim: Sequence[Digit]) -> bool:
        """Whether each operand carries all loops of a dimension or none."""
        return all(len({_carries(r, [digit]) for digit in dim}) <= 1 for r in self.block.reads)

    @property
    def summed(self) -> set[int]:
        """The loops that are summed; those of extent 1 are in no index."""
        return _loops(self.block.reads[0]) & self.block.reduced

    def _summed(self, dim: Sequence[Digit]) -> bool:
        return bool(dim) and all(digit.axis in self.summed for digit in dim)

    def _dims(self, layout: Layout, read: AlignedAccess) -> list[Loops]:
        """The loops of each dimension of an operand; summed ones side by side as one."""
        out: list[Loops] = []
        for dim in _loop_dims(layout, read, self.shapes):
            if out and self._summed(dim) and self._summed(out[-1]):
                out[-1] = [*out[-1], *dim]
            else:
                out.append(dim)
        return out

    def _operands(
        self,
        left: AlignedAccess,
        right: AlignedAccess,
        loops: Dims,
        summed: Loops,
        free: Free,
    ) -> BufferLayouts | None:
        *batch, row, column = loops
        dims = {left: [*batch, row, summed], right: [*batch, summed, column]}
        layouts = {read: laid_out(d, read, self.shapes) for read, d in dims.items()}
        if max((len(x.dims) for x in layouts.values() if x is not None), default=0) < len(loops):
            wide = left if left.buffer in free else right  # the leading extent is 1
            layouts[wide] = laid_out(dims[wide], wide, self.shapes, len(loops))
        kept = {read.buffer: x for read, x in layouts.items() if x is not None}
        return kept if len(kept) == 2 else None

    def results(self, buffer: int, layout: Layout) -> Iterator[Layout]:
        """The layouts of the result that follow from that of an operand."""
        (write,) = self.block.writes
        read, other = sorted(self.block.reads, key=lambda r: r.buffer != buffer)
        loops = self._dims(layout, read)
        alone = [p.loop for p in other.aligned if p.loop.axis not in _loops(read)]
        if len(loops) < 2:
            return
        *batch, row, column = loops
        if sum(any(d.axis in self.summed for d in dim) for dim in loops) != 1:
            return  # the sum is over several dimensions
        outs = [[*batch, row, alone]] if self._summed(column) else []
        outs += [[*batch, alone, column]] if self._summed(row) else []
        for dims in outs:
            out = laid_out(dims, write, self.shapes)
            if out is not None:
                yield out


def operator_form(flow: BlockGraph, shapes: Sequence[Shape]) -> Elementwise | ProductForm | None:
    """How the layouts of an operator depend on each other; None if this is another operator."""
    if len(flow.steps) != 1:
        return None
    (block,) = flow.steps
    if len(block.writes) != 1 or sorted(a.buffer for a in block.all) != list(flow.params):
        return None  # a parameter is a scalar, not accessed or accessed twice, or a buffer is inner
    if not all(_plain(a, shapes[a.buffer]) for a in block.all):
        return None
    form = Elementwise(block, shapes) if not block.reduced else _product(block, shapes)
    if form is None or not block.reads:
        return None
    (order, *_), unchanged = form.orders(()), [Layout.identity(r) for r in flow.ranks]
    forms = form.of_result(unchanged[block.writes[0].buffer], order, ())
    if any(all(x[b] == unchanged[b] for b in x) for x in forms):
        return form
    return replace(form, matmul=False) if isinstance(form, ProductForm) else None


def _product(block: BlockAccesses, shapes: Sequence[Shape]) -> ProductForm | None:
    carried = [_loops(a) for a in (*block.writes, *block.reads)]
    if len(block.reads) != 2:
        return None
    out, left, right = carried
    summed = (left | right) & block.reduced
    if not summed or out & summed or not (left & right >= summed and left | right >= out):
        return None
    return ProductForm(block, shapes)


def _plain(access: AlignedAccess, shape: Shape) -> bool:
    """Whether an access is at one loop for each dimension that has more than one element."""
    wide = [k for k, extent in enumerate(shape) if not _is(extent, 1)]
    loops = [p.loop for p in access.aligned]
    whole = all(p.exact and p.shift == 0 and _whole(p.dim) and _whole(p.loop)
                for p in access.aligned)  # fmt: skip
    return whole and sorted(p.dim.axis for p in access.aligned) == wide \
        and len(set(loops)) == len(loops)  # fmt: skip


def _whole(digit: Digit) -> bool:
    return digit.div == 1 and digit.extent is None


def _is(extent: Any, value: int) -> bool:
    return isinstance(extent, int) and extent == value


def _loops(access: AlignedAccess) -> set[int]:
    return {p.loop.axis for p in access.aligned}


def _loops_of(digits: Loops) -> set[int]:
    return {d.axis for d in digits}


def _loop_dims(layout: Layout, access: AlignedAccess, shapes: Sequence[Shape]) -> list[list[Digit]]:
    """The loops of each physical dimension; none for an extent of 1."""
    shape = shapes[access.buffer]
    wide = ([_highest(d, shape) for d in dim if not _is(d.size(shape), 1)] for dim in layout.dims)
    return [to_loops(dim, access.aligned) for dim in wide]


def _highest(digit: Digit, shape: Shape) -> Digit:
    """The digit without an extent if those above it have one value."""
    above = digit.extent is not None and _is(shape[digit.axis], digit.div * digit.extent)
    return digit._replace(extent=None) if above else digit


def _carries(access: AlignedAccess, loops: Sequence[Digit]) -> bool:
    return bool(to_dims(loops, access.aligned))


def laid_out(
    loops: Dims, access: AlignedAccess, shapes: Sequence[Shape], rank: int = 0
) -> Layout | None:
    """The layout of a buffer with these loops in each dimension, and an extent of 1 without any.

    Leading dimensions of extent 1 are left out if ``rank`` allows. None if an extent of 1 cannot be
    written: it needs an axis of known extent.
    """
    shape = shapes[access.buffer]
    try:
        slots = [to_dims(dim, access.aligned) for dim in loops]
        present = {d.axis for slot in slots for d in slot}
        ones = [k for k, extent in enumerate(shape) if k not in present and _is(extent, 1)]
        for slot in reversed(slots):
            if not slot and ones:
                slot.append(Digit(ones.pop()))
        if ones:
            slots[:1] = [[*map(Digit, ones), *(d for slot in slots[:1] for d in slot)]]
        while len(slots) > rank and slots and not slots[0]:
            slots.pop(0)
        return Layout(tuple(map(tuple, _with_units(slots, shape))))
    except (Unaligned, ValueError):
        return None


def _with_units(slots: list[list[Digit]], shape: Shape) -> list[list[Digit]]:
    """The dimensions, with a digit of one value in each empty one."""
    empty = [slot for slot in slots if not slot]
    if not empty:
        return slots
    tops = (
        (slot, digit) for slot in slots for digit in slot
        if digit.extent is None and isinstance(shape[digit.axis], int)
        and shape[digit.axis] > 1 and shape[digit.axis] % digit.div == 0
    )  # fmt: skip
    slot, top = next(tops, (None, None))
    if slot is None or top is None:
        raise Unaligned("no axis has a known extent")
    extent = shape[top.axis]
    slot[slot.index(top)] = top._replace(extent=extent // top.div)
    for unit in empty:
        unit.append(Digit(top.axis, extent, None if unit is empty[0] else 1))
    return slots
