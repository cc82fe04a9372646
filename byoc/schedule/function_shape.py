"""What decides whether a PrimFunc is scheduled: its length, its calls, its branches, its reuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ...analysis.blocks.tir import is_guard, loads, static
from ...analysis.lifting.tir.node import NodeDict, items
from ...analysis.support.tvm_compat import SBlock, TensorLoad
from ..prepare.loops.start_reductions import REDUCED
from .nest.vector_functions import is_expanded

#: How often an element may be read once all blocks are inlined: the time of TVM's passes and LLVM
#: grows with it, 0.5 s for 256 and more than 25 for 16384.
MOST_COPIES = 256
#: What an index that is computed has.
COMPUTED = (tirx.Max, tirx.Min, tirx.Cast, tvm.ir.Call)


@dataclass(frozen=True)
class FunctionShape:
    """What a function does.

    Attributes:
        blocks: The number of blocks with axes.
        iterations: The iterations of the longest nest of loops around one.
        calls: It calls a function that has vectors in a schedule only.
        branches: It has branches inside expressions, or indices that are computed.
        is_refused: A branch depends on data, or blocks read each other too often.
    """

    blocks: int
    iterations: int
    calls: bool
    branches: bool
    is_refused: bool


def read_shape(func: Any) -> FunctionShape:
    """Return what a PrimFunc does; symbolic extents count as 1."""
    blocks: list[Any] = []
    called: list[Any] = []
    tvm_ffi.structural_walk(func.body, [(SBlock, blocks.append), (tvm.ir.Call, called.append)])
    blocks = [b for b in blocks if items(b.iter_vars)]
    guards = [c for c in called if is_guard(c)]
    by_data = any(loads(guard.args[0]) for guard in guards)
    return FunctionShape(
        len(blocks),
        max((prod(static(v.dom.extent) or 1 for v in b.iter_vars) for b in blocks), default=0),
        any(map(is_expanded, called)),
        bool(guards) or any(map(_has_computed_index, blocks)),
        by_data or _copies(blocks) > MOST_COPIES,
    )


def _has_computed_index(block: Any) -> bool:
    found: list[Any] = []

    def note(load: Any) -> None:
        for index in items(load.indices):
            tvm_ffi.structural_walk(index, [(kind, found.append) for kind in COMPUTED])

    tvm_ffi.structural_walk(block.body, (TensorLoad, note))
    return bool(found)


def _copies(blocks: Sequence[Any]) -> int:
    """How often an element is read once all blocks but reductions are in their readers."""
    uses: NodeDict[int] = NodeDict()
    for block in reversed(blocks):
        reduces = any(int(v.iter_type) == REDUCED for v in items(block.iter_vars))
        times = 1 if reduces else max([uses.get(b) or 1 for b in _stored(block)], default=1)
        for load in loads(block.body):
            uses[load.source] = (uses.get(load.source) or 0) + times
    return max(uses.values(), default=0)


def _stored(block: Any) -> list[Any]:
    stores: list[Any] = []
    tvm_ffi.structural_walk(block.body, (tirx.BufferStore, stores.append))
    return [store.buffer for store in stores]
