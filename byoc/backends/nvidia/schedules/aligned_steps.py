"""Steps over the same axes: what they read and write, and along which axes vectors may run."""

from __future__ import annotations

from typing import Any

import tvm_ffi

from .....analysis.blocks.loop_steps import LoopStep, Update
from .....analysis.blocks.strides import strided_access
from .....analysis.blocks.tir import Values, loads, values
from .....analysis.lifting.tir.node import NodeDict, items, substitute
from .program.combiners import combinations
from .program.gpu_program import (
    GpuProgram,
    NoGpuSchedule,
    expanded,
    extents,
    is_coupled,
    itemsize,
    product,
)
from .program.merged_axes import MergedAxes, axis_range, bound, merged
from .program.vector_loads import narrowest_item, widest

#: Bytes of a result that a thread has side by side.
STORED = 16


class AlignedSteps:
    """Steps over the same axes, where each reads only what it computes at the same place.

    Raises:
        NoGpuSchedule: The steps are over different axes, or reduce many terms.
    """

    def __init__(self, program: GpuProgram, most: int) -> None:
        self.program = program
        self.steps = steps = program.steps
        self.axes = steps[-1].spatial
        if any(extents(s.spatial) != extents(self.axes) for s in steps):
            raise NoGpuSchedule("the steps are over different axes")
        for step in steps:
            if is_coupled(step):
                combinations(step)  # no other rule takes long ones
            elif step.reduced and product(extents(step.reduced)) > most:
                raise NoGpuSchedule("a reduction has many terms")
            if not step.reduced and any(u.buffer not in program.params for u in step.updates):
                raise NoGpuSchedule("a result is kept")
        self.check_reuse()

    def check_reuse(self) -> None:
        """Results of reductions are read where they are computed."""
        written = NodeDict[Update]()
        for step in self.steps:
            for update in step.updates:
                for expr in self.loads(update):
                    if (source := written.get(expr.source)) is not None:
                        self.check_place(step, expr, source)
            for update in step.updates:
                written[update.buffer] = update

    def check_place(self, step: LoopStep, expr: Any, source: Update) -> None:
        owner = next(s for s in self.steps if any(u is source for u in s.updates))
        index = [substitute(i, self.renamed(owner)) for i in source.indices]
        read = [substitute(i, self.renamed(step)) for i in items(expr.indices)]
        if not all(tvm_ffi.structural_equal(a, b) for a, b in zip(index, read, strict=True)):
            raise NoGpuSchedule("a step reads elements of other threads")

    def loads(self, update: Update) -> list[Any]:
        return [e for part in self.parts(update) for e in loads(part)]

    def parts(self, update: Update) -> list[Any]:
        lets, value = expanded(update.value, self.program.definitions)
        return [*(e for _, e in lets), value]

    def renamed(self, step: LoopStep) -> Values:
        """The axes of a step as those of the last."""
        return values(*((a.var, b.var) for a, b in zip(step.spatial, self.axes, strict=True)))

    def merged(self) -> MergedAxes:
        exprs, accesses, variables = [], [], [a.var for a in self.axes]
        analyzer = bound(self.axes)
        for step in self.steps:
            at = self.renamed(step)
            for axis in step.reduced:
                analyzer.bind(axis.var, axis_range(axis))
            for update in step.updates:
                parts = [substitute(e, at) for e in self.parts(update)]
                exprs += parts
                reads = [(e.source, items(e.indices)) for part in parts for e in loads(part)]
                writes = [(update.buffer, [substitute(i, at) for i in update.indices])]
                accesses += [strided_access(b, i, variables, analyzer) for b, i in reads + writes]
        return merged(self.axes, accesses, exprs)

    def buffers_used(self) -> list[Any]:
        out = []
        for step in self.steps:
            for update in step.updates:
                out += [update.buffer, *(e.source for e in self.loads(update))]
        return out

    def width(self, groups: MergedAxes) -> int:
        """The elements of a thread: few of wide results, so that neighbours store together."""
        stored = max(itemsize(u.buffer) for s in self.steps for u in s.updates
                     if u.buffer in self.program.params)  # fmt: skip
        most = widest(narrowest_item(self.buffers_used()), groups.sizes[-1] if groups.sizes else 1)
        return max(1, min(most, STORED // stored))
