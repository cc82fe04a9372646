"""Read a PrimFunc as steps over axes, with the blocks that readers evaluate themselves.

for i, k: s[i] += x[i, k]        for i: m[i] = s[i] / 7        for i, k: y[i, k] = x[i, k] - m[i]
steps: s over (i; k), y over (i, k); definition: m[i] = s[i] / 7
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.sym import detect_linear_equation

from ......analysis.blocks.block_terms import Opaque
from ......analysis.blocks.blocks import Stage, standard
from ......analysis.blocks.definitions import BlockDefinition, Undefined, resolve
from ......analysis.blocks.definitions import loads as loads_of
from ......analysis.blocks.expand import Expander
from ......analysis.blocks.inline import Use, inlinable
from ......analysis.blocks.loop_steps import Axis, LoopStep, loop_step
from ......analysis.blocks.tir import Values, calls, is_guard, loads, mentions, static
from ......analysis.lifting.tir.node import NodeDict, items, substitute
from .outer_axes import NotShared, check_coordinates, outer_axes


class NoGpuSchedule(Exception):
    """A rule does not apply; the message says why."""


@dataclass(frozen=True)
class GpuProgram:
    """What a PrimFunc computes: ``steps`` in order, over axes with static extents.

    ``kept`` are the spatial steps among them whose results are evaluated once per element because
    several steps read them; the readers of all other spatial blocks evaluate ``definitions``. The
    steps are for one coordinate of ``outer``, the symbolic axes.
    """

    func: Any
    steps: tuple[LoopStep, ...]
    definitions: NodeDict[BlockDefinition]
    kept: NodeDict[None]
    params: NodeDict[None]
    outer: tuple[Axis, ...] = ()


def read_program(
    func: Any, keep: bool, products: bool = False, symbolic: bool = False
) -> GpuProgram:
    """Return the steps of a PrimFunc.

    Args:
        func: A PrimFunc in TIR's standard form.
        keep: Keep the results of function calls that several steps read.
        products: Allow products of matrices, and convolutions of several channels.
        symbolic: Allow symbolic axes that all steps share.

    Raises:
        NoGpuSchedule: It has another form, other symbolic shapes, or parameters that may overlap.
    """
    if not bool((func.attrs or {}).get("tirx.noalias", False)):
        raise NoGpuSchedule("the parameters may overlap: the attribute tirx.noalias is missing")
    try:
        stages, _ = standard(func)
    except Opaque as error:
        raise NoGpuSchedule(error.reason) from None
    inner, params = NodeDict[None](), NodeDict[None]()
    for buffer in items(func.body.block.alloc_buffers):
        inner[buffer] = None
    for buffer in items(func.params):
        params[buffer] = None
    if not symbolic:
        check_static([*func.params, *func.body.block.alloc_buffers])
    kept = NodeDict[None]()
    dropped = inlinable(stages, inner, _worth(kept, keep))
    try:
        remaining, definitions = resolve(stages, dropped)
    except Undefined as error:
        raise NoGpuSchedule(str(error)) from None
    steps = tuple(map(loop_step, remaining))
    check_steps(steps)
    for step in steps:
        parts = [e for u in step.updates for e in value_parts(u, definitions)]
        if not products and is_contraction(step, parts):
            raise NoGpuSchedule("a product of matrices")
    outer: tuple[Axis, ...] = ()
    if symbolic:
        try:
            outer, steps = outer_axes(steps)
            check_coordinates(steps, outer, definitions, value_parts)
        except NotShared as error:
            raise NoGpuSchedule(str(error)) from None
    return GpuProgram(func, steps, definitions, kept, params, outer)


def has_symbols(func: Any) -> bool:
    """Whether a buffer has a symbolic shape."""
    if not isinstance(func.body, tvm.s_tir.SBlockRealize):
        return False
    buffers = [*items(func.params), *items(func.body.block.alloc_buffers)]
    return any(static(e) is None for b in buffers for e in items(getattr(b.ty, "shape", ())))


def check_static(buffers: Sequence[Any]) -> None:
    """Raise `NoGpuSchedule` unless all are buffers of static shapes."""
    for buffer in buffers:
        shape = getattr(buffer.ty, "shape", None)
        if shape is None:
            raise NoGpuSchedule(f"{buffer.name} is not a buffer")
        if any(static(e) is None for e in shape):
            raise NoGpuSchedule(f"{buffer.name} has a symbolic shape")


def check_steps(steps: Sequence[LoopStep]) -> None:
    """Check that steps update elements, and that one writes each buffer, before its reads."""
    written = NodeDict[None]()
    for step in steps:
        if not step.updates:
            raise NoGpuSchedule("a block does more than update elements")
        own = NodeDict[None]()
        for update in step.updates:
            if update.buffer in written:
                raise NoGpuSchedule(f"{update.buffer.name} is written by several blocks")
            own[update.buffer] = None
        for update in step.updates:
            check_update(step, update, own)
        for buffer, _ in own.items():
            written[buffer] = None
    position = NodeDict[int]()
    for k, step in enumerate(steps):
        for update in step.updates:
            position[update.buffer] = k
    for k, step in enumerate(steps):
        for buffer, _ in step.reads.items():
            at = position.get(buffer)
            if at is not None and at > k:
                raise NoGpuSchedule(f"{buffer.name} is read before it is written")


def check_update(step: LoopStep, update: Any, own: NodeDict[None]) -> None:
    """Check that a step reads, of what it writes, only the element that a reduction updates."""
    reads = loads_of(update.value)
    others = [b for b, _ in reads.items() if b in own and not b.same_as(update.buffer)]
    if others and not step.reduced:
        raise NoGpuSchedule("the results of a block depend on one another")
    once = is_coupled(step) or reads.get(update.buffer) == 1
    if step.reduced and (update.init is None or not once):
        raise NoGpuSchedule("a reduction has no initial value, or does not update one element")
    if not step.reduced and (update.init is not None or update.buffer in reads):
        raise NoGpuSchedule("a block reads what it writes")


def is_coupled(step: LoopStep) -> bool:
    """Whether a result of a step depends on other results of it."""
    buffers = [u.buffer for u in step.updates]
    return any(any(e.source.same_as(b) for b in buffers) and not e.source.same_as(u.buffer)
               for u in step.updates for e in loads(u.value))  # fmt: skip


def _worth(kept: NodeDict[None], keep: bool) -> Callable[..., bool]:
    """Whether to inline a block: not if several blocks read it and it calls a function."""

    def worth(stage: Stage, definition: BlockDefinition, uses: Sequence[Use]) -> bool:
        if keep and calls(definition.value) and len({u.stage for u in uses}) > 1:
            kept[definition.buffer] = None
            return False
        return True

    return worth


def expanded(
    value: Any, definitions: NodeDict[BlockDefinition]
) -> tuple[list[tuple[Any, Any]], Any]:
    """Return a value with definitions in place of their loads, after names for common parts.

    Integers get no names: they may be indices.
    """
    expand = Expander(definitions)
    out = expand(value)
    lets: list[tuple[Any, Any]] = []
    indices = Values()
    for var, part in expand.lets:
        part = substitute(part, indices)
        if str(var.ty.dtype).startswith(("float", "bfloat")):
            lets.append((var, part))
        else:
            indices[var] = part
    return lets, substitute(out, indices)


def is_contraction(step: LoopStep, parts: Sequence[Any]) -> bool:
    """Whether two loads of a reduction lack a spatial axis of each other, as in a product."""
    axes = [a for a in step.spatial if static(a.extent) != 1]
    used = [{k for k, a in enumerate(axes) if a.var in mentions(e)}
            for part in parts for e in loads(part)]  # fmt: skip
    return bool(step.reduced) and any(a - b and b - a for a in used for b in used)


def has_windows(step: LoopStep, parts: Sequence[Any]) -> bool:
    """Whether a reduction reads overlapping windows, as a pool with a stride below its kernel."""
    spatial = [a for a in step.spatial if static(a.extent) != 1]
    reduced = [a for a in step.reduced if static(a.extent) != 1]
    indices = [i for part in parts for e in loads(part) for i in items(e.indices)]
    return any(_overlaps(i, a, r) for i in indices for a in spatial for r in reduced)


def _overlaps(index: Any, axis: Axis, term: Axis) -> bool:
    used = mentions(index)
    if axis.var not in used or term.var not in used:
        return False
    coefficients = [detect_linear_equation(index, [v.var]) for v in (axis, term)]
    steps = [static(f[0]) if len(f) else None for f in coefficients]
    if steps[0] is None or steps[1] is None:
        return False
    return 0 < abs(steps[0]) < abs(steps[1]) * (static(term.extent) or 0)


def value_parts(update: Any, definitions: NodeDict[BlockDefinition]) -> list[Any]:
    lets, value = expanded(update.value, definitions)
    return [*(e for _, e in lets), value]


def product(numbers: Sequence[int]) -> int:
    return reduce(mul, numbers, 1)


def extents(axes: Sequence[Any]) -> list[int]:
    """Return the static extents of axes."""
    sizes = [static(axis.extent) for axis in axes]
    if any(size is None for size in sizes):
        raise NoGpuSchedule("an axis has a symbolic extent")
    return [size for size in sizes if size is not None]


def itemsize(buffer: Any) -> int:
    """Return the bytes of an element; a bool has one."""
    return max(1, int(tvm.DataType(str(buffer.ty.dtype)).itemsize))


def unguarded(expr: Any) -> list[Any]:
    """Return the loads of an expression that are under no condition."""
    found: list[Any] = []

    def note(node: Any, visitor: Any) -> None:
        found.append(node)
        for index in items(node.indices):
            visitor.visit(index)

    def call(node: Any, visitor: Any) -> None:
        if is_guard(node):
            visitor.visit(node.args[0])
        else:
            visitor.default_visit(node)

    rules = [(tvm.ir.TensorLoad, note), (tvm.ir.Call, call),
             (tirx.Select, lambda node, visitor: visitor.visit(node.condition))]  # fmt: skip
    tvm_ffi.structural_visit(expr, rules)
    return found
