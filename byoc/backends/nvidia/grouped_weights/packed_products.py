"""Fuse dequantisations by group into the products of few rows that read them.

    Before: w = R.call_tir(cls.f, (words, scale)); y = R.call_tir(cls.g, (x, w))
    After:  y = R.call_tir(cls.fused_f_g, (words, scale, x))
"""

from __future__ import annotations

from typing import Any

from tvm import tirx

from .....analysis.blocks.tir import static
from .....analysis.lifting.tir.node import items
from ....fusion.fuse_dequantize import fuse_dequantize
from ..schedules.gpu_program import product
from .grouped_product import has_words
from .storage import MOST_ROWS


def fuse_packed(mod: Any) -> Any:
    """Return the module with such calls fused; products of many rows stay for tensor cores."""
    funcs = [f for _, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)]
    if not any(map(has_words, funcs)):
        return mod
    return fuse_dequantize(mod, _has_few_rows)


def _has_few_rows(func: Any) -> bool:
    """Whether the result of a PrimFunc has few rows."""
    shape = [static(e) for e in items(func.params[-1].ty.shape)]
    rows = [e for e in shape[:-1] if e is not None]
    return len(rows) == len(shape) - 1 and product(rows) <= MOST_ROWS
