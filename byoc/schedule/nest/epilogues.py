"""Epilogues: steps that read each element of a reduction once, so that one kernel computes both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ....analysis.blocks.definitions import BlockDefinition
from ....analysis.blocks.expand import Expander
from ....analysis.blocks.loop_steps import LoopStep
from ....analysis.blocks.tir import integer, is_guard, loads, static, values
from ....analysis.lifting.tir.node import NodeDict, as_dtype, items
from ....analysis.terms.row_major import volume
from .kernel import KernelOutput, Part, UnchangedStep
from .step_kernel import loaded, same_indices, step_kernel
from .strided_access import analyzer_of
from .symbolic_sizes import SymbolicSizes


def epilogues(
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
    if any(
        isinstance(step_kernel(step, definitions), UnchangedStep) for step in (reduction, epilogue)
    ):
        return False
    if volume(reduction.stage.writes[0].shape) is not volume(epilogue.stage.writes[0].shape):
        return False
    return len(places_read(reduction, epilogue, definitions)) == 1


def _direct(step: LoopStep) -> bool:
    """Return whether the results of a reduction are indexed by its spatial axes, one each."""
    if not step.updates or any(
        not same_indices(u.indices, step.updates[0].indices) for u in step.updates
    ):
        return False
    used = [i for i in step.updates[0].indices if static(i) != 0]
    return all(sum(i.same_as(a.var) for a in step.spatial) == 1 for i in used) and all(
        sum(i.same_as(axis.var) for i in used) == 1 or axis.static == 1 for axis in step.spatial
    )


def places_read(
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
        elif not any(p is not None and same_indices(index, p) for p in places):
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


def fused_kernel(
    reduction: LoopStep,
    epilogue: LoopStep,
    definitions: NodeDict[BlockDefinition],
    sizes: SymbolicSizes,
) -> Part:
    """Fuse a reduction and the step that reads it, over the axes of the latter."""
    kernel = step_kernel(reduction, definitions)
    if isinstance(kernel, UnchangedStep):  # excluded by _joins
        raise AssertionError(kernel.reason)
    (place,) = places_read(reduction, epilogue, definitions)
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
