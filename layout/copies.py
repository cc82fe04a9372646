"""Stages that copy a whole buffer in the order of memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import tirx

from ..analysis.lifting.node import items
from ..analysis.terms.term import ONE, ZERO, Int, mul
from .layout import Layout
from .nest import literal, physical, term
from .stages import Access, Opaque, Stage, stages


def copied(func: Any) -> int | None:
    """The parameter that a PrimFunc copies element by element, in the order of memory."""
    if type(getattr(func.body, "block", None) and func.body.block.body).__name__ == "SeqStmt":
        return None
    stores: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tirx.BufferStore, stores.append))
    if len(stores) != 1 or type(stores[0].value).__name__ != "TensorLoad":
        return None
    try:
        (s,) = stages(func)
    except Opaque:
        return None
    if not copies(s):
        return None
    same = (k for k, p in enumerate(items(func.params)) if p.same_as(s.reads[0].buffer))
    return next(same, None)


def copies(s: Stage) -> bool:
    """Whether each element is one of another buffer of as many, at the same place of memory."""
    return _whole(s) and _same(s.reads[0], s.writes[0])


def stays(s: Stage, source: Layout, target: Layout) -> bool:
    """:func:`copies` of buffers in these layouts, without padding."""
    if not _whole(s):
        return False
    one, two = _placed(s.reads[0], source), _placed(s.writes[0], target)
    return one is not None and two is not None and _same(one, two)


def _placed(a: Access, layout: Layout) -> Access | None:
    """The access of the physical buffer."""
    known = [p for p in a.indices if p is not None]
    shape = literal(a.shape)
    if len(known) < len(a.indices) or layout.padded(shape):
        return None
    index = tuple(map(term, layout.forward(known, shape)))
    return Access(a.buffer, index, physical(a.shape, layout))


def _whole(s: Stage) -> bool:
    """Whether every element is written, and is one that is read."""
    store = s.block.body
    if s.block.init is not None or s.reduced or len(s.reads) != 1 or len(s.writes) != 1:
        return False
    if type(store).__name__ != "BufferStore" or type(store.value).__name__ != "TensorLoad":
        return False
    shape = s.writes[0].shape
    return sum(v.extent is not ONE for v in s.axes) == sum(e is not ONE for e in shape)


def _same(one: Access, two: Access) -> bool:
    """Whether two accesses are of the same place of memory of buffers of one size."""
    if flattened(one) is None or flattened(one) is not flattened(two):
        return False
    return size(one.shape) is size(two.shape)


def flattened(a: Access) -> Int | None:
    """The place of an access in the order of memory; None where data decide on it."""
    out = ZERO
    for p, e in zip(a.indices, a.shape, strict=True):
        if p is None:
            return None
        out = mul(out, e) + p
    return out


def size(shape: Sequence[Int]) -> Int:
    """How many elements."""
    out = ONE
    for e in shape:
        out = mul(out, e)
    return out
