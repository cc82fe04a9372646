"""Comparison of strides, and analyzers for the axes of a loop nest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import tirx

from ....analysis.blocks.tir import static
from .symbolic_sizes import UNBOUNDED, SymbolicSizes


def same(a: Any, b: Any, analyzer: Any) -> bool:
    """Return whether two strides are provably equal."""
    if a is None or b is None:
        return False
    x, y = static(a), static(b)
    if x is not None and y is not None:
        return x == y
    return bool(analyzer.can_prove_equal(a, b))


def analyzer_of(axes: Sequence[Any], sizes: SymbolicSizes = UNBOUNDED) -> Any:
    """Return an analyzer with the domains of axes and the ranges of sizes."""
    analyzer = tvm.sym.Analyzer()
    for var, values in sizes.ranges():
        analyzer.bind(var, values, allow_override=True)
    for axis in axes:
        zero = tirx.IntImm(str(axis.var.ty.dtype), 0)
        domain = tvm.ir.Range.from_min_extent(zero, axis.extent)
        analyzer.bind(axis.var, domain, allow_override=True)
    return analyzer
