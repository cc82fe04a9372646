"""Element by element: the axes that can be are one, and vectors along the contiguous one.

out[i, j] = f(x[i, j], b[j])
"""

from __future__ import annotations

from typing import Any

from ....analysis import Refusal
from ..axes import extent
from ..emit import Nest
from ..kernel import Kernel
from ..machine import Machine
from ..program import Axis
from ..tile import Tile, columns
from ..tir import dtype_of
from . import rule

#: Vectors in one step of the loop.
UNROLL = 4


@rule("pointwise", precedence=10)
def pointwise(kernel: Kernel, machine: Machine) -> Any | Refusal:
    if kernel.reduced:
        return Refusal("something is reduced")
    j = max(kernel.axes, key=lambda a: _value(kernel, a), default=None)
    others = [a for a in kernel.axes if a is not j]
    lanes = min(machine.lanes(dtype_of(r.value)) for r in kernel.results)
    wide = UNROLL
    if j is not None and j.static is not None:
        found = columns(j.static, lanes)
        lanes, wide = found[0][1], min(UNROLL, len(found))
    order = others if j is None else [*others, j]
    return Nest(kernel, machine, Tile(1, wide, lanes), order, None, j)()


def _value(kernel: Kernel, a: Axis) -> tuple[int, int, int]:
    stores = sum(x.step(a.var) == 1 for x in kernel.writes)
    loads = sum(x.step(a.var) in (0, 1) for x in kernel.late)
    return 2 * stores + loads, kernel.axes.index(a), extent(a)
