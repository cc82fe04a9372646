"""Copy windows over narrow images first (im2col along x), so that image rows join into one axis.

Before: for y, x, dy, dx: out[y, x] += p[2 * y + dy, 2 * x + dx] * w[dy, dx]
After:  q[dx, dy % 2, h, x] = p[2 * h + dy % 2, 2 * x + dx]
        for y, x, dy, dx: out[y, x] += q[dx, dy % 2, y + dy // 2, x] * w[dy, dx]

Then y and x form one contiguous axis with full vectors, which 14 columns alone do not fill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.sym import detect_linear_equation

from ....analysis.blocks.loop_steps import Axis
from ....analysis.blocks.strides import StridedAccess
from ....analysis.blocks.tir import dtype_of, integer, loads, local, mentions, static, values
from ....analysis.lifting.tir.node import NodeDict, as_dtype, items
from ...codegen.vector_units import VectorUnits, bits
from ..nest.collapse import follows
from ..nest.kernel import Kernel, KernelOutput, Part
from ..nest.program_kernels import twice
from .axes import TYPICAL, depth, extent
from .strided import identity, producer_of
from .tile import columns, cycles

#: Maximum number of copies of an image, and the cycles to copy a vector.
MOST, COPY = 8, 8


@dataclass(frozen=True)
class WindowCoordinate:
    """A coordinate ``stride * axis + step * window + base``; ``window`` is reduced."""

    axis: Axis
    stride: int
    window: Axis | None
    step: int
    base: int

    @property
    def offsets(self) -> range:
        count = 1 if self.window is None else self.window.static or 0
        return range(self.base, self.base + self.step * count, self.step)


@dataclass(frozen=True)
class _WindowedLoad:
    """A load ``[…, y, x]``, replaced by ``new[…, window of x, phase of y, y, x]``."""

    load: Any
    y: WindowCoordinate
    x: WindowCoordinate
    new: Any

    @property
    def phases(self) -> list[int]:
        """Residues of the row offsets modulo the stride."""
        return sorted({f % self.y.stride for f in self.y.offsets})


def joined(parts: Sequence[Part], inner: NodeDict[None], machine: VectorUnits) -> list[Part]:
    """Replace windows in the parts if that is faster; add the new buffers to ``inner``."""
    out: list[Part] = []
    for k, part in enumerate(parts):
        windows = _profitable_windows(part, inner, machine) if isinstance(part, Kernel) else None
        if windows is None or not isinstance(part, Kernel):
            out.append(part)
            continue
        inner[windows.new] = None
        source = windows.load.source
        producer = producer_of(out, source, parts[k + 1 :], inner)
        if producer is not None:
            out.remove(producer)
        out += [replace(c, twice=twice(c, inner), sizes=part.sizes)
                for c in _copies(windows, producer or identity(source))]  # fmt: skip
        read = _reading(part, windows)
        out.append(replace(read, twice=twice(read, inner)))
    return out


def _profitable_windows(
    kernel: Kernel, inner: NodeDict[None], machine: VectorUnits
) -> _WindowedLoad | None:
    """Return the windows to copy, or None if a kernel has none or the copies cost too much."""
    if len(kernel.axes) < 2 or len(kernel.accumulators) != 1 or kernel.before:
        return None
    y, x = kernel.axes[-2:]

    def follow(accesses: Sequence[StridedAccess]) -> bool:
        return all(follows(a, y, x, kernel.analyzer) for a in accesses)

    if not _fixed(kernel, y, x) or not follow(kernel.late) or not follow(kernel.writes):
        return None
    if follow(kernel.reads):
        return None  # y and x are contiguous already
    moved = [e for e in loads(kernel.accumulators[0].update)
             if any(a.var in mentions(i) for i in items(e.indices) for a in (y, x))]  # fmt: skip
    windows = _windows(kernel, moved[0], y, x) if len(moved) == 1 else None
    gains = windows is not None and _gains(kernel, windows, inner, machine)
    return windows if gains else None


def _fixed(kernel: Kernel, y: Axis, x: Axis) -> bool:
    extents = y.static or 0, x.static or 0
    return min(extents) > 1 and y.var not in kernel.value_vars and x.var not in kernel.value_vars


def _windows(kernel: Kernel, expr: Any, y: Axis, x: Axis) -> _WindowedLoad | None:
    """Match a load against windows of rows ``y`` and columns ``x``, all in bounds."""
    index = items(expr.indices)
    if len(index) < 2 or any(a.var in mentions(i) for i in index[:-2] for a in (y, x)):
        return None
    row, column = index[-2:]
    down, along = place_of(row, y, kernel), place_of(column, x, kernel)
    if down is None or along is None or (down.window is not None and down.window is along.window):
        return None
    if not all(map(_inside, (down, along), items(expr.source.ty.shape)[-2:])):
        return None  # out-of-bounds reads are guarded, and copies have no guards
    rows = (y.static or 0) + max(down.offsets) // down.stride
    phases = {f % down.stride for f in down.offsets}
    if len(along.offsets) * len(phases) > MOST:
        return None
    copies = [len(along.offsets), 1 if len(phases) == 1 else down.stride, rows, x.static or 0]
    shape = [*items(expr.source.ty.shape)[:-2], *(integer(n, column) for n in copies)]
    return _WindowedLoad(expr, down, along, local("windows", shape, dtype_of(expr)))


def place_of(index: Any, axis: Axis, kernel: Kernel) -> WindowCoordinate | None:
    """Match a coordinate with constant coefficients, none of them negative."""
    windows = [a for a in kernel.all_axes if a is not axis and a.var in mentions(index)]
    if len(windows) > 1 or any(not a.reduced or a.static is None for a in windows):
        return None
    window = windows[0] if windows else None
    coefs = detect_linear_equation(index, [axis.var, *(a.var for a in windows)])
    numbers = [static(kernel.analyzer.simplify(c)) for c in items(coefs)]
    if not numbers or any(c is None for c in numbers):
        return None
    stride, step, base = (*numbers[:-1], numbers[-1]) if windows else (numbers[0], 1, numbers[-1])
    if stride is None or step is None or base is None or stride < 1 or step < 1 or base < 0:
        return None
    return WindowCoordinate(axis, stride, window, step, base)


def _inside(place: WindowCoordinate, size: Any) -> bool:
    """Return whether all reads are in bounds."""
    last = place.stride * ((place.axis.static or 0) - 1) + max(place.offsets)
    limit = static(size)
    return limit is not None and last < limit


def _gains(
    kernel: Kernel, windows: _WindowedLoad, inner: NodeDict[None], machine: VectorUnits
) -> bool:
    """Return whether full vectors save more than the copies cost.

    A copy that exists anyway, for padding or strides, is not counted.
    """
    y, x = windows.y.axis, windows.x.axis
    used = [v for e in items(windows.load.indices) for v, _ in mentions(e).items()]
    row_axes = [a for a in kernel.axes if a.static != 1 and not any(a.var.same_as(v) for v in used)]
    if not row_axes:
        return False
    row_axis = max(row_axes, key=lambda axis: extent(kernel, axis))
    lanes = machine.vector_bits // bits(kernel.accumulators[0].dtype)
    rows, points = extent(kernel, row_axis), depth(kernel)
    height, width = y.static or 0, x.static or 0
    before = height * cycles(rows, len(columns(width, lanes)), points, machine)
    after = cycles(rows, -(-height * width // lanes), points, machine)
    repeats = prod(extent(kernel, a) for a in kernel.axes if a not in (row_axis, y, x))
    copied = _volume(kernel, windows.new)
    if windows.load.source in inner or windows.x.stride > 1:
        copied -= _volume(kernel, windows.load.source)
    return repeats * after + COPY * copied / lanes < repeats * before


def _volume(kernel: Kernel, buffer: Any) -> int:
    return prod(kernel.sizes.of(n).within(TYPICAL) for n in items(buffer.ty.shape))


def _copies(windows: _WindowedLoad, producer: Kernel) -> list[Kernel]:
    """Return the kernels that fill the new buffer: one for each window column and row phase."""
    *outer, row, column = producer.axes
    down, along = windows.y, windows.x
    out = []
    for (k, first), phase in product(enumerate(along.offsets), windows.phases):
        rows = max(f // down.stride for f in down.offsets if f % down.stride == phase)
        new_row = Axis(tirx.Var("h", dtype_of(row.var)), rows + (down.axis.static or 0))
        new_column = Axis(tirx.Var("x", dtype_of(column.var)), along.axis.static)
        at = values((row.var, _linear(new_row, down.stride, phase)),
                    (column.var, _linear(new_column, along.stride, first)))  # fmt: skip
        moved = producer.at(at, (*outer, new_row, new_column), ())
        place = phase if len(windows.phases) > 1 else 0
        like = new_column.var
        index = (*(a.var for a in outer), integer(k, like), integer(place, like), new_row.var, like)
        output = KernelOutput(windows.new, index, moved.results[0].value)
        out.append(replace(moved, results=(output,), copy=False))
    return out


def _linear(axis: Axis, stride: int, base: int) -> Any:
    return axis.var * integer(stride, axis.var) + integer(base, axis.var)


def _reading(kernel: Kernel, windows: _WindowedLoad) -> Kernel:
    """Return the kernel that reads the new buffer."""
    *outer, row, column = items(windows.load.indices)
    down, along, simplify = windows.y, windows.x, kernel.analyzer.simplify
    size = integer(down.stride, row)
    offset = simplify(row - as_dtype(down.axis.var, dtype_of(row)) * size)
    phase = simplify(tirx.FloorMod(offset, size)) if len(windows.phases) > 1 else integer(0, row)
    first = integer(0, column) if along.window is None else as_dtype(
        along.window.var, dtype_of(column))  # fmt: skip
    new_row = as_dtype(down.axis.var, dtype_of(row)) + simplify(tirx.FloorDiv(offset, size))
    load = tirx.BufferLoad(windows.new, [*outer, first, phase, new_row, along.axis.var])

    def put(expr: Any, mutator: Any) -> Any:
        same = tvm_ffi.structural_equal(expr, windows.load)
        return load if same else mutator.default_mutate(expr)

    (accumulator,) = kernel.accumulators
    update = tvm_ffi.structural_mutate(accumulator.update, [(tvm.ir.TensorLoad, put)])
    return replace(kernel, accumulators=(replace(accumulator, update=update),))
