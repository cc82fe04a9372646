"""Recognise convolutions that minimal filtering can compute, and choose their tiles.

    for o, y, x, c, i, j: out[o, y, x] += p[c, y + i, x + j] * w[o, c, i, j]

Windows have three taps along both axes, next to each other; the distance of results is 1. All
extents are static, because a product for each point needs a number of tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx

from .....analysis.blocks.loop_steps import Axis
from .....analysis.blocks.tir import dtype_of
from .....analysis.lifting.tir.node import NodeDict, items
from ....codegen.vector_units import VectorUnits
from ...nest.collapse import Views
from ...nest.kernel import Kernel, Part
from ..strided import identity, producer_of
from ..tile import columns, cycles
from ..windows import WindowCoordinate, place_of
from .filtering import FILTERINGS, TAPS, Filtering

DTYPE = "float32"
#: Tiles of one product at most if several images take part.
TILES = 128


@dataclass(frozen=True)
class Convolution:
    """A kernel that is a convolution: its axes, its loads, and what pads its operand."""

    kernel: Kernel
    producer: Kernel
    weights: Any
    image: Axis | None
    channel: Axis
    result: Axis
    y: WindowCoordinate
    x: WindowCoordinate

    @property
    def images(self) -> int:
        return 1 if self.image is None else self.image.static or 1

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Channels, results, rows and columns."""
        axes = self.channel, self.result, self.y.axis, self.x.axis
        c, o, h, w = (a.static or 0 for a in axes)
        return c, o, h, w


def convolution(parts: Sequence[Part], inner: NodeDict[None], views: Views) -> Convolution | None:
    """Return the convolution that a function consists of, or None if it is something else."""
    if len(parts) not in (1, 2) or not all(isinstance(p, Kernel) for p in parts):
        return None
    kernel = parts[-1]
    assert isinstance(kernel, Kernel)
    operands = _operands(kernel)
    if operands is None or any(r.buffer in inner for r in kernel.results):
        return None
    for source, weights in (operands, operands[::-1]):
        producer = producer_of(parts[:-1], source.source, (), inner)
        if producer is None:
            if len(parts) == 2 or source.source in inner:
                continue
            producer = identity(source.source)
        matched = _matched(kernel, source, weights, producer, views)
        if matched is not None:
            return matched
    return None


def _operands(kernel: Kernel) -> tuple[Any, Any] | None:
    """Return the two loads of a sum of products in float32 that starts at 0."""
    if len(kernel.accumulators) != 1 or kernel.before:
        return None
    (acc,) = kernel.accumulators
    start, update = acc.init, acc.update
    if acc.dtype != DTYPE or not isinstance(start, tirx.FloatImm) or float(start.value) != 0:
        return None
    if not isinstance(update, tirx.Add):
        return None
    a, b = update.a, update.b
    term = b if a.same_as(acc.var) else a if b.same_as(acc.var) else None
    if not isinstance(term, tirx.Mul):
        return None
    pair = term.a, term.b
    if not all(isinstance(e, tvm.ir.TensorLoad) and dtype_of(e) == DTYPE for e in pair):
        return None
    return pair


def _matched(
    kernel: Kernel, source: Any, weights: Any, producer: Kernel, views: Views
) -> Convolution | None:
    index, taps = items(source.indices), items(weights.indices)
    if len(index) != 4 or len(taps) != 4 or weights.source not in views:
        return None
    result = _axis(taps[0], kernel.axes)
    channel = _axis(taps[1], kernel.reduced)
    image = _axis(index[0], kernel.axes)
    y_axis, x_axis = (a for a in kernel.axes[-2:]) if len(kernel.axes) > 2 else (None, None)
    if result is None or channel is None or y_axis is None or x_axis is None:
        return None
    y, x = place_of(index[2], y_axis, kernel), place_of(index[3], x_axis, kernel)
    if y is None or x is None or not index[1].same_as(channel.var):
        return None
    for place, tap in ((y, taps[2]), (x, taps[3])):
        if place.window is None or not tap.same_as(place.window.var):
            return None
        if place.stride != 1 or place.step != 1 or place.window.static != TAPS:
            return None
    known = [a for a in (image, result, y.axis, x.axis, channel) if a is not None]
    spare = [a for a in kernel.axes if not any(a is b for b in known)]
    single_image = image is not None or (
        isinstance(index[0], tirx.IntImm) and int(index[0].value) == 0
    )
    plain = single_image and len(kernel.reduced) == 3 and all(a.static == 1 for a in spare)
    shape = [n for n in items(weights.source.ty.shape) if not isinstance(n, tirx.IntImm)]
    if not plain or shape or any(a.static is None for a in known):
        return None
    return Convolution(kernel, producer, weights, image, channel, result, y, x)


def _axis(index: Any, axes: Sequence[Axis]) -> Axis | None:
    return next((a for a in axes if index.same_as(a.var)), None)


@dataclass(frozen=True)
class Tiling:
    """Tiles of ``outputs`` squared results: rows and columns of them, images of one product."""

    filtering: Filtering
    rows: int
    columns: int
    images: int

    @property
    def tiles(self) -> int:
        """The tiles of an image."""
        return self.rows * self.columns

    @property
    def count(self) -> int:
        """The tiles of a product."""
        return self.images * self.tiles


def choose_tiling(conv: Convolution, machine: VectorUnits) -> Tiling | None:
    """Return the fastest tiling, or None if a direct convolution is estimated to be faster."""
    if machine.cores > 1:
        return None
    c, o, h, w = conv.sizes
    lanes = machine.lanes(DTYPE)
    if min(c, o) < lanes // 2 or min(h, w) < 4:
        return None
    direct = conv.images * min(
        h * cycles(o, len(columns(w, lanes)), c * TAPS * TAPS, machine),
        cycles(o, -(-h * w // lanes), c * TAPS * TAPS, machine),
    )
    tilings = [tiling_of(conv, f) for f in FILTERINGS]
    fastest = min(tilings, key=lambda t: _cycles(conv, t, machine))
    return fastest if _cycles(conv, fastest, machine) < direct else None


def tiling_of(conv: Convolution, filtering: Filtering) -> Tiling:
    """Return the tiles of a convolution, of as many images at once as fit."""
    _, _, h, w = conv.sizes
    m = filtering.outputs
    rows, columns_ = -(-h // m), -(-w // m)
    fitting = [n for n in range(1, conv.images + 1)
               if conv.images % n == 0 and n * rows * columns_ <= TILES]  # fmt: skip
    return Tiling(filtering, rows, columns_, max(fitting, default=1))


def _cycles(conv: Convolution, t: Tiling, machine: VectorUnits) -> float:
    """Estimate the cycles of products, copies and transforms.

    The factors were fitted to 34 kernels on a CPU with AVX-512; most estimates are within 10 %.
    """
    c, o, _, _ = conv.sizes
    points, m, lanes = t.filtering.points, t.filtering.outputs, machine.lanes(DTYPE)
    products = points**2 * cycles(o, -(-t.count // lanes), c, machine)
    copied = c * points * (m * t.rows + 2) * len(columns(t.columns, lanes))
    joined = o * m * t.rows * len(columns(t.columns, max(1, lanes // m)))
    transformed = (c + o) * points**2 * len(columns(t.tiles, lanes)) + joined
    weights = o * -(-c // lanes) * (lanes * TAPS**2 + points**2)
    each = products / t.images + 3 * copied + 2.5 * transformed
    return conv.images * each + weights / 2
