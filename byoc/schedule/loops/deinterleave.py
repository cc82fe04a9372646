"""Copy every n-th element by whole vectors and shuffles.

Before: for l in vectorized(4): q[x + l] = p[2 * (x + l) + 1]                 four scalar loads
After:  q[x : x + 4] = shuffle(p[2 * x + 1 : 2 * x + 5], p[2 * x + 4 : 2 * x + 8], [0, 2, 5, 7])

LLVM loads the elements of a strided vector one by one. The last vector is moved back so that it
ends with the last element that is needed: nothing beyond it is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx

from ....analysis.blocks.loop_steps import Axis
from ....analysis.blocks.tir import (
    Values,
    dtype_of,
    integer,
    is_guard,
    loads,
    loop,
    mentions,
    seq,
    values,
)
from ....analysis.lifting.tir.node import items, substitute
from ..nest.kernel import Kernel, KernelOutput
from .loop_nest import LoopNest
from .runs import AxisRun, Columns, Rows

#: Strides that are shuffled, and the fewest lanes.
STRIDES, FEWEST = (2, 3, 4), 4
#: TVM lowers vectors of other element types by passes that do not know shuffles.
DTYPES = ("float16", "float32", "float64", "int16", "int32", "int64")


@dataclass(frozen=True)
class StridedCopy:
    """``output.buffer[output.indices] = load if condition else other``; both may be None."""

    output: KernelOutput
    load: Any
    stride: int
    condition: Any = None
    other: Any = None


def strided_copy(kernel: Kernel, axis: Axis) -> StridedCopy | None:
    """Return the copy that a kernel makes at a constant distance along an axis, if it is one."""
    if kernel.reduced or kernel.after or len(kernel.results) != 1 or len(kernel.late) != 1:
        return None
    (output,), (read,), (write,) = kernel.results, kernel.late, kernel.writes
    stride = read.step(axis.var)
    if stride is None or stride not in STRIDES or write.step(axis.var) != 1:
        return None
    value, condition, other = output.value, None, None
    if is_guard(value):
        condition, value, other = value.args
        literal = isinstance(other, tirx.FloatImm | tirx.IntImm)
        if not literal or axis.var in mentions(condition):
            return None
    if not isinstance(value, tvm.ir.TensorLoad) or dtype_of(value) not in DTYPES:
        return None
    outer = (*items(value.indices)[:-1], *output.indices[:-1])
    if any(axis.var in mentions(i) for i in outer) or loads(items(value.indices)[-1]):
        return None
    return StridedCopy(output, value, stride, condition, other)


@dataclass
class Deinterleaved(LoopNest):
    """The loop nest of a strided copy."""

    copy: StridedCopy | None = None

    def micro(self, rows: Rows, cols: Columns) -> Any:
        if any(run.lanes < FEWEST for run in cols):
            return super().micro(rows, cols)
        return seq([self.vector_run(run) for run in cols])

    def vector_run(self, run: AxisRun) -> Any:
        assert self.vector_axis is not None
        var = self.vector_axis.var

        def store(vector: Any) -> Any:
            return self._store(values(*self.at.items(), (var, run.at(vector))), run.lanes)

        return loop("c", run.count, var, store, tirx.ForKind.UNROLLED)

    def _store(self, at: Values, lanes: int) -> Any:
        """Return the store of the vector that starts at the values of the axes."""
        copy = self.copy
        assert copy is not None
        *outer, first = (substitute(i, at) for i in items(copy.load.indices))
        value: Any = tirx.Shuffle(
            [tirx.BufferLoad(copy.load.source, [*outer, _ramp(first, start, lanes)])
             for start in _starts(copy.stride, lanes)],
            _places(copy.stride, lanes))  # fmt: skip
        if copy.condition is not None:
            other = tirx.Broadcast(copy.other, lanes)
            value = tirx.if_then_else(substitute(copy.condition, at), value, other)
        *outer, first = (substitute(i, at) for i in copy.output.indices)
        return tirx.BufferStore(copy.output.buffer, value, [*outer, _ramp(first, 0, lanes)])


def _ramp(first: Any, start: int, lanes: int) -> Any:
    return tirx.Ramp(first + integer(start, first), integer(1, first), lanes)


def _starts(stride: int, lanes: int) -> list[int]:
    """Return where contiguous vectors start that contain every element of a strided one.

    >>> _starts(2, 4), _starts(3, 4)
    ([0, 3], [0, 4, 6])
    """
    return [*(k * lanes for k in range(stride - 1)), (stride - 1) * (lanes - 1)]


def _places(stride: int, lanes: int) -> list[int]:
    """Return the places of the elements in the concatenation of the vectors of `_starts`.

    >>> _places(2, 4), _places(3, 4)
    ([0, 2, 5, 7], [0, 3, 6, 11])
    """
    last = (stride - 1) * lanes
    return [p if p < last else p + stride - 1 for p in range(0, stride * lanes, stride)]
