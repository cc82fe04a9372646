"""Check the layouts that a PrimFunc is to be rewritten to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from ...analysis.lifting.tir.node import items
from ..model.layout import Layout


def checked_layouts(func: Any, layouts: Sequence[Layout | None]) -> tuple[Layout | None, ...]:
    """A layout for each buffer. Raises ``TypeError`` or ``ValueError`` if one does not fit."""
    if not isinstance(func, tirx.PrimFunc):
        raise TypeError(f"rewrite: expected a tvm.tirx.PrimFunc, got {type(func).__name__}")
    params = items(func.params)
    if len(layouts) != len(params):
        raise ValueError(f"rewrite: expected {len(params)} layouts, got {len(layouts)}")
    out: list[Layout | None] = []
    for param, layout in zip(params, layouts, strict=True):
        if not is_buffer_var(param):
            if layout is not None:
                raise ValueError(f"rewrite: {param.name} is a scalar, got the layout {layout}")
            out.append(None)
            continue
        full = layout or Layout.identity(len(param.ty.shape))
        if full.rank != len(param.ty.shape):
            raise ValueError(f"rewrite: {param.name} has rank {len(param.ty.shape)}, got {full}")
        if full.pad_value is not None and not _representable(str(param.ty.dtype), full.pad_value):
            raise ValueError(
                f"rewrite: {param.name} is {param.ty.dtype}, which cannot hold {full.pad_value}"
            )
        out.append(full)
    return tuple(out)


def _representable(dtype: str, value: float) -> bool:
    """Whether a dtype can represent a number."""
    if "float" in dtype:
        return True
    if not math.isfinite(value) or value != int(value):
        return False
    bits = 1 if dtype == "bool" else int("".join(c for c in dtype if c.isdigit()) or 64)
    unsigned = dtype == "bool" or dtype.startswith("uint")
    low, high = (0, 2**bits) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    return bool(low <= value < high)
