"""One loop fitted to an output that is written out, for recognisers to read.

    place 0: x[0]   place 1: x[0] + x[1]   place 2: x[0] + x[1] + x[2]
    y[i] = Σ_{r<3} x[r] if i - r >= 0 else 0

The places and the indices of all elements are points. A coordinate of an element is an affine
function of the ones before it, or an axis of the loop: over all of its tensor, or over a window
that moves with the place. The loop is written out again and only kept if its table is the same, so
that nothing depends on how it was fitted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import permutations

import numpy as np

from ...lifting.effects.tensor_expression import TensorExpression
from ...lifting.loops.reduction import canonical
from ...terms.condition_terms import conj, eq0, ge0, ite
from ...terms.evaluate import evaluate
from ...terms.reduction_terms import identity, reduce
from ...terms.scalar import call
from ...terms.term import Int, Term, Var, as_int, const, fresh, integer, load
from .affine_fit import Affine, Points, affine, bounds, points_of, window
from .written_out import WrittenOut, equal_at_places, written_out

#: Factors of a product whose order is tried.
_MOST_FACTORS = 3
#: Iterations of a loop at all places together.
_MOST_POINTS = 1 << 16


def fitted_loops(expression: TensorExpression) -> Iterator[TensorExpression]:
    """Yield expressions with the same table at all places, as one loop each."""
    if len(expression.outputs) != 1:
        return
    (output,) = expression.outputs
    table = written_out(output.body)
    points = None if table is None else points_of(table)
    if table is None or points is None or len(points.tensors) > _MOST_FACTORS:
        return
    for order in permutations(range(len(points.tensors))):
        for windows in (False, True):
            for guarded in (False, True):
                loop = _Loop(points, order, windows, guarded)
                if not loop.has_as_many_points():
                    continue
                body = loop.body(table)
                if body is not output.body and equal_at_places(output.body, body):
                    yield replace(expression, outputs=(replace(output, body=body),))
                    break


class _Loop:
    """A loop whose axes are coordinates of elements, the tensors' in an order."""

    def __init__(
        self, points: Points, order: tuple[int, ...], windows: bool, guarded: bool
    ) -> None:
        self.points, self.windows = points, windows
        self.terms: list[Int] = [as_int(a) for a in points.axes]
        self.columns = [points.places[:, k] for k in range(len(points.axes))]
        self.axes: list[Int] = []
        self.guards: list[Term] = []
        self.indices: dict[tuple[int, int], Int] = {}
        for tensor in order:
            for dim in range(len(points.tensors[tensor].shape)):
                self.indices[tensor, dim] = self.index(tensor, dim)
        if guarded:
            self.bound()

    def index(self, tensor: int, dim: int) -> Int:
        """The index of a tensor at a dimension, as a function of places and axes."""
        whole = self.points.whole[tensor][dim]
        if whole is not None:
            return whole
        column = self.points.indices[tensor][:, dim]
        extent = self.points.tensors[tensor].shape[dim]
        form = affine(self.columns, column)
        if form is not None:
            return self.inside(self.value(form), form.divisor, extent)
        moving = window(self.columns, column) if self.windows else None
        if moving is None:
            return self.free(column, extent)
        step = self.axis(integer(moving.count))
        form = Affine(moving.factors, moving.start, 1)
        return self.inside(self.value(form) + step, 1, extent)

    def free(self, column: object, extent: Int) -> Int:
        axis = self.axis(extent)
        self.terms.append(axis)
        self.columns.append(column)  # type: ignore[arg-type]
        return axis

    def axis(self, extent: Int) -> Int:
        axis = as_int(fresh(extent, "r")) if extent.const != 1 else integer(0)
        if extent.const != 1:
            self.axes.append(axis)
        return axis

    def value(self, form: Affine) -> Int:
        out = integer(form.start)
        for term, factor in zip(self.terms, form.factors, strict=True):
            out = out + term * factor
        return out

    def inside(self, value: Int, divisor: int, extent: Int) -> Int:
        """The quotient, which divides and is inside a dimension."""
        if divisor != 1:
            self.guards.append(eq0(value % divisor))
            value = value // divisor
        self.guards += [ge0(value), ge0(extent - 1 - value)]
        return value

    def bound(self) -> None:
        """Guard pairs of a place and an axis by how far they are ever apart."""
        count = len(self.points.axes)
        for place, column in zip(self.terms[:count], self.columns[:count], strict=True):
            for axis, values in zip(self.terms[count:], self.columns[count:], strict=True):
                least, most = bounds(column - values)
                self.guards += [ge0(place - axis - least), ge0(axis - place + most)]

    def has_as_many_points(self) -> bool:
        """Whether the loop has no other points: that is cheaper than to write it out."""
        names = [a.atom for a in (*map(as_int, self.points.axes), *self.axes)]
        extents = [v.extent.const for v in names if isinstance(v, Var) and v.extent is not None]
        known = [e for e in extents if e is not None]
        points = math.prod(known)
        if len(known) < len(extents) or points > _MOST_POINTS:
            return False
        grid = np.indices(known).reshape(len(known), points)
        env = dict(zip(names, grid, strict=True))
        inside = evaluate(conj(*self.guards), env)  # type: ignore[arg-type]
        count = int(np.broadcast_to(inside, grid.shape[1:]).sum())
        return count == len(self.points.places)

    def body(self, table: WrittenOut) -> Term:
        dtype = self.points.tensors[0].dtype
        unit = identity(table.op, dtype)
        assert unit is not None
        product: Term | None = None
        for tensor, var in enumerate(self.points.tensors):
            element = load(var, tuple(self.indices[tensor, d] for d in range(len(var.shape))))
            product = element if product is None else call("mul", (product, element), dtype)
        assert product is not None
        axes = tuple(a.atom for a in self.axes)
        guarded = ite(conj(*self.guards), product, unit)
        out = canonical(reduce(table.op, axes, guarded, unit, dtype))  # type: ignore[arg-type]
        if self.points.coefficient == Fraction(1):
            return out
        return call("mul", (const(float(self.points.coefficient), dtype), out), dtype)
