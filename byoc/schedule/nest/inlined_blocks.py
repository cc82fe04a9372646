"""Inline blocks into their readers.

for i: t[i] = x[i] + b      for i: u[i] = t[i] * sigmoid(t[i])
u[i] = v * sigmoid(v)  with  v = x[i] + b        v is computed once
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import tirx

from ....analysis.blocks.blocks import Stage
from ....analysis.blocks.definitions import BlockDefinition, resolve
from ....analysis.blocks.inline import Use, inlinable
from ....analysis.blocks.loop_steps import LoopStep
from ....analysis.blocks.tir import calls, loads
from ....analysis.lifting.tir.node import NodeDict, items
from ....analysis.terms.row_major import volume
from .program import LoopProgram


def inline_blocks(
    program: LoopProgram, stored: Sequence[Any] = ()
) -> tuple[list[LoopStep], NodeDict[BlockDefinition]]:
    """Return the remaining steps, and the definitions of inlined buffers, none of them `stored`."""
    stages = [s.stage for s in program.steps]
    inner = NodeDict[None]()
    for buffer, _ in program.inner.items():
        if not any(buffer.same_as(b) for b in stored):
            inner[buffer] = None
    remaining, definitions = resolve(stages, inlinable(stages, inner, _profitable))
    kept = {id(s) for s in remaining}
    return [s for s in program.steps if id(s.stage) in kept], definitions


def _profitable(stage: Stage, definition: BlockDefinition, uses: Sequence[Use]) -> bool:
    """Return whether to inline a definition: a copy, or one not evaluated more often in readers.

    A definition that calls a function is not inlined into two loop nests.
    """
    elements = volume(stage.writes[0].shape)
    no_more = all(u.evaluations is elements for u in uses)
    together = len({u.stage for u in uses}) <= 1
    return _moves(definition.value) or (no_more and (together or not calls(definition.value)))


def _moves(value: Any) -> bool:
    """Return whether a value is an element of another buffer or a literal."""
    if isinstance(value, tvm.ir.TensorLoad):
        return not any(map(loads, items(value.indices)))
    return isinstance(value, (tirx.IntImm, tirx.FloatImm))
