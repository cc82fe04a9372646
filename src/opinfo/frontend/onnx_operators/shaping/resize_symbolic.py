"""Resize an axis of symbolic size: coordinates are computed at run time, by Relax operators."""

from __future__ import annotations

from typing import Any

from tvm import relax

from ...formulas.interpolation import neighbours, of_tensors
from ...onnx_graph.onnx_node import OnnxNode
from ...onnx_graph.scalars import is_expr
from ...onnx_graph.values import Dim
from .resize_request import Resizing, number


def along(node: OnnxNode, data: Any, axis: int, extent: Dim, size: Dim, what: Resizing) -> Any:
    """Return the data with one axis resized; sizes, the scale and the region may be computed.

    Args:
        node: The node for which it is.
        data: The tensor.
        axis: The axis.
        extent: Its size.
        size: Its size afterwards.
        what: What the node asks for.
    """
    return _ResizedAxis(node, data, axis, extent, size, what).resized()


class _ResizedAxis:
    def __init__(
        self, node: OnnxNode, data: Any, axis: int, extent: Dim, size: Dim, what: Resizing
    ) -> None:
        self.node, self.emit, self.data, self.axis, self.what = node, node.emit, data, axis, what
        self.extent, self.size, self.dtype = extent, size, str(data.ty.dtype)
        self.last = number(node, node.arithmetic.add(extent, -1))
        self.zero, self.one = (relax.const(x, "float32") for x in (0.0, 1.0))
        self.half = relax.const(0.5, "float32")

    def resized(self) -> Any:
        """Return the tensor with the axis resized."""
        places = self.emit(self._coordinates())
        if self.what.mode == "nearest":
            result = self._nearest(places)
        elif self.what.mode == "linear" and not self.what.antialias:
            result = self._linear(places)
        else:
            result = self._weighted(places)
        if self.what.region is None:
            return result
        outside = relax.op.logical_or(relax.op.less(places, self.zero),
                                      relax.op.greater(places, self.last))  # fmt: skip
        mask = self.emit(relax.op.reshape(self.emit(outside), self._around()))
        return self.emit(relax.op.where(mask, relax.const(self.what.outside, self.dtype), result))

    def _around(self) -> list[Dim]:
        """Return the shape of a vector along the axis."""
        around: list[Dim] = [1] * self.data.ty.ndim
        around[self.axis] = self.size
        return around

    def _nearest(self, places: Any) -> Any:
        rounded = {
            "round_prefer_floor": lambda: relax.op.ceil(relax.op.subtract(places, self.half)),
            "round_prefer_ceil": lambda: relax.op.floor(relax.op.add(places, self.half)),
            "floor": lambda: relax.op.floor(places),
            "ceil": lambda: relax.op.ceil(places),
        }[self.what.rounding]()
        return self._taken(rounded)

    def _linear(self, places: Any) -> Any:
        places = self.emit(relax.op.minimum(relax.op.maximum(places, self.zero), self.last))
        low = self.emit(relax.op.floor(places))
        share = self.emit(relax.op.reshape(relax.op.subtract(places, low), self._around()))
        share = share if self.dtype == "float32" else relax.op.astype(share, self.dtype)
        first, second = self._taken(low), self._taken(relax.op.add(low, self.one))
        step = relax.op.multiply(relax.op.subtract(second, first), share)
        return self.emit(relax.op.add(first, step))

    def _weighted(self, places: Any) -> Any:
        """Return sums of neighbours by the kernel of the method."""
        what, stretch = self.what, self._stretch()
        near = neighbours(what.mode, stretch)
        count, offsets = len(near), relax.const(near.astype("float32")[:, None])
        low = self.emit(relax.op.floor(places))
        share = self.emit(relax.op.subtract(places, low))
        distances = self.emit(relax.op.multiply(relax.op.abs(relax.op.subtract(offsets, share)),
                                                relax.const(stretch, "float32")))  # fmt: skip
        weights = self.emit(of_tensors(what.mode, distances, what.alpha))
        indices = self.emit(relax.op.add(low, offsets))
        if what.excludes:
            inside = relax.op.logical_and(relax.op.greater_equal(indices, self.zero),
                                          relax.op.less_equal(indices, self.last))  # fmt: skip
            weights = self.emit(relax.op.where(self.emit(inside), weights, self.zero))
        if what.excludes or what.antialias:
            total = self.emit(relax.op.sum(weights, [0], keepdims=True))
            total = relax.op.where(relax.op.equal(total, self.zero), self.one, total)
            weights = self.emit(relax.op.divide(weights, self.emit(total)))
        around = self._around()
        weights = relax.op.reshape(weights, [*around[: self.axis], count, *around[self.axis :]])
        terms = relax.op.multiply(self._taken(indices),
                                  relax.op.astype(self.emit(weights), self.dtype))  # fmt: skip
        return self.emit(relax.op.sum(self.emit(terms), [self.axis]))

    def _stretch(self) -> float:
        """Return by what distances are multiplied: less than 1 to smooth."""
        scale = self.what.scales[self.axis]
        if not self.what.antialias:
            return 1.0
        if not isinstance(scale, float):
            self.node.refuse("antialias to sizes, with a symbolic size, expected scales",
                             self.extent, self.size)  # fmt: skip
        return min(scale, 1.0)

    def _taken(self, places: Any) -> Any:
        """Return the elements at whole places, or at the ends for places outside."""
        inside = relax.op.minimum(relax.op.maximum(places, self.zero), self.last)
        indices = self.emit(relax.op.astype(inside, "int64"))
        return self.emit(relax.op.take(self.data, indices, self.axis))

    def _coordinates(self) -> Any:
        """Return for each element of the result its place in the data."""
        op, transform = relax.op, self.what.transform
        x = self.emit(op.astype(op.arange(0, self.size, 1, "int64"), "float32"))
        region = None if self.what.region is None else self.what.region[self.axis]
        if region is not None:
            return self._of_region(x, *region)
        if transform == "align_corners":
            return op.divide(op.multiply(x, self.last), self._steps())
        factor = self._factor()
        if transform == "asymmetric":
            return op.divide(x, factor)
        centre = self.emit(op.divide(op.add(x, self.half), factor))
        if transform == "tf_half_pixel_for_nn":
            return centre
        places = self.emit(op.subtract(centre, self.half))
        if transform == "half_pixel":
            return places
        size = number(self.node, self.size)
        if transform == "pytorch_half_pixel":
            return op.where(op.greater(size, self.one), places, self.zero)
        if transform == "half_pixel_symmetric":
            extent = number(self.node, self.extent)
            share = op.divide(size, self.emit(op.multiply(factor, extent)))
            centre = op.multiply(op.multiply(extent, self.half), op.subtract(self.one, share))
            return op.add(self.emit(centre), places)
        self.node.refuse(f"coordinate_transformation_mode '{transform}' has no lowering")

    def _factor(self) -> Any:
        scale = self.what.scales[self.axis]
        if scale is None:
            return self.emit(relax.op.divide(number(self.node, self.size),
                                             number(self.node, self.extent)))  # fmt: skip
        return relax.const(scale, "float32") if isinstance(scale, float) else scale

    def _steps(self) -> Any:
        """Return the size minus 1, or 1."""
        most = number(self.node, self.node.arithmetic.add(self.size, -1))
        return self.emit(relax.op.maximum(most, self.one))

    def _of_region(self, x: Any, start: Any, end: Any) -> Any:
        """Return places between the start and the end, or the middle for a single element."""
        op = relax.op
        start, end = (relax.const(b, "float32") if isinstance(b, float) else b
                      for b in (start, end))  # fmt: skip
        step = op.divide(op.multiply(op.multiply(x, op.subtract(end, start)), self.last),
                         self._steps())  # fmt: skip
        places = self.emit(op.add(self.emit(op.multiply(start, self.last)), self.emit(step)))
        middle = op.multiply(op.multiply(self.half, op.add(start, end)), self.last)
        if not is_expr(self.size):
            return places if self.size > 1 else op.reshape(self.emit(middle), [1])
        single = op.less_equal(number(self.node, self.size), self.one)
        return op.where(single, self.emit(middle), places)
