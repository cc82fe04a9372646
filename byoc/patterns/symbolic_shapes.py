"""Comparison of shapes with symbolic extents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm_ffi


def same(a: Any, b: Any) -> bool:
    """Whether two extents are the same number or structurally equal expressions."""
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int) and a == b
    return bool(tvm_ffi.structural_equal(a, b))


def same_shape(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(map(same, a, b))


def static(shape: Sequence[Any]) -> bool:
    return all(isinstance(e, int) for e in shape)


def spread(shape: Sequence[Any], over: Sequence[Any]) -> tuple[int, ...] | None:
    """The axes of ``over`` along which a tensor of ``shape`` varies; None if it does not fit."""
    if len(shape) > len(over):
        return None
    offset = len(over) - len(shape)
    axes = []
    for k, extent in enumerate(shape):
        if isinstance(extent, int) and extent == 1:
            continue
        if not same(extent, over[offset + k]):
            return None
        axes.append(offset + k)
    return tuple(axes)
