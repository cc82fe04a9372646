"""Read a PrimFunc as steps, each a loop nest around updates of elements.

    for i, k:  acc[i] = acc[i] + x[i, k]      axes (i, k), one update of ``acc`` from 0
    for i:     out[i] = acc[i] / 7            axes (i), one update

Variables bound in a block are substituted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....analysis.blocks.block_terms import Opaque
from ....analysis.blocks.blocks import standard
from ....analysis.blocks.loop_steps import LoopStep, loop_step
from ....analysis.lifting.tir.node import NodeDict, items
from .symbolic_sizes import UNBOUNDED, SymbolicSizes


@dataclass(frozen=True)
class LoopProgram:
    """The steps of a PrimFunc, and the buffers ``inner`` that it allocates."""

    func: Any
    steps: tuple[LoopStep, ...]
    inner: NodeDict[None]
    sizes: SymbolicSizes = UNBOUNDED


class Unscheduled(Exception):
    """A PrimFunc cannot be scheduled; the message says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def program(func: Any, sizes: SymbolicSizes = UNBOUNDED) -> LoopProgram:
    """Return the steps of a PrimFunc; raises `Unscheduled` if it has another form."""
    attrs = func.attrs or {}
    if not bool(attrs.get("tirx.noalias", False)):
        raise Unscheduled("the parameters may overlap: the attribute tirx.noalias is missing")
    try:
        stages, _ = standard(func)
    except Opaque as error:
        raise Unscheduled(error.reason) from None
    inner: NodeDict[None] = NodeDict()
    for buffer in items(func.body.block.alloc_buffers):
        inner[buffer] = None
    result = LoopProgram(func, tuple(map(loop_step, stages)), inner, sizes)
    _check_writers(result)
    return result


def _check_writers(loops: LoopProgram) -> None:
    """Check that every buffer has one writer, which precedes its readers."""
    written: NodeDict[int] = NodeDict()
    for k, step in enumerate(loops.steps):
        for buffer in step.writes:
            if buffer in written:
                raise Unscheduled(f"{buffer.name} is written by several blocks")
            written[buffer] = k
    for k, step in enumerate(loops.steps):
        for buffer, _ in step.reads.items():
            at = written.get(buffer)
            if (at is None and buffer in loops.inner) or (at is not None and at > k):
                raise Unscheduled(f"{buffer.name} is read before it is written")
