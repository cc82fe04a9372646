"""Any PrimFunc over buffers in other layouts: each access is substituted, the loops stay.

Before: out[i] = x[i] + 1                   After: out[i] = x[i // 4, i % 4] + 1
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from ...analysis.blocks.blocks import sizes_of
from ...analysis.lifting.tir.node import NodeDict, items
from ...analysis.support.tvm_compat import (
    MatchBufferRegion,
    SBlock,
    SBlockRealize,
    StmtSimplify,
    TensorLoad,
    TensorRegion,
    source_of,
)
from ..model.layout import Layout
from .candidate_rewrite import Unmovable, decl


def substituted(func: Any, layouts: Sequence[Layout | None]) -> Any:
    """The PrimFunc over buffers in these layouts. Raises `Unmovable`."""
    moved = _Moved(func, layouts)
    body = tvm_ffi.structural_mutate(func.body, moved.rules)
    if moved.refused:
        raise Unmovable(moved.refused)
    body = _after([_fill(b, value) for b, value in moved.padded.values()], body)
    params = [moved.buffers[p] if p in moved.buffers else p for p in items(func.params)]
    new = tirx.PrimFunc(params, body, func.ret_type, func.attrs)
    mod = StmtSimplify()(tvm.IRModule({"main": new}))
    return mod["main"]


class _Moved:
    """Substitutes each access of a buffer whose layout changes."""

    def __init__(self, func: Any, layouts: Sequence[Layout | None]) -> None:
        sizes = sizes_of(func)
        self.buffers = NodeDict[Any]()
        self.layouts = NodeDict[Layout]()
        self.padded = NodeDict[tuple[Any, float]]()  # results and what their padding holds
        self.refused = ""
        for param, layout in zip(items(func.params), layouts, strict=True):
            if layout is None or layout.is_identity:
                continue
            shape = sizes.shape(param)
            self.buffers[param] = decl(param, layout, shape, sizes.leaves)
            self.layouts[param] = layout
        self.rules = [
            (TensorLoad, self.load),
            (tirx.BufferStore, self.store),
            (TensorRegion, self.region),
            (MatchBufferRegion, self.match),
            (tvm.ir.Var, self.variable),
        ]

    def load(self, expr: Any, mutator: Any) -> Any:
        buffer = source_of(expr)
        if buffer not in self.buffers:
            return mutator.default_mutate(expr)
        return tirx.BufferLoad(self.buffers[buffer], self.place(buffer, expr.indices, mutator))

    def store(self, stmt: Any, mutator: Any) -> Any:
        if stmt.buffer not in self.buffers:
            return mutator.default_mutate(stmt)
        layout = self.layouts[stmt.buffer]
        if layout.padded(_extents(stmt.buffer)):
            self.padded[stmt.buffer] = self.buffers[stmt.buffer], layout.pad_value or 0
        index = self.place(stmt.buffer, stmt.indices, mutator)
        return tirx.BufferStore(self.buffers[stmt.buffer], mutator.mutate(stmt.value), index)

    def place(self, buffer: Any, indices: Any, mutator: Any) -> list[Any]:
        index = [mutator.mutate(i) for i in items(indices)]
        return list(self.layouts[buffer].forward(index, _extents(buffer)))

    def region(self, region: Any, mutator: Any) -> Any:
        """The new region of one element; a larger region becomes the whole buffer."""
        if source_of(region) not in self.buffers:
            return mutator.default_mutate(region)
        new = self.buffers[source_of(region)]
        if all(type(d.extent).__name__ == "IntImm" and int(d.extent) == 1 for d in region.region):
            index = self.place(source_of(region), [d.min for d in region.region], mutator)
            ranges = [tvm.ir.Range.from_min_extent(i, _number(i, 1)) for i in index]
        else:
            ranges = [tvm.ir.Range(_number(e, 0), e) for e in new.ty.shape]
        return tirx.stmt.BufferRegion(new, ranges)

    def match(self, region: Any, mutator: Any) -> Any:
        if source_of(region.source) in self.buffers:
            self.refused = f"a part of {source_of(region.source).name} is matched as a buffer"
        return mutator.default_mutate(region)

    def variable(self, var: Any, mutator: Any) -> Any:
        if is_buffer_var(var) and var in self.buffers:
            self.refused = f"{var.name} is used as a pointer or viewed as another buffer"
        return mutator.default_mutate(var)


def _number(like: Any, value: int) -> Any:
    return tirx.IntImm(str(like.ty.dtype), value)


def _extents(buffer: Any) -> list[Any]:
    return [int(e) if type(e).__name__ == "IntImm" else e for e in items(buffer.ty.shape)]


def _fill(buffer: Any, value: float) -> tuple[Any, Any]:
    """Two nests that store one value everywhere: around a block, and around a plain store."""
    dtypes = [str(e.ty.dtype) for e in buffer.ty.shape]  # a literal may differ from a symbol
    names = [tirx.Var(f"i{k}", dtype) for k, dtype in enumerate(dtypes)]
    ranges = [tvm.ir.Range(_number(e, 0), e) for e in buffer.ty.shape]
    iters = [tirx.IterVar(r, tirx.Var(f"v_i{k}", dtypes[k]), 0) for k, r in enumerate(ranges)]
    index = [i.var for i in iters]
    constant = tirx.const(value, str(buffer.ty.dtype))
    point = [tvm.ir.Range.from_min_extent(i, _number(i, 1)) for i in index]
    store = tirx.BufferStore(buffer, constant, index)
    written = [tirx.stmt.BufferRegion(buffer, point)]
    block = SBlock(iters, [], written, f"{buffer.name}_fill", store)
    nests = [SBlockRealize(names, True, block), tirx.BufferStore(buffer, constant, names)]
    for var, span in reversed(list(zip(names, ranges, strict=True))):
        nests = [tirx.For(var, span.min, span.extent, tirx.ForKind.SERIAL, n) for n in nests]
    return nests[0], nests[1]


def _after(fills: list[tuple[Any, Any]], body: Any) -> Any:
    """The body after the fills; in a root block, these are blocks."""
    if not fills:
        return body
    if type(body).__name__ != "SBlockRealize":
        return tirx.SeqStmt([*(plain for _, plain in fills), body])
    root = body.block
    new = SBlock(
        root.iter_vars, root.reads, root.writes, root.name_hint,
        tirx.SeqStmt([*(nest for nest, _ in fills), root.body]), root.init,
        root.alloc_buffers, root.match_buffers, root.annotations,
    )  # fmt: skip
    return SBlockRealize(body.iter_values, body.predicate, new)
