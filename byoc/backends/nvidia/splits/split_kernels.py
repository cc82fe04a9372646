"""A PrimFunc as several, between which the parts of divided reductions are kept.

Before: f(x, y):     s += x[i];  y[i] = x[i] - s / n
After:  f0(x, part): part[p] += x[p * m + t]
        f1(part, m): s += part[p];  m = s / n
        f2(x, m, y): y[i] = x[i] - m
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from .....analysis import Refusal
from .....analysis.blocks.blocks import standard
from .....analysis.blocks.loop_steps import LoopStep, built_step
from .....analysis.blocks.tir import seq
from .....analysis.lifting.tir.node import NodeDict, items
from ..schedules.program.gpu_program import (
    GpuProgram,
    NoGpuSchedule,
    extents,
    product,
    read_program,
)
from .deviations import deviations
from .row_values import row_values
from .split_blocks import split_blocks
from .split_plan import SplitPlan, split_plan


@dataclass(frozen=True)
class PartKernel:
    """A PrimFunc over buffers of the one that was divided, and buffers between its parts."""

    func: Any
    reads: tuple[Any, ...]
    writes: tuple[Any, ...]


@dataclass(frozen=True)
class _Nest:
    """A loop nest around a block."""

    stmt: Any
    step: LoopStep

    @property
    def size(self) -> int:
        return product(extents(self.step.spatial))

    @property
    def writes(self) -> list[Any]:
        return [u.buffer for u in self.step.updates]

    @property
    def reads(self) -> list[Any]:
        writes = self.writes
        return [b for b, _ in self.step.reads.items() if not any(b.same_as(w) for w in writes)]


@dataclass(frozen=True)
class _Group:
    """The nests of a kernel, and the buffers that it reads from memory."""

    target: tuple[_Nest, ...]
    wanted: tuple[_Nest, ...]
    reads: NodeDict[None]


def split_kernels(func: Any) -> tuple[PartKernel, ...] | Refusal:
    """Return the PrimFuncs that compute in order what ``func`` does, with divided reductions."""
    try:
        program = read_program(func, False)
        return _Splitter(func, program).kernels()
    except NoGpuSchedule as error:
        return Refusal(str(error))


class _Splitter:
    """Collects the loop nests of the parts, and groups them to kernels."""

    def __init__(self, func: Any, program: GpuProgram) -> None:
        self.func, self.program = func, program
        self.nests: list[_Nest] = []
        self.targets: list[list[_Nest]] = []  # what each kernel is for
        self.sums: list[tuple[LoopStep, SplitPlan, Any, int]] = []  # their parts, and the target
        self.between: NodeDict[None] = NodeDict()  # buffers that one kernel writes for others
        self.divide()

    def divide(self) -> None:
        """Replace reductions that several blocks should share."""
        root = self.func.body.block
        stmts = items(root.body.seq) if isinstance(root.body, tirx.SeqStmt) else [root.body]
        stages, _ = standard(self.func)
        reductions = NodeDict[LoopStep]()
        for step in self.program.steps:
            if step.reduced:
                reductions[step.stage.realize] = step
        totals = NodeDict[None]()  # of divided reductions
        for stmt, stage in zip(stmts, stages, strict=True):
            reduction = reductions.get(stage.realize)
            plan = None if reduction is None else split_plan(self.program, reduction)
            if reduction is None:
                self.add_step(stmt, totals)
                continue
            if plan is None:
                self.add(stmt, kept=True)
                continue
            for update in reduction.updates:
                totals[update.buffer] = None
            if not plan.divides:
                self.add(stmt, kept=True)
                continue
            self.add_parts(reduction, plan)
        if not totals.items():
            raise NoGpuSchedule("one block of threads does for each reduction")

    def add_parts(self, step: LoopStep, plan: SplitPlan) -> None:
        """Add the blocks of a divided reduction.

        Deviations from a mean are in the kernels of the sum that gives the mean.
        """
        found = ((around, at) for *first, at in self.sums
                 if (around := deviations(self.program, tuple(first), step, plan)))  # fmt: skip
        around, at = next(found, (None, None))
        blocks = split_blocks(step, plan, around)
        second = blocks.second
        first, *others = items(second.seq) if isinstance(second, tirx.SeqStmt) else [second]
        if at is None:
            at = len(self.targets)
            self.targets += [[], []]
            self.sums.append((step, plan, blocks.parts[0], at))
        for k, stmt in enumerate((blocks.first, first)):
            self.add(stmt, kept=False)
            self.targets[at + k].append(self.nests[-1])
        for other in others:
            self.add(other, kept=False)

    def add_step(self, stmt: Any, totals: NodeDict[None]) -> None:
        """Add what is not a reduction; what it computes from totals alone goes to their kernel."""
        self.add(stmt, kept=False)
        nest = self.nests[-1]
        steps = row_values(_Block(stmt).block, nest.step.spatial, totals)
        if steps is None:
            return
        self.nests.pop()
        for values in steps[0]:
            self.add(values, kept=False)
            self.targets[-1].append(self.nests[-1])
        self.add(steps[1], kept=False)

    def add(self, stmt: Any, kept: bool) -> None:
        nest = _Nest(stmt, built_step(_Block(stmt)))  # the program's steps were checked
        self.nests.append(nest)
        if kept:
            self.targets.append([nest])

    # ------------------------------------------------------------------ kernels

    def kernels(self) -> tuple[PartKernel, ...]:
        params = NodeDict[None]()
        for p in items(self.func.params):
            if not is_buffer_var(p):
                raise NoGpuSchedule(f"{p.name} is not a buffer")
            params[p] = None
        known = [n for t in self.targets for n in t]
        last = [n for n in self.nests if any(b in params for b in n.writes)
                and not any(n is k for k in known)]  # fmt: skip
        if last and all(n.size <= self.targets[-1][-1].size for n in last):
            self.targets[-1] += last
        elif last:
            self.targets.append(last)
        for n in (n for target in self.targets for n in target):
            for buffer in n.writes:
                self.between[buffer] = None
        groups = [self.group(target) for target in self.targets]
        return tuple(self.kernel(g, self.outputs(g, groups, params)) for g in groups)

    def group(self, target: Sequence[_Nest]) -> _Group:
        """A kernel's nests: its target, and the definitions that this reads."""
        writers = NodeDict[_Nest]()
        for n in self.nests:
            for buffer in n.writes:
                writers[buffer] = n
        needed, queue, reads = list(target), list(target), NodeDict[None]()
        while queue:
            for buffer in queue.pop().reads:
                writer = writers.get(buffer)
                if any(writer is w for w in needed):
                    continue
                if writer is None or buffer in self.between:
                    reads[buffer] = None
                    continue
                needed.append(writer)
                queue.append(writer)
        return _Group(tuple(target), tuple(needed), reads)

    def outputs(
        self, group: _Group, groups: Sequence[_Group], params: NodeDict[None]
    ) -> tuple[Any, ...]:
        """What a kernel computes for others, and results."""
        others = [g for g in groups if g is not group]
        written = (b for n in group.target for b in n.writes)
        return tuple(b for b in written if b in params or any(b in g.reads for g in others))

    def kernel(self, group: _Group, writes: tuple[Any, ...]) -> PartKernel:
        reads = tuple(b for b, _ in group.reads.items())
        ordered = [n for n in self.nests if any(n is w for w in group.wanted)]
        inner = [b for n in ordered for b in n.writes if not any(b.same_as(w) for w in writes)]
        stmts = seq([n.stmt for n in ordered])
        root = tvm.s_tir.SBlock([], [], [], "root", stmts, None, inner)
        body = tvm.s_tir.SBlockRealize([], tirx.IntImm("bool", True), root)
        func = tirx.PrimFunc([*reads, *writes], body, self.func.ret_type, self.func.attrs)
        return PartKernel(func.without_attr("global_symbol"), reads, writes)


@dataclass(frozen=True)
class _Block:
    """The block of a loop nest."""

    stmt: Any

    @property
    def block(self) -> Any:
        inner = self.stmt
        while isinstance(inner, tirx.For):
            inner = inner.body
        return inner.block
