"""Buffers over the elements of another one: ``match_buffer``, ``decl_buffer``, strides.

A view has a tensor and a map from its own indices to the tensor's. Positions are counted in
row-major order, which is the memory order of a buffer without strides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..terms.integer import floordiv, floormod
from ..terms.order import nonneg, positive
from ..terms.term import ONE, ZERO, Int, TensorVar, mul, total

Index = tuple[Int, ...]


@dataclass(frozen=True)
class View:
    """``view[i] = tensor[place(i)]``, at the position ``start + strides * i`` in memory."""

    tensor: TensorVar
    shape: Index
    strides: Index
    start: Int
    place: Callable[[Index], Index]


def row_major(shape: Sequence[Int]) -> Index:
    """Return the strides of a buffer that declares none."""
    strides, step = [], ONE
    for extent in reversed(shape):
        strides.append(step)
        step = mul(step, extent)
    return tuple(reversed(strides))


def offset(index: Sequence[Int], strides: Sequence[Int]) -> Int:
    """Return the distance of an element from the first, in elements."""
    return total(mul(i, s) for i, s in zip(index, strides, strict=True))


def element(position: Int, shape: Sequence[Int]) -> Index:
    """Return the index of the element at a row-major position.

    All coordinates except the first are inside the shape, so only the first has to be checked.
    """
    index: list[Int] = []
    for extent in reversed(shape[1:]):
        index.append(floormod(position, extent))
        position = floordiv(position, extent)
    return (*([position] if len(shape) else ()), *reversed(index))


def injective(shape: Sequence[Int], strides: Sequence[Int]) -> bool:
    """Whether no two elements share a position: each stride steps over all inner dimensions."""
    reach = ONE
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent is ONE:
            continue
        if not (positive(stride) and nonneg(stride - reach)):
            return False
        reach = mul(stride, extent)
    return True


def contiguous(extents: Sequence[Int], shape: Sequence[Int]) -> bool:
    """Whether a region of a buffer is contiguous in memory, row by row."""
    covers_inner = True
    for extent, full in zip(reversed(extents), reversed(shape), strict=True):
        if not covers_inner and extent is not ONE:
            return False
        covers_inner = covers_inner and extent is full
    return True


def whole_view(tensor: TensorVar) -> View:
    """Return a tensor as a view of itself."""
    return View(tensor, tensor.shape, row_major(tensor.shape), ZERO, lambda index: index)


def flat(base: View, shape: Index, strides: Index, start: Int) -> View:
    """Return other dimensions over the memory of a whole tensor."""
    strides = strides or row_major(shape)

    def place(index: Index) -> Index:
        if strides == base.strides and start is ZERO and len(index) == len(base.shape):
            return index
        return element(offset(index, strides) + start, base.shape)

    return View(base.tensor, shape, strides, start, place)


def region(base: View, mins: Index, extents: Index, rank: int) -> View | str:
    """Return a box of a view, dropping leading dimensions of extent 1 down to rank `rank`."""
    cut = len(mins) - rank
    if cut < 0 or any(e is not ONE for e in extents[:cut]):
        return "a matched buffer and its region differ in rank"

    def place(index: Index) -> Index:
        inner = (*(ZERO for _ in range(cut)), *index)
        return base.place(tuple(m + i for m, i in zip(mins, inner, strict=True)))

    start = base.start + offset(mins, base.strides)
    return View(base.tensor, extents[cut:], base.strides[cut:], start, place)
