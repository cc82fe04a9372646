"""Interpolation along axes of symbolic size, by torch's positions and weights at run time.

The formulas are those of ATen's UpSampleKernel.cpp, with positions in float32 (float64 for float64
tensors): element i of the result is at `scale * i` for aligned corners and nearest elements, and
else at `scale * (i + 0.5) - 0.5`, where the scale is the inverse of the factor if one is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax

op = relax.op
#: Coefficient of torch's cubic convolution.
CUBIC = -0.75


def resampled(
    importer: Any, x: Any, sizes: Sequence[Any], factors: Any, method: str, aligned: bool = False
) -> Any:
    """Return `x` with its axes from the third on resized.

    Args:
        importer: The importer.
        x: The tensor.
        sizes: The extents afterwards.
        factors: The factor of each axis, or None if the sizes were given.
        method: nearest, nearest_exact, linear or cubic.
        aligned: Whether the first and last elements keep their places.

    Raises:
        NotImplementedError: `x` has integers between which elements would have to be computed.
    """
    check_elements(x, method)
    for k, size in enumerate(sizes):
        axis = _ResampledAxis(importer, x, k + 2, size, factors[k] if factors else None, aligned)
        x = axis.nearest(method) if method.startswith("nearest") else axis.between(method)
    return x


def check_elements(x: Any, method: str) -> None:
    """Raise `NotImplementedError` for sums of integers, which torch rounds in its own way."""
    if not method.startswith("nearest") and "float" not in str(x.ty.dtype):
        raise NotImplementedError(f"interpolation between elements of {x.ty.dtype}, expected "
                                  "real numbers; convert the tensor to float32")  # fmt: skip


class _ResampledAxis:
    def __init__(
        self, importer: Any, x: Any, axis: int, size: Any, factor: Any, aligned: bool
    ) -> None:
        self.importer, self.emit = importer, importer.block_builder.emit
        self.x, self.axis, self.size = x, axis, size
        self.dtype = "float64" if str(x.ty.dtype) == "float64" else "float32"
        self.aligned = aligned
        self.last = self.number(x.ty.shape[axis] - 1)
        self.steps = self.emit(op.astype(op.arange(0, size, 1, "int64"), self.dtype))
        self.scale = self._scale(factor)

    def _scale(self, factor: Any) -> Any:
        if self.aligned:
            most = op.maximum(self.number(self.size - 1), self.real(1.0))
            return self.emit(op.divide(self.last, most))
        if factor:
            return self.real(1.0 / factor)
        return self.emit(op.divide(self.number(self.x.ty.shape[self.axis]), self.number(self.size)))

    def number(self, size: Any) -> Any:
        """Return a size as a real number."""
        if not isinstance(size, int):
            size = tvm.sym.Analyzer().simplify(size)
        return self.importer._number(size, self.dtype)

    def real(self, value: float) -> Any:
        """Return a constant."""
        return relax.const(value, self.dtype)

    def nearest(self, method: str) -> Any:
        """Return the axis resized by nearest elements."""
        steps = self.steps
        if method == "nearest_exact":
            steps = op.add(steps, self.real(0.5))
        return self._at(self.emit(op.floor(op.multiply(steps, self.scale))))

    def between(self, method: str) -> Any:
        """Return the axis resized by weighted sums of neighbours."""
        places = self._places(method)
        low = self.emit(op.minimum(op.floor(places), self.last))
        share = self.emit(op.clip(op.subtract(places, low), 0.0, 1.0))
        if method == "linear":
            weights = {0.0: op.subtract(self.real(1.0), share), 1.0: share}
        else:
            back = self.emit(op.subtract(self.real(1.0), share))
            weights = {-1.0: self._outer(share), 0.0: self._inner(share), 1.0: self._inner(back),
                       2.0: self._outer(back)}  # fmt: skip
        terms = [self._weighted(op.add(low, self.real(offset)), weight)
                 for offset, weight in weights.items()]  # fmt: skip
        total = terms[0]
        for term in terms[1:]:
            total = self.emit(op.add(total, term))
        return total

    def _places(self, method: str) -> Any:
        if self.aligned:
            return self.emit(op.multiply(self.steps, self.scale))
        half = self.real(0.5)
        places = op.subtract(op.multiply(op.add(self.steps, half), self.scale), half)
        return self.emit(places if method == "cubic" else op.maximum(places, self.real(0.0)))

    def _at(self, places: Any) -> Any:
        """Return the elements at whole places, or at the ends for places outside."""
        inside = op.maximum(op.minimum(places, self.last), self.real(0.0))
        return self.emit(op.take(self.x, self.emit(op.astype(inside, "int64")), self.axis))

    def _weighted(self, places: Any, weight: Any) -> Any:
        around = [1] * self.x.ty.ndim
        around[self.axis] = self.size
        weight = self.emit(op.reshape(op.astype(weight, self.x.ty.dtype), around))
        return self.emit(op.multiply(self._at(places), weight))

    def _inner(self, t: Any) -> Any:
        """Return ((a + 2) t - (a + 3)) t² + 1."""
        line = op.subtract(op.multiply(self.real(CUBIC + 2), t), self.real(CUBIC + 3))
        return self.emit(op.add(op.multiply(op.multiply(line, t), t), self.real(1.0)))

    def _outer(self, t: Any) -> Any:
        """Return ((a s - 5a) s + 8a) s - 4a for s = t + 1."""
        s = self.emit(op.add(t, self.real(1.0)))
        line = op.subtract(op.multiply(self.real(CUBIC), s), self.real(5 * CUBIC))
        square = op.add(op.multiply(line, s), self.real(8 * CUBIC))
        return self.emit(op.subtract(op.multiply(square, s), self.real(4 * CUBIC)))
