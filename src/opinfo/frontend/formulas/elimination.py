"""Inverses and determinants of square matrices, by elimination with the largest pivots.

Golub and Van Loan, Matrix Computations, 3.4. Rows are swapped so that a pivot is the largest of its
column; a matrix without an inverse divides by zero.
"""

from __future__ import annotations

from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T


def inverses(data: Any) -> Any:
    """Return the inverses of (batch, n, n), and what elimination leaves of the matrices."""

    def body(inputs: Any, outputs: Any) -> Any:
        with IRBuilder() as builder:
            with T.serial(0, data.shape[0]) as b:
                _invert(_proxies(inputs, outputs), b, data.shape[1])
            return builder.get()

    dtypes = [str(data.dtype)] * 2
    return te.extern([data.shape, data.shape], [data], body, dtype=dtypes, name="inverse")


def determinants(data: Any) -> Any:
    """Return the determinants of (batch, n, n), and what elimination leaves of the matrices."""

    def body(inputs: Any, outputs: Any) -> Any:
        with IRBuilder() as builder:
            with T.serial(0, data.shape[0]) as b:
                _determine(_proxies(inputs, outputs), b, data.shape[1])
            return builder.get()

    shapes, dtypes = [(data.shape[0],), data.shape], [str(data.dtype)] * 2
    return te.extern(shapes, [data], body, dtype=dtypes, name="determinant")


def _proxies(inputs: Any, outputs: Any) -> list[Any]:
    return [T.buffer_proxy(x) for x in (*inputs, *outputs)]


def _invert(buffers: list[Any], b: Any, n: Any) -> None:
    """Reduce a matrix to the identity, and do the same to the identity."""
    data, out, work = buffers
    dtype = data.dtype
    with T.serial(0, n) as i, T.serial(0, n) as j:
        work[b, i, j] = data[b, i, j]
        out[b, i, j] = tirx.Select(i == j, tirx.const(1, dtype), tirx.const(0, dtype))
    with T.serial(0, n) as k:
        best = _pivot(work, b, k, n)
        _swap(work, b, k, best[0], n)
        _swap(out, b, k, best[0], n)
        own = T.buffer_proxy(T.alloc_buffer((1,), dtype, scope="local"))
        own[0] = work[b, k, k]
        with T.serial(0, n) as j:
            work[b, k, j] = work[b, k, j] / own[0]
            out[b, k, j] = out[b, k, j] / own[0]
        with T.serial(0, n) as i:
            with T.If(i != k):
                with T.Then():
                    own[0] = work[b, i, k]
                    with T.serial(0, n) as j:
                        work[b, i, j] = work[b, i, j] - own[0] * work[b, k, j]
                        out[b, i, j] = out[b, i, j] - own[0] * out[b, k, j]


def _determine(buffers: list[Any], b: Any, n: Any) -> None:
    """Reduce a matrix to a triangle, the product of whose pivots is the determinant."""
    data, out, work = buffers
    dtype = data.dtype
    zero = tirx.const(0, dtype)
    with T.serial(0, n) as i, T.serial(0, n) as j:
        work[b, i, j] = data[b, i, j]
    out[b] = tirx.const(1, dtype)
    with T.serial(0, n) as k:
        best = _pivot(work, b, k, n)
        _swap(work, b, k, best[0], n)
        factor = tirx.Select(best[0] == k, tirx.const(1, dtype), tirx.const(-1, dtype))
        out[b] = out[b] * factor * work[b, k, k]
        own = T.buffer_proxy(T.alloc_buffer((1,), dtype, scope="local"))
        with T.serial(0, n) as i:
            with T.If(tirx.all(i > k, work[b, k, k] != zero)):
                with T.Then():
                    own[0] = work[b, i, k] / work[b, k, k]
                    with T.serial(0, n) as j:
                        work[b, i, j] = work[b, i, j] - own[0] * work[b, k, j]


def _pivot(work: Any, b: Any, k: Any, n: Any) -> Any:
    """Emit the search for the row, from `k` on, with the largest number in column `k`."""
    best = T.buffer_proxy(T.alloc_buffer((1,), "int64", scope="local"))
    best[0] = tirx.Cast("int64", k)
    with T.serial(0, n) as i:
        with T.If(tirx.all(i > k, tirx.abs(work[b, i, k]) > tirx.abs(work[b, best[0], k]))):
            with T.Then():
                best[0] = tirx.Cast("int64", i)
    return best


def _swap(work: Any, b: Any, k: Any, other: Any, n: Any) -> None:
    kept = T.buffer_proxy(T.alloc_buffer((1,), work.dtype, scope="local"))
    with T.serial(0, n) as j:
        kept[0] = work[b, k, j]
        work[b, k, j] = work[b, other, j]
        work[b, other, j] = kept[0]
