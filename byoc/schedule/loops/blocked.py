"""Compute a copied operand block by block, so that it stays in the first-level cache.

    Before: for c, h, w: p[c, h, w] = pad(x)[c, h, w]
            for c, y, x, k: out[c, y, x] += p[c, y + k, x] * w[c, k]
    After:  for b:
              for c in range(4), h, w: q[c, h, w] = pad(x)[4 * b + c, h, w]
              for c in range(4), y, x, k: out[4 * b + c, y, x] += q[c, y + k, x] * w[4 * b + c, k]

The axis, here channels of a depthwise convolution or images of a batch, must select a slice of the
copy. Fills that are the same for all blocks, such as those of borders, stay before the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ....analysis.blocks.loop_steps import Axis
from ....analysis.blocks.strides import StridedAccess
from ....analysis.blocks.tir import dtype_of, integer, loads, local, mentions, values
from ....analysis.lifting.tir.node import NodeDict, items
from ...codegen.vector_units import VectorUnits, bits
from ..nest.kernel import Kernel, Part, UnchangedStep
from ..nest.program_kernels import twice
from ..nest.segments import filled
from .axes import TYPICAL, extent

#: Bytes of a block at most, half of a first-level cache, and the fewest slices of one.
MOST, FEWEST = 24 << 10, 4


@dataclass(frozen=True)
class BlockedLoop:
    """``before``, then ``for var in range(count)`` around ``body``."""

    before: tuple[Kernel, ...]
    var: Any
    count: Any
    body: tuple[Kernel, ...]


@dataclass(frozen=True)
class _BlockedSlices:
    """The ``dim`` of a copied buffer that an axis of its reader selects, ``size`` at a time."""

    buffer: Any
    dim: int
    axis: Axis
    size: int


def blocked(
    parts: Sequence[Part], inner: NodeDict[None], machine: VectorUnits
) -> list[Part | BlockedLoop]:
    """Group copies and their readers in blocks; add the new buffers to ``inner``."""
    out: list[Part | BlockedLoop] = list(parts)
    if machine.cores > 1:  # one buffer cannot serve several cores
        return out
    for part in parts:
        if not isinstance(part, Kernel) or not part.accumulators:
            continue
        for buffer in _copied(part, inner):
            writers = _writers(buffer, part, out)
            slices = _slices(part, buffer, writers) if writers else None
            if slices is not None:
                at = out.index(part)
                out[at] = _block(part, slices, writers, inner)
                out = [p for p in out if not any(p is w for w in writers)]
                break
    return out


def _copied(kernel: Kernel, inner: NodeDict[None]) -> list[Any]:
    """Return the inner buffers that a reduction reads, and nothing but the reduction."""
    buffers: NodeDict[None] = NodeDict()
    for access in kernel.reads:
        if access.buffer in inner and not any(
            x.buffer.same_as(access.buffer) for x in (*kernel.late, *kernel.writes)
        ):
            buffers[access.buffer] = None
    return [b for b, _ in buffers.items()]


def _writers(buffer: Any, reader: Kernel, parts: Sequence[Part | BlockedLoop]) -> list[Kernel]:
    """Return the elementwise kernels that write a buffer; none if something else uses it."""
    out: list[Kernel] = []
    for part in parts:
        if part is reader:
            continue
        if isinstance(part, Kernel) and len(part.results) == 1 and not part.reduced:
            if part.results[0].buffer.same_as(buffer):
                out.append(part)
                continue
        if _uses(part, buffer):
            return []
    return out


def _uses(part: Part | BlockedLoop, buffer: Any) -> bool:
    """Return whether a part reads or writes a buffer."""
    if isinstance(part, BlockedLoop):
        return any(_uses(k, buffer) for k in (*part.before, *part.body))
    if isinstance(part, UnchangedStep):
        return buffer in part.step.reads or any(b.same_as(buffer) for b in part.step.writes)
    return any(a.buffer.same_as(buffer) for a in (*part.reads, *part.late, *part.writes))


def _slices(kernel: Kernel, buffer: Any, writers: Sequence[Kernel]) -> _BlockedSlices | None:
    """Return the outermost axis that selects slices of a copy, if blocks of it are worth it."""
    reads = [e for a in (*(a.update for a in kernel.accumulators), *(e for _, e in kernel.before))
             for e in loads(a) if e.source.same_as(buffer)]  # fmt: skip
    for axis in kernel.axes:
        if axis.static == 1:
            continue
        dims = {d for e in reads for d, i in enumerate(items(e.indices)) if axis.var in mentions(i)}
        if len(dims) != 1:
            continue
        (dim,) = dims
        if dim == len(items(buffer.ty.shape)) - 1:  # slices of neighbours have no vectors
            continue
        simplify = kernel.analyzer.simplify
        plain = all(simplify(items(e.indices)[dim]).same_as(axis.var) for e in reads)
        if not plain or not all(_writes(w, dim, axis) for w in writers):
            continue
        size = _size(kernel, buffer, axis)
        if size is not None and _cheap(kernel, axis, buffer):
            return _BlockedSlices(buffer, dim, axis, size)
    return None


def _writes(writer: Kernel, dim: int, axis: Axis) -> bool:
    """Return whether an elementwise kernel writes a dimension at its own axis of equal extent."""
    own = _own(writer, dim)
    if own is None or dtype_of(own.var) != dtype_of(axis.var):
        return False
    others = [i for d, i in enumerate(writer.results[0].indices) if d != dim]
    alone = not any(own.var in mentions(i) for i in others)
    return alone and bool(tvm_ffi.structural_equal(own.extent, axis.extent))


def _own(writer: Kernel, dim: int) -> Axis | None:
    index = writer.results[0].indices[dim]
    return next((a for a in writer.axes if index.same_as(a.var)), None)


def size_of(kernel: Kernel, buffer: Any) -> int:
    """Return the known or assumed bytes of a buffer."""
    shape = items(buffer.ty.shape)
    count = prod(kernel.sizes.of(n).within(TYPICAL) for n in shape)
    return count * bits(str(buffer.ty.dtype)) // 8


def _size(kernel: Kernel, buffer: Any, axis: Axis) -> int | None:
    """Return the slices of a block; None if the whole copy is small."""
    if axis.static is None:
        return 1
    slice_ = size_of(kernel, buffer) // axis.static
    if slice_ * axis.static <= MOST:
        return None
    most = max(FEWEST, MOST // slice_) if slice_ <= MOST else 1
    return max(n for n in range(1, min(most, axis.static) + 1) if axis.static % n == 0)


def _cheap(kernel: Kernel, axis: Axis, buffer: Any) -> bool:
    """Return whether what each block reads again is smaller than the slice that it copies."""
    repeated = [x for x in kernel.reads if x.step(axis.var) == 0]
    slice_ = size_of(kernel, buffer) // extent(kernel, axis)
    return sum(_read(kernel, x) for x in repeated) <= slice_


def _read(kernel: Kernel, access: StridedAccess) -> int:
    extents = (extent(kernel, a) for a in kernel.all_axes if access.step(a.var) != 0)
    return prod(extents) * bits(str(access.buffer.ty.dtype)) // 8


def _block(
    reader: Kernel, slices: _BlockedSlices, writers: Sequence[Kernel], inner: NodeDict[None]
) -> BlockedLoop:
    shape = items(slices.buffer.ty.shape)
    shape[slices.dim] = integer(slices.size, shape[slices.dim])
    new = local(slices.buffer.name, shape, str(slices.buffer.ty.dtype))
    inner[new] = None
    var = tirx.Var("b", dtype_of(slices.axis.var))
    before: list[Kernel] = []
    body: list[Kernel] = []
    for kernel in (k for w in writers for k in _split(w, slices)):
        own = _own(kernel, slices.dim)
        assert own is not None  # by _writes and _split
        part = _moved(kernel, own, slices, var, new)
        fills = isinstance(part.results[0].value, tirx.FloatImm | tirx.IntImm)
        (before if fills else body).append(part)
    body.append(_moved(reader, slices.axis, slices, var, new))
    groups = (tuple(replace(k, twice=twice(k, inner)) for k in g) for g in (before, body))
    first, rest = groups
    extent = slices.axis.extent
    blocks = slices.axis.static // slices.size if slices.axis.static is not None else extent
    return BlockedLoop(first, var, blocks, rest)


def _split(writer: Kernel, slices: _BlockedSlices) -> tuple[Kernel, ...]:
    """Split a padded copy, unless the slices are padded: a block may then lie in the border."""
    fill = filled(writer)
    return fill if fill and _own(fill[1], slices.dim) is not None else (writer,)


def _moved(kernel: Kernel, axis: Axis, slices: _BlockedSlices, var: Any, new: Any) -> Kernel:
    """Return a kernel over one block of an axis that reads or writes the slices in ``new``."""
    block = Axis(tirx.Var(axis.var.name, dtype_of(axis.var)), slices.size)

    def within(indices: Sequence[Any]) -> list[Any]:
        return [block.var if d == slices.dim else i for d, i in enumerate(indices)]

    def load(expr: Any, mutator: Any) -> Any:
        if not expr.source.same_as(slices.buffer):
            return mutator.default_mutate(expr)
        return tirx.BufferLoad(new, within(items(expr.indices)))

    def put(expr: Any) -> Any:
        return tvm_ffi.structural_mutate(expr, [(tvm.ir.TensorLoad, load)])

    moved = replace(
        kernel.with_reads(put),
        copy=False,
        results=tuple(replace(r, buffer=new, indices=tuple(within(r.indices)))
                      if r.buffer.same_as(slices.buffer) else r for r in kernel.results),
    )  # fmt: skip
    at = values((axis.var, var * integer(slices.size, var) + block.var))
    return moved.at(at, tuple(block if a is axis else a for a in kernel.axes), kernel.reduced)
