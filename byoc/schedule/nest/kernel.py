"""Kernels: what one loop nest computes, independent of the loop order.

For every point of ``axes``, the accumulators start at ``init`` and apply ``update`` over
``reduced``; then ``results`` are computed from them and stored.

    matmul + bias + relu:  axes (i, j), reduced (k), one accumulator
        init 0, update acc + x[i, k] * w[k, j];  out[i, j] = max(acc + b[j], 0)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import tvm
import tvm_ffi

from ....analysis.blocks.expand import Let
from ....analysis.blocks.loop_steps import Axis, LoopStep
from ....analysis.blocks.strides import StridedAccess, strided_access
from ....analysis.blocks.tir import Values, loads
from ....analysis.lifting.tir.node import NodeDict, items, substitute
from .strided_access import analyzer_of
from .symbolic_sizes import UNBOUNDED, SizeBounds, SymbolicSizes


@dataclass(frozen=True)
class Accumulator:
    """A value that a reduction updates; ``var`` stands for it in ``update`` and in results."""

    var: Any
    dtype: str
    init: Any
    update: Any


@dataclass(frozen=True)
class KernelOutput:
    """``buffer[indices] = value``."""

    buffer: Any
    indices: tuple[Any, ...]
    value: Any


@dataclass(frozen=True)
class Kernel:
    """The computation of a loop nest.

    ``before`` is bound at every point of the reduction, ``after`` before the stores. ``twice`` says
    whether elements may be computed twice; they must not if TVM may let an inner result reuse the
    memory of an operand. ``sizes`` bounds symbolic extents.
    """

    axes: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    accumulators: tuple[Accumulator, ...]
    before: tuple[Let, ...]
    after: tuple[Let, ...]
    results: tuple[KernelOutput, ...]
    name: str = ""
    twice: bool = True
    copy: bool = False
    sizes: SymbolicSizes = UNBOUNDED

    def bounds(self, axis: Axis) -> SizeBounds:
        """Return the bounds of an axis's extent."""
        return self.sizes.of(axis.extent)

    @property
    def all_axes(self) -> tuple[Axis, ...]:
        return self.axes + self.reduced

    @cached_property
    def analyzer(self) -> Any:
        return analyzer_of(self.all_axes, self.sizes)

    @cached_property
    def reads(self) -> tuple[StridedAccess, ...]:
        """Accesses at every point of the reduction."""
        return self._accesses([a.update for a in self.accumulators] + [e for _, e in self.before])

    @cached_property
    def late(self) -> tuple[StridedAccess, ...]:
        """Accesses of the stored values."""
        return self._accesses([r.value for r in self.results] + [e for _, e in self.after])

    @cached_property
    def writes(self) -> tuple[StridedAccess, ...]:
        axes = [a.var for a in self.all_axes]
        return tuple(strided_access(r.buffer, r.indices, axes, self.analyzer) for r in self.results)

    def _accesses(self, parts: Sequence[Any]) -> tuple[StridedAccess, ...]:
        axes = [a.var for a in self.all_axes]
        return tuple(strided_access(e.source, items(e.indices), axes, self.analyzer)
                     for p in parts for e in loads(p))  # fmt: skip

    @cached_property
    def value_vars(self) -> NodeDict[None]:
        """The variables that occur outside the indices of loads and stores."""
        used: NodeDict[None] = NodeDict()
        parts = [a.update for a in self.accumulators] + [e for _, e in (*self.before, *self.after)]
        rules = [(tvm.ir.TensorLoad, lambda expr, visitor: None),
                 (tvm.ir.Var, lambda var, visitor: _note(used, var))]  # fmt: skip
        for value in [*parts, *(r.value for r in self.results)]:
            tvm_ffi.structural_visit(value, rules)
        return used

    def at(self, where: Values, axes: tuple[Axis, ...], reduced: tuple[Axis, ...]) -> Kernel:
        """Return the kernel over new axes; ``where`` maps old axes to their values."""
        return replace(self.mapped(lambda e: substitute(e, where)), axes=axes, reduced=reduced)

    def with_reads(self, put: Callable[[Any], Any]) -> Kernel:
        """Return the kernel with another form of what is read at every point of the reduction."""
        return replace(
            self,
            accumulators=tuple(replace(a, update=put(a.update)) for a in self.accumulators),
            before=tuple((v, put(e)) for v, e in self.before),
        )

    def mapped(self, put: Callable[[Any], Any]) -> Kernel:
        """Return the kernel with another form of each expression, over the same axes."""
        return replace(
            self,
            accumulators=tuple(
                replace(accumulator, init=put(accumulator.init), update=put(accumulator.update))
                for accumulator in self.accumulators
            ),
            before=tuple((v, put(e)) for v, e in self.before),
            after=tuple((v, put(e)) for v, e in self.after),
            results=tuple(
                KernelOutput(output.buffer, tuple(map(put, output.indices)), put(output.value))
                for output in self.results
            ),
        )


def _note(seen: NodeDict[None], var: Any) -> None:
    seen[var] = None


@dataclass(frozen=True)
class UnchangedStep:
    """A step that keeps its original loops, and why."""

    step: LoopStep
    reason: str


Part = Kernel | UnchangedStep
