"""Comparison of shapes with symbolic extents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ....analysis.support.tvm_compat import sym


def same(a: Any, b: Any) -> bool:
    """Whether two extents are the same number or structurally equal expressions."""
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int) and a == b
    return bool(tvm_ffi.structural_equal(a, b))


def settled(extent: Any, known: Sequence[Any]) -> Any:
    """An extent, simplified: a variable that is an extent itself is at least 1, others at least 0.

    That of ``x[:-1]`` is ``n - 1`` instead of min(max(if_then_else(n < 1, …, n - 1), 0), n).

    Args:
        extent: The extent.
        known: The extents of the tensors around it, which certificates take for positive.
    """
    if isinstance(extent, (int, tirx.IntImm, tirx.Var)):
        return extent
    analyzer = sym.Analyzer()
    for var in tirx.analysis.undefined_vars(extent):
        dtype = str(var.ty.dtype)
        least = tirx.IntImm(dtype, int(any(same(var, k) for k in known)))
        most = tirx.max_value(dtype)
        analyzer.bind(var, tvm.ir.Range.from_min_extent(least, most))
    return analyzer.simplify(extent)


def offset(extent: Any, other: Any) -> int | None:
    """How much a symbolic extent is above another one; None if that is not a number.

    The extent of ``x[1:]`` is one below that of ``x``.
    """
    if isinstance(extent, int) or isinstance(other, int):
        return None
    if same(extent, other):
        return 0
    if str(extent.ty.dtype) != str(other.ty.dtype):
        return None
    difference = sym.Analyzer().simplify(extent - other)
    return int(difference) if isinstance(difference, tirx.IntImm) else None


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
