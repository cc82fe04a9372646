"""Blocks that copy a whole buffer in memory order."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx

from ...analysis.blocks.block_terms import Opaque
from ...analysis.blocks.blocks import BlockAccess, Stage, stages
from ...analysis.lifting.tir.node import items
from ...analysis.support.tvm_compat import TensorLoad
from ...analysis.terms.row_major import flat, volume
from ...analysis.terms.term import ONE
from ..model.extents import literal, physical, term
from ..model.layout import Layout


def copied_param(func: Any) -> int | None:
    """The parameter that a PrimFunc copies in memory order; None if it does something else."""
    if isinstance(getattr(func.body, "block", None) and func.body.block.body, tirx.SeqStmt):
        return None
    stores: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tirx.BufferStore, stores.append))
    if len(stores) != 1 or not isinstance(stores[0].value, TensorLoad):
        return None
    try:
        (stage,) = stages(func)
    except Opaque:
        return None
    if not copies(stage):
        return None
    same = (k for k, p in enumerate(items(func.params)) if p.same_as(stage.reads[0].buffer))
    return next(same, None)


def copies(stage: Stage) -> bool:
    """Whether a block copies a buffer of the same size to the same flat positions."""
    return _copies_elements(stage) and _same(stage.reads[0], stage.writes[0])


def copies_in_order(stage: Stage, source: Layout, target: Layout) -> bool:
    """Whether a block copies a buffer in memory order once both have these layouts."""
    if not _copies_elements(stage):
        return False
    read, written = _placed(stage.reads[0], source), _placed(stage.writes[0], target)
    return read is not None and written is not None and _same(read, written)


def _placed(access: BlockAccess, layout: Layout) -> BlockAccess | None:
    """The access to the physical buffer; None if it is unknown or padded."""
    indices = [p for p in access.indices if p is not None]
    shape = literal(access.shape)
    if len(indices) < len(access.indices) or layout.padded(shape):
        return None
    index = tuple(map(term, layout.forward(indices, shape)))
    return BlockAccess(access.buffer, index, physical(access.shape, layout))


def _copies_elements(stage: Stage) -> bool:
    """Whether a block writes every element, each a loaded element."""
    store = stage.block.body
    if (
        stage.block.init is not None
        or stage.reduced
        or len(stage.reads) != 1
        or len(stage.writes) != 1
    ):
        return False
    if not isinstance(store, tirx.BufferStore) or not isinstance(store.value, TensorLoad):
        return False
    shape = stage.writes[0].shape
    return sum(v.extent is not ONE for v in stage.axes) == sum(e is not ONE for e in shape)


def _same(first: BlockAccess, second: BlockAccess) -> bool:
    """Whether two accesses have the same flat position in buffers of equal size."""
    first_index, second_index = ([i for i in a.indices if i is not None] for a in (first, second))
    if len(first_index) < len(first.shape) or len(second_index) < len(second.shape):
        return False  # an index depends on data
    same_size = volume(first.shape) is volume(second.shape)
    return same_size and flat(first_index, first.shape) is flat(second_index, second.shape)
