"""Axes of a loop nest, adjacent ones merged where every access moves through them as through one.

for i, j: y[i, j] = x[i, j] + b[j]        (i), (j)
for i, j: y[i, j] = exp(x[i, j])          (i, j) as one axis f, i = f // n, j = f % n
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ......analysis.blocks.loop_steps import Axis
from ......analysis.blocks.strides import StridedAccess
from ......analysis.blocks.tir import Values, static
from ......analysis.lifting.tir.node import NodeDict, items
from .gpu_program import extents, product
from .thread_loops import number


@dataclass(frozen=True)
class MergedAxes:
    """Groups of adjacent axes; each group is one axis of the product of their extents."""

    groups: tuple[tuple[Axis, ...], ...]

    @property
    def sizes(self) -> list[int]:
        return [product(extents(group)) for group in self.groups]

    @property
    def total(self) -> int:
        return product(self.sizes)

    def at(self, positions: Sequence[Any], width: int = 1, lane: Any = 0) -> Values:
        """Return the value of every axis, given a position in each group.

        The last position counts vectors of ``width`` elements, of which ``lane`` is one. Only the
        innermost axis depends on the lane where its extent allows, as TVM does not simplify
        ``(8 * p + lane) % m // n`` otherwise.
        """
        out = Values()
        for group, position in zip(self.groups, positions, strict=True):
            vector = width if group is self.groups[-1] else 1
            fastest = next((a for a in reversed(group) if static(a.extent) != 1), group[-1])
            if (static(fastest.extent) or 1) % vector:
                position, vector = position * number(vector) + lane, 1
            inner = 1
            for k, axis in reversed(list(enumerate(group))):
                extent = (static(axis.extent) or 1) // (vector if axis is fastest else 1)
                value = position if inner == 1 else position // number(inner)
                value = value if k == 0 else value % number(extent)
                value = number(0) if extent == 1 else value
                if axis is fastest and vector > 1:
                    value = value * number(vector) + lane
                out[axis.var] = value
                inner *= extent
        return out

    def split(self, flat: Any) -> list[Any]:
        """Return the position in each group of a position in all of them."""
        return positions_in(self.sizes, flat)


def merged(
    axes: Sequence[Axis], accesses: Sequence[StridedAccess], exprs: Sequence[Any]
) -> MergedAxes:
    """Merge adjacent axes; ``exprs`` are all values, in which an axis may occur by itself."""
    alone = outside_loads(exprs)
    groups: list[list[Axis]] = []
    for axis in axes:
        if groups and _joins(groups[-1][-1], axis, accesses, alone):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return MergedAxes(tuple(map(tuple, groups)))


def _joins(
    outer: Axis, inner: Axis, accesses: Sequence[StridedAccess], alone: NodeDict[None]
) -> bool:
    if outer.var in alone or inner.var in alone:
        return static(outer.extent) == 1 or static(inner.extent) == 1
    for access in accesses:
        slow, fast = access.step(outer.var), access.step(inner.var)
        if static(outer.extent) == 1 or static(inner.extent) == 1:
            continue
        if slow is None or fast is None or slow != fast * (static(inner.extent) or 0):
            return False
    return True


def outside_loads(exprs: Sequence[Any]) -> NodeDict[None]:
    """Return the variables that occur outside indices of loads."""
    seen: NodeDict[None] = NodeDict()

    def note(var: Any, visitor: Any) -> None:
        seen[var] = None

    rules = [(tvm.ir.TensorLoad, lambda expr, visitor: None), (tvm.ir.Var, note)]
    for expr in exprs:
        tvm_ffi.structural_visit(expr, rules)
    return seen


def positions_of(groups: MergedAxes, place: Any, width: int) -> list[Any]:
    """The position in each group, of which the last counts vectors, of a vector of the last."""
    *outer, last = groups.sizes or [width]
    return positions_in([*outer, last // width], place) if groups.groups else []


def positions_in(sizes: Sequence[int], place: Any) -> list[Any]:
    """The position in each of some axes of these sizes, of a place in all of them."""
    out, inner = [], 1
    for k, size in reversed(list(enumerate(sizes))):
        value = place if inner == 1 else place // number(inner)
        value = value if k == 0 else value % number(size)
        out.append(number(0) if size == 1 else value)
        inner *= size
    return out[::-1]


def simplified(expr: Any, analyzer: Any) -> Any:
    """Return the expression with simplified indices and conditions; numbers stay as they are."""

    def load_at(node: Any, mutator: Any) -> Any:
        indices = [analyzer.simplify(mutator.mutate(i)) for i in items(node.indices)]
        return tirx.BufferLoad(node.source, indices)

    return tvm_ffi.structural_mutate(expr, [(tvm.ir.TensorLoad, load_at)])


def bound(axes: Sequence[Axis]) -> Any:
    """Return an analyzer that knows the domains of axes."""
    analyzer = tvm.sym.Analyzer()
    for axis in axes:
        analyzer.bind(axis.var, axis_range(axis))
    return analyzer


def static_range(extent: int) -> Any:
    return tvm.ir.Range(number(0), number(extent))


def axis_range(axis: Axis) -> Any:
    dtype = str(axis.var.ty.dtype)
    extent = static(axis.extent)
    return tvm.ir.Range(tirx.IntImm(dtype, 0), tirx.IntImm(dtype, extent or 1))
