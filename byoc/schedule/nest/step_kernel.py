"""Convert a step of a program to a kernel, or say why it keeps its loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ....analysis.blocks.definitions import BlockDefinition
from ....analysis.blocks.expand import Expander, Let
from ....analysis.blocks.loop_steps import LoopStep, Update
from ....analysis.blocks.tir import loads
from ....analysis.lifting.tir.node import NodeDict, items
from ....layout.access.copies import copies
from ...dims.symbolic_dims import variables
from .kernel import Accumulator, Kernel, KernelOutput, Part, UnchangedStep


def _coupled(updates: Sequence[Update]) -> bool:
    """Return whether an update reads the buffer of another, as in an argmax."""
    for update in updates:
        for expr in loads(update.value):
            if any(expr.source.same_as(o.buffer) for o in updates if o is not update):
                return True
    return False


def step_kernel(step: LoopStep, definitions: NodeDict[BlockDefinition]) -> Part:
    """Return the kernel of a step; its accumulators are those of its own loops."""
    reason = why_plain(step)
    if reason:
        return UnchangedStep(step, reason)
    if not step.reduced:
        return _spatial(step, definitions)
    accumulators, before = _accumulators(step, definitions)
    results = tuple(KernelOutput(u.buffer, u.indices, a.var)
                    for u, a in zip(step.updates, accumulators, strict=True))  # fmt: skip
    return Kernel(step.spatial, step.reduced, accumulators, before, (), results,
                  step.stage.block.name_hint)  # fmt: skip


def why_plain(step: LoopStep) -> str:
    """Return why a step keeps its loops; empty if it becomes a kernel."""
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
    """Return whether a load of a result is of the element that is stored."""
    update = by_buffer.get(expr.source.__chandle__())
    return update is None or same_indices(items(expr.indices), update.indices)


def _spatial(step: LoopStep, definitions: NodeDict[BlockDefinition]) -> Kernel:
    """Return the kernel of a step without a reduction."""
    expand = Expander(definitions)
    results = tuple(KernelOutput(u.buffer, u.indices, expand(u.value)) for u in step.updates)
    kernel = Kernel(step.axes, (), (), (), tuple(expand.lets), results, step.stage.block.name_hint)
    is_copy = copies(step.stage) and loads(step.updates[0].value)[0].source not in definitions
    return replace(kernel, copy=is_copy)


def _accumulators(
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


def same_indices(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Return whether two buffers are indexed alike."""
    return len(a) == len(b) and all(map(tvm_ffi.structural_equal, a, b))
