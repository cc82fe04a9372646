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
from tvm import tirx

from ....analysis.blocks.definitions import BlockDefinition
from ....analysis.blocks.expand import Expander, Let
from ....analysis.blocks.loop_steps import Axis, LoopStep, Update
from ....analysis.blocks.strides import StridedAccess, strided_access
from ....analysis.blocks.tir import Values, integer, is_guard, loads, static, values
from ....analysis.lifting.tir.node import NodeDict, as_dtype, items, substitute
from ....analysis.terms.flat import volume
from ....layout.access.copies import copies
from ...dims.symbolic_dims import variables
from .inlined_blocks import inline_blocks
from .program import LoopProgram
from .strided_access import analyzer_of
from .symbolic_sizes import UNBOUNDED, Bounds, SymbolicSizes


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

    def bounds(self, axis: Axis) -> Bounds:
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
class Plain:
    """A step that keeps its original loops, and why."""

    step: LoopStep
    reason: str


Part = Kernel | Plain


def parts(program: LoopProgram) -> list[Part]:
    """Return the kernels of a program, in topological order."""
    # what keeps its loops keeps its reads
    kept = [b for s in program.steps if _why_plain(s) for b, _ in s.reads.items()]
    steps, definitions = inline_blocks(program, kept)
    anchors = _epilogues(steps, program.inner, definitions)
    fused = {id(r) for r in anchors.values()}
    out: list[Part] = []
    for step in steps:
        if id(step) in fused:
            continue
        anchor = anchors.get(id(step))
        if anchor is None:
            part = _part(step, definitions)
        else:
            part = _merged(anchor, step, definitions, program.sizes)
        if isinstance(part, Kernel):
            part = replace(part, twice=twice(part, program.inner), sizes=program.sizes)
        out.append(part)
    return out


def twice(kernel: Kernel, inner: NodeDict[None]) -> bool:
    """Return whether elements may be computed twice; see `Kernel`."""
    within = any(r.buffer in inner for r in kernel.results)
    return not (within and any(a.buffer in inner for a in (*kernel.reads, *kernel.late)))


def _epilogues(
    steps: Sequence[LoopStep], inner: NodeDict[None], definitions: NodeDict[BlockDefinition]
) -> dict[int, LoopStep]:
    """Map the ids of spatial steps to the reductions that only they read, to fuse the two."""
    out: dict[int, LoopStep] = {}
    readers: NodeDict[list[LoopStep]] = NodeDict()
    for step in steps:
        for buffer, _ in _inlined_reads(step, definitions).items():
            readers[buffer] = [*(readers.get(buffer) or ()), step]
    for reduction in steps:
        if not reduction.reduced or not all(b in inner for b in reduction.writes):
            continue
        reading = [s for b in reduction.writes for s in readers.get(b) or ()]
        others = {id(s): s for s in reading if s is not reduction}
        if len(others) != 1:
            continue
        (epilogue,) = others.values()
        if id(epilogue) not in out and _joins(reduction, epilogue, definitions):
            out[id(epilogue)] = reduction
    return out


def _inlined_reads(step: LoopStep, definitions: NodeDict[BlockDefinition]) -> NodeDict[None]:
    """Return the buffers that a step reads after inlining."""
    seen: NodeDict[None] = NodeDict()

    def visit(buffer: Any) -> None:
        if buffer in seen:
            return
        seen[buffer] = None
        definition = definitions.get(buffer)
        if definition is not None:
            for expr in loads(definition.value):
                visit(expr.source)

    for buffer, _ in step.reads.items():
        visit(buffer)
    return seen


def _joins(reduction: LoopStep, epilogue: LoopStep, definitions: NodeDict[BlockDefinition]) -> bool:
    """Return whether a step reads each element of a reduction once, at a single index."""
    if epilogue.reduced or not epilogue.updates or not _direct(reduction):
        return False
    if any(isinstance(_part(step, definitions), Plain) for step in (reduction, epilogue)):
        return False
    if volume(reduction.stage.writes[0].shape) is not volume(epilogue.stage.writes[0].shape):
        return False
    return len(_places(reduction, epilogue, definitions)) == 1


def _direct(step: LoopStep) -> bool:
    """Return whether the results of a reduction are indexed by its spatial axes, one each."""
    if not step.updates or any(not _same(u.indices, step.updates[0].indices) for u in step.updates):
        return False
    used = [i for i in step.updates[0].indices if static(i) != 0]
    return all(sum(i.same_as(a.var) for a in step.spatial) == 1 for i in used) and all(
        sum(i.same_as(axis.var) for i in used) == 1 or axis.static == 1 for axis in step.spatial
    )


def _places(
    reduction: LoopStep, epilogue: LoopStep, definitions: NodeDict[BlockDefinition]
) -> list[tuple[Any, ...] | None]:
    """Return the indices at which a step reads a reduction; None for a guarded read."""
    expand = Expander(definitions)
    exprs = [expand(u.value) for u in epilogue.updates] + [x for _, x in expand.lets]
    places: list[tuple[Any, ...] | None] = []

    def load(node: Any, visitor: Any) -> None:
        index = tuple(items(node.indices))
        if not any(node.source.same_as(b) for b in reduction.writes):
            visitor.default_visit(node)
        elif not any(p is not None and _same(index, p) for p in places):
            places.append(index)

    def guard(node: Any, visitor: Any) -> None:
        if isinstance(node, tvm.ir.Call) and not is_guard(node):
            visitor.default_visit(node)
        elif any(e.source.same_as(b) for e in loads(node) for b in reduction.writes):
            places.extend((None, None))

    rules = [(tvm.ir.TensorLoad, load), (tvm.ir.Call, guard), (tirx.Select, guard)]
    for expr in exprs:
        tvm_ffi.structural_visit(expr, rules)
    return places


