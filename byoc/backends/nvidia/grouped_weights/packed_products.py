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
from ....fusion.fuse_transpose_matmul import fuse_transpose_matmul
from ..schedules.program.gpu_program import product
from .grouped_product import has_words
from .storage import HALVES, MOST_ROWS, PLAIN_ROWS


def fuse_packed(mod: Any) -> Any:
    """Return the module with such calls fused; products of many rows stay for tensor cores."""
    funcs = [f for _, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)]
    if not any(map(has_words, funcs)):
        return mod
    return fuse_dequantize(mod, _has_few_rows)


def turn_products(mod: Any) -> Any:
    """Return the module with products of few rows over weights as they are stored, not turned."""
    funcs = [f for _, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)]
    if not any(map(_is_plain, funcs)):
        return mod
    return fuse_transpose_matmul(mod, _is_plain)


def _is_plain(func: Any) -> bool:
    """Whether a PrimFunc reads a matrix of halves and writes few rows."""
    *inputs, result = [None, *(getattr(p.ty, "shape", None) for p in func.params)]
    inputs = inputs[1:]
    shape = [static(e) or 0 for e in items(result)] if result is not None else []
    if len(shape) < 2 or not 0 < product(shape[:-1]) <= PLAIN_ROWS or shape[-1] < 2:
        return False
    halves = [p for p in func.params if str(getattr(p.ty, "dtype", "")) in HALVES]
    return len(inputs) == 2 and len(halves) >= 2 and inputs[1] is not None and len(inputs[1]) == 2


def _has_few_rows(func: Any) -> bool:
    """Whether the result of a PrimFunc has few rows."""
    shape = [static(e) for e in items(func.params[-1].ty.shape)]
    rows = [e for e in shape[:-1] if e is not None]
    return len(rows) == len(shape) - 1 and product(rows) <= MOST_ROWS
