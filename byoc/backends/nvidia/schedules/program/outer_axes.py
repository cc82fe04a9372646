"""Symbolic axes that all steps share: a kernel for fixed sizes, with blocks for each coordinate.

    for b, s, k: y[b, s, k] = f(x[b, s, k], w[k])                   b, s symbolic, k of 768
    blockIdx.x over b, s: the kernel of   for k: y[b, s, k] = f(x[b, s, k], w[k])

What a step reads of another one's results is at the coordinates of its own block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import tvm_ffi
from tvm import tirx

from ......analysis.blocks.definitions import BlockDefinition
from ......analysis.blocks.loop_steps import Axis, LoopStep, Update
from ......analysis.blocks.tir import loads, loop, static, values
from ......analysis.lifting.tir.node import NodeDict, as_dtype, items, substitute
from .thread_loops import BLOCK, INDEX, number

#: Elements of a coordinate; a kernel for fewer leaves threads of a warp without work.
FEWEST = 24


class NotShared(Exception):
    """The symbolic axes of steps differ; the message says how."""


def outer_axes(steps: Sequence[LoopStep]) -> tuple[tuple[Axis, ...], tuple[LoopStep, ...]]:
    """Return the symbolic axes, and the steps at one coordinate of them.

    Raises:
        NotShared: Steps have other symbolic axes, or reduce along one.
    """
    first = _symbolic(steps[0])
    outer = tuple(Axis(tirx.Var(f"o{k}", INDEX), as_dtype(a.extent, INDEX))
                  for k, a in enumerate(first))  # fmt: skip
    return outer, tuple(_at(step, first, outer) for step in steps)


def _symbolic(step: LoopStep) -> list[Axis]:
    axes = [a for a in step.axes if static(a.extent) is None]
    if any(a.reduced for a in axes):
        raise NotShared("a reduction is along a symbolic axis")
    return axes


def _at(step: LoopStep, first: Sequence[Axis], outer: Sequence[Axis]) -> LoopStep:
    own = _symbolic(step)
    if len(own) != len(first) or not all(
        tvm_ffi.structural_equal(a.extent, b.extent) for a, b in zip(own, first, strict=True)
    ):
        raise NotShared("steps have different symbolic axes")
    at = values(*((a.var, as_dtype(o.var, str(a.var.ty.dtype)))
                  for a, o in zip(own, outer, strict=True)))  # fmt: skip
    updates = tuple(
        Update(u.buffer, tuple(substitute(i, at) for i in u.indices), substitute(u.value, at),
               None if u.init is None else substitute(u.init, at))
        for u in step.updates
    )  # fmt: skip
    kept = tuple(a for a in step.axes if static(a.extent) is not None)
    return replace(step, axes=kept, updates=updates)


def check_coordinates(
    steps: Sequence[LoopStep], outer: Sequence[Axis], definitions: NodeDict[BlockDefinition],
    parts: Any,
) -> None:  # fmt: skip
    """Check that no step reads another one's results at other coordinates.

    Raises:
        NotShared: A step does, or a coordinate has few elements.
    """
    written = NodeDict[tuple[Any, ...]]()
    for step in steps:
        for update in step.updates:
            places = [next((k for k, i in enumerate(update.indices) if i.same_as(axis.var)), None)
                      for axis in outer]  # fmt: skip
            if None in places:
                raise NotShared("a result is not indexed by all symbolic axes")
            written[update.buffer] = tuple(places)
    for step in steps:
        for update in step.updates:
            for expr in (e for part in parts(update, definitions) for e in loads(part)):
                places_of = written.get(expr.source) or ()
                index = items(expr.indices)
                if not all(index[k].same_as(a.var) for k, a in zip(places_of, outer, strict=False)):
                    raise NotShared("a step reads elements at other symbolic coordinates")
    if max(_elements(step) for step in steps) < FEWEST:
        raise NotShared("there are few elements at each symbolic coordinate")


def _elements(step: LoopStep) -> int:
    count = 1
    for axis in step.axes:
        count *= static(axis.extent) or 1
    return count


def with_blocks(nest: Any, outer: Sequence[Axis]) -> Any | None:
    """Return a kernel with its blocks for each coordinate; None if it has no loop over blocks.

    The host launches nothing if a symbolic axis is empty: TVM would launch one block for none,
    which would write beyond its tensors. It is a loop, as TVM places no barriers under a condition.
    """
    if not outer:
        return nest
    if not isinstance(nest, tirx.For) or nest.thread_binding is None:
        return None
    if str(nest.thread_binding.thread_tag) != BLOCK:
        return None
    blocks = static(nest.extent) or 0
    var = tirx.Var("block", INDEX)
    at = [(nest.loop_var, var % number(blocks) if blocks > 1 else number(0))]
    rest, total = (var // number(blocks) if blocks > 1 else var), number(blocks)
    for k, axis in reversed(list(enumerate(outer))):
        at.append((axis.var, rest if k == 0 else rest % axis.extent))
        rest, total = rest // axis.extent, total * axis.extent
    thread = tirx.IterVar(None, tirx.Var(BLOCK, INDEX), tirx.IterVar.ThreadIndex, BLOCK)
    body = substitute(nest.body, values(*at))
    nest = tirx.For(var, number(0), total, tirx.ForKind.THREAD_BINDING, body, thread)
    return loop("launch", tirx.min(total, number(1)), number(0), lambda _: nest)
