"""Stages that copy a whole buffer in the order of memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import tirx

from ..analysis.lifting.node import items
from ..analysis.terms.term import ONE, ZERO, Int, mul
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
    store = s.block.body
    if s.block.init is not None or s.reduced or len(s.reads) != 1 or len(s.writes) != 1:
        return False
    if type(store).__name__ != "BufferStore" or type(store.value).__name__ != "TensorLoad":
        return False
    one, two = s.reads[0], s.writes[0]
    whole = sum(v.extent is not ONE for v in s.axes) == sum(e is not ONE for e in two.shape)
    if not whole or flattened(one) is None or flattened(one) is not flattened(two):
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
