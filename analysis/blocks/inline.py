"""Inner buffers that need not be stored, because their readers can evaluate the definitions.

for i: t[i] = x[i] - m      for i: u[i] = t[i] / s          u[i] = (x[i] - m) / s
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..lifting.tir.node import NodeDict
from ..terms.row_major import volume
from ..terms.term import Int
from .blocks import Stage
from .definitions import BlockDefinition, definition, loads


class Use(NamedTuple):
    """One load of a buffer: the number of its block, and how often it is evaluated."""

    stage: int
    evaluations: Int


Worth = Callable[[Stage, BlockDefinition, Sequence[Use]], bool]


def inlinable(stages: Sequence[Stage], inner: NodeDict[None], should_inline: Worth) -> list[Any]:
    """Return the buffers in `inner` to inline.

    Blocks are visited from the last to the first, because a reader may itself be inlined: its loads
    are then evaluated where, and as often as, its own reader is.

    Args:
        stages: The blocks of a PrimFunc in standard form.
        inner: The buffers that it allocates.
        should_inline: Whether to inline a block, by its definition and the uses of its buffer.
    """
    drop = []
    uses = NodeDict[list[Use]]()
    for k, stage in reversed(list(enumerate(stages))):
        new = definition(stage) if stage.writes and stage.writes[0].buffer in inner else None
        places = [Use(k, volume([v.extent for v in stage.axes if v.extent is not None]))]
        if new is not None:
            read = uses.get(new.buffer) or []
            if should_inline(stage, new, read):
                drop.append(new.buffer)
                places = read
        for buffer, number in loads(stage.block.init, stage.block.body).items():
            uses[buffer] = [*(uses.get(buffer) or ()), *places * number]
    return drop
