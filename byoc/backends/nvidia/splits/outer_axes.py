"""A PrimFunc at one position of the axes whose sizes are known at run time only.

Before: for i, k in T.grid(n, 768): y[i, k] = f(x[i, k])
After:  for k in range(768): y[i, k] = f(x[i, k])           at a position i of blockIdx.x in [0, n)

Schedules are then those of static shapes, with blocks of threads for each position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from .....analysis.blocks.tir import Values, seq, static
from .....analysis.lifting.tir.node import NodeDict, as_dtype, items, substitute
from ..schedules.gpu_program import GpuProgram, NoGpuSchedule, product, read_program
from ..schedules.thread_loops import BLOCK

#: The most blocks along y, and the fewest elements at a position that are worth a block.
MOST, FEWEST = 65535, 64


@dataclass(frozen=True)
class OuterAxes:
    """``func`` has the positions ``at`` as further parameters; ``sizes`` are those of the axes."""

    func: Any
    at: tuple[Any, ...]
    sizes: tuple[Any, ...]

    def over(self, nest: Any) -> Any:
        """Return a kernel of ``func`` for all positions: blocks along x, and its own along y.

        Raises:
            NoGpuSchedule: It has more blocks than there may be along y.
        """
        if (static(nest.extent) or 0) > MOST:
            raise NoGpuSchedule("too many blocks for each position")
        index = tirx.Var("outer", "int64")
        where, inner = Values(), index
        for k in range(len(self.at) - 1, -1, -1):
            size = as_dtype(self.sizes[k], "int64")
            where[self.at[k]] = inner if k == 0 else inner % size
            inner = inner // size
        total = as_dtype(self.sizes[0], "int64")
        for size in self.sizes[1:]:
            total = total * as_dtype(size, "int64")
        body = tirx.For(nest.loop_var, nest.min, nest.extent, nest.kind,
                        substitute(nest.body, where), _axis("blockIdx.y"))  # fmt: skip
        kind = tirx.ForKind.THREAD_BINDING
        return tirx.For(index, tirx.IntImm("int64", 0), total, kind, body, _axis(BLOCK))


def _axis(tag: str) -> Any:
    return tirx.IterVar(None, tirx.Var(tag, "int64"), tirx.IterVar.ThreadIndex, tag)


def outer_axes(func: Any) -> OuterAxes | None:
    """Return a PrimFunc without its axes of symbolic size; None if it has none.

    Raises:
        NoGpuSchedule: Its blocks differ in such axes, or reduce along them.
    """
    nests = _nests(func)
    sizes = _sizes(func, nests)
    if not sizes:
        return None
    if max(map(_elements, nests)) < FEWEST:
        raise NoGpuSchedule("there are few elements at each position")
    at = tuple(tirx.Var(f"at{k}", "int64") for k in range(len(sizes)))
    written = NodeDict[None]()
    for p in items(func.params):
        written[p] = None
    root, small = func.body.block, NodeDict[Any]()
    for buffer in items(root.alloc_buffers):
        shape = [e for e in items(buffer.ty.shape) if static(e) is not None]
        small[buffer] = tirx.decl_buffer(shape, str(buffer.ty.dtype), name=buffer.name)
    stmts = [_without(_at(nest, sizes, at, written), small, at) for nest in nests]
    block = tvm.s_tir.SBlock([], [], [], root.name_hint, seq(stmts), None, small.values())
    body = tvm.s_tir.SBlockRealize([], tirx.IntImm("bool", True), block)
    inner = tirx.PrimFunc([*items(func.params), *at], body, func.ret_type, func.attrs)
    return OuterAxes(inner, at, tuple(sizes))


def _nests(func: Any) -> list[Any]:
    if not isinstance(func.body, tvm.s_tir.SBlockRealize):
        raise NoGpuSchedule("the body is not a root block")
    body = func.body.block.body
    return items(body.seq) if isinstance(body, tirx.SeqStmt) else [body]


def _sizes(func: Any, nests: Sequence[Any]) -> list[Any]:
    """The symbolic extents of the last block, which has the results."""
    _, realize = _loops(nests[-1])
    out: list[Any] = []
    for iv in items(realize.block.iter_vars):
        if static(iv.dom.extent) is None:
            if any(tvm_ffi.structural_equal(iv.dom.extent, e) for e in out):
                raise NoGpuSchedule("two axes have the same symbolic size")
            out.append(iv.dom.extent)
    shapes = [e for p in items(func.params) if is_buffer_var(p) for e in items(p.ty.shape)]
    if not out and any(static(e) is None for e in shapes):
        raise NoGpuSchedule("a shape is symbolic")
    return out


def program_at(func: Any, keep: bool) -> tuple[GpuProgram, tuple[Any, ...]]:
    """Return the steps of a PrimFunc at one position of its symbolic axes, and the position.

    Raises:
        NoGpuSchedule: Its form is not understood.
    """
    outer = outer_axes(func)
    if outer is None:
        return read_program(func, keep), ()
    return read_program(outer.func, keep, symbolic=True), outer.at


def _elements(nest: Any) -> int:
    """The iterations of a loop nest at each position."""
    _, realize = _loops(nest)
    return product([static(iv.dom.extent) or 1 for iv in items(realize.block.iter_vars)])


def _loops(nest: Any) -> tuple[list[Any], Any]:
    loops = []
    while isinstance(nest, tirx.For):
        loops.append(nest)
        nest = nest.body
    if not isinstance(nest, tvm.s_tir.SBlockRealize):
        raise NoGpuSchedule("a loop nest is not around a block")
    return loops, nest


def _at(nest: Any, sizes: Sequence[Any], at: Sequence[Any], params: NodeDict[None]) -> Any:
    """A loop nest at a position of the symbolic axes."""
    loops, realize = _loops(nest)
    block, where, dropped = realize.block, Values(), NodeDict[None]()
    kept, places = [], []
    for iv, value in zip(items(block.iter_vars), items(realize.iter_values), strict=True):
        if static(iv.dom.extent) is not None:
            kept.append(iv)
            places.append(value)
            continue
        k = next((k for k, e in enumerate(sizes) if tvm_ffi.structural_equal(e, iv.dom.extent)), -1)
        if k < 0 or int(iv.iter_type) != 0 or not isinstance(value, tirx.Var):
            raise NoGpuSchedule("blocks differ in symbolic axes, or reduce along them")
        where[iv.var] = as_dtype(at[k], str(iv.var.ty.dtype))
        dropped[value] = None
    results = any(w.source in params for w in items(block.writes))
    if (results or block.init is not None) and len(where.items()) != len(sizes):
        raise NoGpuSchedule("a block lacks a symbolic axis")
    parts = [None if e is None else substitute(e, where) for e in (block.body, block.init)]
    inner = tvm.s_tir.SBlock(kept, [], [], block.name_hint, *parts)
    out = tvm.s_tir.SBlockRealize(places, realize.predicate, inner)
    for loop in reversed(loops):
        if loop.loop_var not in dropped:
            out = tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, out)
    return out


def _without(stmt: Any, small: NodeDict[Any], at: Sequence[Any]) -> Any:
    """A statement over buffers of one position in place of those of all."""

    def indices(buffer: Any, given: Any) -> list[Any]:
        pairs = list(zip(items(buffer.ty.shape), items(given), strict=True))
        symbolic = [i for e, i in pairs if static(e) is None]
        if not all(any(i.same_as(a) for a in at) for i in symbolic):
            raise NoGpuSchedule("a block reads another position than its own")
        return [i for e, i in pairs if static(e) is not None]

    def load(node: Any, mutator: Any) -> Any:
        node = mutator.default_mutate(node)
        new = small.get(node.source)
        return node if new is None else tirx.BufferLoad(new, indices(node.source, node.indices))

    def store(node: Any, mutator: Any) -> Any:
        node = mutator.default_mutate(node)
        new = small.get(node.buffer)
        if new is None:
            return node
        return tirx.BufferStore(new, node.value, indices(node.buffer, node.indices))

    rules = [(tvm.ir.TensorLoad, load), (tirx.BufferStore, store)]
    return tvm_ffi.structural_mutate(stmt, rules)