def _same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(map(tvm_ffi.structural_equal, a, b))


def _coupled(updates: Sequence[Update]) -> bool:
    """Return whether an update reads the buffer of another, as in an argmax."""
    for update in updates:
        for expr in loads(update.value):
            if any(expr.source.same_as(o.buffer) for o in updates if o is not update):
                return True
    return False


def _part(step: LoopStep, definitions: NodeDict[BlockDefinition]) -> Part:
    """Convert a step to a kernel."""
    reason = _why_plain(step)
    if reason:
        return Plain(step, reason)
    if not step.reduced:
        return _spatial(step, definitions)
    accumulators, before = _reduction(step, definitions)
    results = tuple(KernelOutput(u.buffer, u.indices, a.var)
                    for u, a in zip(step.updates, accumulators, strict=True))  # fmt: skip
    return Kernel(step.spatial, step.reduced, accumulators, before, (), results,
                  step.stage.block.name_hint)  # fmt: skip


def _why_plain(step: LoopStep) -> str:
    """Return why a step keeps its loops; empty if it is a kernel."""
    if not step.updates:
        return "its body does more than update elements of its own"
    if _coupled(step.updates):
        return "its results depend on one another"
    if not step.reduced:
        read = [e.source for u in step.updates for e in loads(u.value)]
        same = any(source.same_as(b) for b in step.writes for source in read)
        return "it reads what it writes" if same else ""
    by_buffer = {u.buffer.__chandle__(): u for u in step.updates}
    if any(u.init is None for u in step.updates):
        return "a reduction has no initial value"
    used = [v for u in step.updates for e in (*u.indices, u.init) for v in variables(e)]
    if any(v.same_as(axis.var) for v in used for axis in step.reduced):
        return "a reduction stores at an index with a reduced axis"
    if any(not _at_store(e, by_buffer) for u in step.updates for e in loads(u.value)):
        return "a reduction reads other elements of its result"
    return ""


def _at_store(expr: Any, by_buffer: dict[int, Update]) -> bool:
    update = by_buffer.get(expr.source.__chandle__())
    return update is None or _same(items(expr.indices), update.indices)


def _spatial(step: LoopStep, definitions: NodeDict[BlockDefinition]) -> Part:
    expand = Expander(definitions)
    results = tuple(KernelOutput(u.buffer, u.indices, expand(u.value)) for u in step.updates)
    kernel = Kernel(step.axes, (), (), (), tuple(expand.lets), results, step.stage.block.name_hint)
    is_copy = copies(step.stage) and loads(step.updates[0].value)[0].source not in definitions
    return replace(kernel, copy=is_copy)


def _reduction(
    step: LoopStep, definitions: NodeDict[BlockDefinition]
) -> tuple[tuple[Accumulator, ...], tuple[Let, ...]]:
    """Return the accumulators of a reduction, and the bindings that they need."""
    expand = Expander(definitions)
    acc_vars: NodeDict[Any] = NodeDict()
    for update in step.updates:
        acc_vars[update.buffer] = tirx.Var("acc", str(update.buffer.ty.dtype))
    accumulators = []
    for update in step.updates:
        value = expand(loaded(update.value, acc_vars))
        assert update.init is not None
        accumulators.append(
            Accumulator(acc_vars[update.buffer], str(update.buffer.ty.dtype), update.init, value)
        )
    return tuple(accumulators), tuple(expand.lets)


def loaded(expr: Any, replacements: NodeDict[Any]) -> Any:
    """Replace the loads of some buffers in an expression by variables."""

    def load(node: Any, mutator: Any) -> Any:
        var = replacements.get(node.source)
        return mutator.default_mutate(node) if var is None else var

    return tvm_ffi.structural_mutate(expr, [(tvm.ir.TensorLoad, load)])


def _merged(
    reduction: LoopStep,
    epilogue: LoopStep,
    definitions: NodeDict[BlockDefinition],
    sizes: SymbolicSizes,
) -> Part:
    """Fuse a reduction and the step that reads it, over the axes of the latter."""
    kernel = _part(reduction, definitions)
    if isinstance(kernel, Plain):  # excluded by _joins
        raise AssertionError(kernel.reason)
    (place,) = _places(reduction, epilogue, definitions)
    assert place is not None
    analyzer = analyzer_of(epilogue.axes, sizes)
    at = values(*((a.var, integer(0, a.var)) for a in reduction.spatial))
    for i, target in zip(place, reduction.updates[0].indices, strict=True):
        if static(target) != 0:
            at[target] = as_dtype(analyzer.simplify(i), str(target.ty.dtype))
    moved = kernel.at(at, epilogue.axes, kernel.reduced)
    acc_vars: NodeDict[Any] = NodeDict()
    for update, accumulator in zip(reduction.updates, moved.accumulators, strict=True):
        acc_vars[update.buffer] = accumulator.var
    expand = Expander(definitions)
    stored = [expand(u.value) for u in epilogue.updates]
    results = tuple(KernelOutput(u.buffer, u.indices, loaded(e, acc_vars))
                    for u, e in zip(epilogue.updates, stored, strict=True))  # fmt: skip
    after = tuple((v, loaded(e, acc_vars)) for v, e in expand.lets)
    return replace(moved, after=after, results=results)
