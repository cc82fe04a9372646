"""Sizes of buffers in bytes, estimated for symbolic extents."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Any

import tvm_ffi
from tvm import tirx

from ...analysis.support.tvm_compat import sym

#: The value of a symbolic variable in estimates of bytes.
SYMBOLIC = 64


def extent(expr: Any) -> int:
    """An extent as a number; each symbolic variable counts as `SYMBOLIC`, the extent as 1 at least.

    A sequence whose length is divided several times has none left of `SYMBOLIC` elements.
    """
    if isinstance(expr, int):
        return expr
    analyzer = sym.Analyzer()
    for var in tirx.analysis.undefined_vars(expr):
        analyzer.bind(var, tirx.IntImm(str(var.ty.dtype), SYMBOLIC))
    value = analyzer.simplify(expr)
    return max(1, int(value)) if isinstance(value, tirx.IntImm) else SYMBOLIC


def size_of(shape: Sequence[Any], dtype: str) -> int:
    """The bytes of a buffer of this physical shape."""
    return -(-prod(map(extent, shape)) * _bits(dtype) // 8)


@cache
def _bits(dtype: str) -> int:
    return int(tvm_ffi.dtype(dtype).bits)
