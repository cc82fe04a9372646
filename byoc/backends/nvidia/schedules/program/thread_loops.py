"""Loops over threads, and reductions over the threads of a block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import tirx

from ......analysis.blocks.tir import loop, seq, values
from ......analysis.lifting.tir.node import as_dtype, items, substitute

INDEX = "int64"
BLOCK, BLOCK_ROW, THREAD, ROW = "blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y"
Body = Callable[[Any], Any]


def number(value: int) -> Any:
    return tirx.IntImm(INDEX, value)


def thread_loop(tag: str, extent: int, body: Body) -> Any:
    """Return ``for var in T.thread_binding(extent, tag): body(var)``."""
    var = tirx.Var(tag.replace("Idx.", "_"), INDEX)
    return bound(tag, extent, var, body(var))


def bound(tag: str, extent: int, var: Any, body: Any) -> Any:
    """Return the loop over threads whose variable ``body`` has already."""
    axis = tirx.IterVar(None, tirx.Var(tag, INDEX), tirx.IterVar.ThreadIndex, tag)
    kind = tirx.ForKind.THREAD_BINDING
    return tirx.For(var, number(0), number(extent), kind, body, axis)


def unrolled(stem: str, extent: int, body: Body) -> Any:
    return loop(stem, number(extent), number(0), body, tirx.ForKind.UNROLLED)


def vectorized(stem: str, extent: int, body: Body) -> Any:
    return loop(stem, number(extent), number(0), body, tirx.ForKind.VECTORIZED)


def serial(stem: str, extent: int, body: Body) -> Any:
    return loop(stem, number(extent), number(0), body)


def in_turns(var: Any, extent: int, most: int, body: Any) -> Any:
    """Return the loop of a variable, unrolled by its extent's largest divisor up to ``most``."""

    def at(value: Any) -> Any:
        return substitute(body, values((var, as_dtype(value, str(var.ty.dtype)))))

    several = max(k for k in range(1, most + 1) if extent % k == 0)
    if several == extent:
        return unrolled(var.name, extent, at)
    if several == 1:
        return serial(var.name, extent, at)
    return serial(var.name, extent // several, lambda c: unrolled(
        "k", several, lambda k: at(c * number(several) + k)))  # fmt: skip


def when(condition: Any, stmt: Any) -> Any:
    """Return ``if condition: stmt``; the condition None is always true."""
    return stmt if condition is None else tirx.IfThenElse(condition, stmt, None)


def local(name: str, shape: Sequence[int], dtype: str, scope: str = "local") -> Any:
    return tirx.decl_buffer([number(e) for e in shape], dtype, name=name, scope=scope)


def load(buffer: Any, *indices: Any) -> Any:
    return tirx.BufferLoad(buffer, list(indices))


def store(buffer: Any, value: Any, *indices: Any) -> Any:
    return tirx.BufferStore(buffer, as_dtype(value, str(buffer.ty.dtype)), list(indices))


def barrier() -> Any:
    """Return a wait for all threads of the block."""
    return tirx.Evaluate(tirx.op.tvm_storage_sync("shared"))


def stored_together(buffers: Sequence[Any], updated: Sequence[Any], at: Any = None) -> list[Any]:
    """Return the statements that store values of buffers at a place, 0 if None, computed before."""
    at = number(0) if at is None else at
    if len(buffers) == 1:
        return [store(buffers[0], updated[0], at)]
    names = [tirx.Var(f"v_{b.name}", str(b.ty.dtype)) for b in buffers]
    binds = [tirx.Bind(v, e) for v, e in zip(names, updated, strict=True)]
    return [*binds, *(store(b, v, at) for b, v in zip(buffers, names, strict=True))]


def reduce_threads(
    tag: str, extent: int, results: Sequence[Any], starts: Sequence[Any], parts: Sequence[Any],
    combine: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]],
) -> Any:  # fmt: skip
    """Return a block that reduces ``parts`` over threads to ``results``, with its loop over them.

    All are buffers of one element in the registers of each thread.
    """
    zero = number(0)

    def region(buffer: Any) -> Any:
        return tirx.BufferRegion(buffer, [tvm.ir.Range.from_min_extent(zero, number(1))])

    def body(thread: Any) -> Any:
        var = tirx.Var("v_" + tag[-1], INDEX)
        domain = tvm.ir.Range.from_min_extent(number(0), number(extent))
        axis = tirx.IterVar(domain, var, tirx.IterVar.CommReduce)
        new = combine([load(r, zero) for r in results], [load(p, zero) for p in parts])
        update = seq(stored_together(results, new))
        first = seq([store(r, e, zero) for r, e in zip(results, starts, strict=True)])
        block = tvm.s_tir.SBlock([axis], [*map(region, parts)], [*map(region, results)],
                                 results[0].name, update, first)  # fmt: skip
        return tvm.s_tir.SBlockRealize([thread], tirx.IntImm("bool", True), block)

    return thread_loop(tag, extent, body)


def padded(tile: Any, body: Any, vector: int = 0) -> Any:
    """Return ``body``, which writes a tile in shared memory, such that columns avoid conflicts.

    TVM adds elements between the tile's rows, four bytes beyond a multiple of its 32 banks; or, if
    rows are written as vectors of so many elements, one vector beyond a multiple of two.
    """
    size = max(1, int(tvm.DataType(str(tile.ty.dtype)).itemsize))
    each = max(1, 4 // size)
    align = [(0, 0, 2 * vector, vector) if vector else (0, 0, 32 * each, each)]
    whole = tirx.BufferRegion(
        tile, [tvm.ir.Range.from_min_extent(number(0), e) for e in items(tile.ty.shape)]
    )
    block = tvm.s_tir.SBlock([], [], [whole], tile.name, body,
                             annotations={"buffer_dim_align": align})  # fmt: skip
    return tvm.s_tir.SBlockRealize([], tirx.IntImm("bool", True), block)


def kernels(func: Any, nests: Sequence[Any], buffers: Sequence[Any]) -> Any:
    """Return the PrimFunc with other loop nests, over buffers of its own."""
    root = tvm.s_tir.SBlock([], [], [], "root", seq(list(nests)), None, list(buffers))
    body = tvm.s_tir.SBlockRealize([], tirx.IntImm("bool", True), root)
    return tirx.PrimFunc(items(func.params), body, func.ret_type, func.attrs)
