"""Split loops over concatenated tensors where the tensor that they read changes.

    Before: for i in 0 … 112:  y[i] = if_then_else(80 <= i, b[i - 80], a[i])
    After:  for i in 0 … 80:   y[i] = a[i]
            for i in 0 … 32:   y[i + 80] = b[i]

TVM lowers a concat of k tensors to one loop with k - 1 nested branches. LLVM takes more than linear
time for these: 140 s of CPU for a convnet that concatenates up to 32 tensors 80 times. Each
iteration is still executed once, with the same value, so the result is the same to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ....analysis.blocks.tir import integer, is_guard, loads, static
from ....analysis.lifting.tir.node import NodeDict, items, substitute
from ....analysis.support.tvm_compat import SBlock, SBlockRealize, source_of

#: For comparisons with a number on the right: whether the left values where it holds are the upper
#: ones, and what is added to the number for the first value of the upper part.
_UPPER = {tirx.GE: (True, 0), tirx.GT: (True, 1), tirx.LT: (False, 0), tirx.LE: (False, 1)}
#: The same comparison with its sides exchanged.
_MIRRORED = {tirx.GE: tirx.LE, tirx.GT: tirx.LT, tirx.LT: tirx.GT, tirx.LE: tirx.GE}


@dataclass(frozen=True)
class _Nest:
    """Serial loops around a block that stores one element in each iteration."""

    loops: Sequence[Any]
    realize: Any

    @property
    def block(self) -> Any:
        return self.realize.block


@dataclass(frozen=True)
class _Piece:
    """The values of an axis from ``low`` to below ``high``, where ``value`` is stored."""

    low: int
    high: int
    value: Any


def split_branches(mod: Any) -> Any:
    """Return the module with its branching loops split; ``mod`` is not changed."""
    out = mod.clone()
    for gvar, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc) and not has_views(func):
            body = tvm_ffi.structural_mutate(func.body, [(tirx.For, _split)])
            if not body.same_as(func.body):
                out.update_func(gvar, func.with_body(body))
    return out


def has_views(func: Any) -> bool:
    """Return whether two buffers may have the same memory, so that accesses of both may collide."""
    views: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tirx.DeclBuffer, views.append))
    return bool(views)


def _split(loop: Any, mutator: Any) -> Any:
    nest = _nest(loop)
    axis = None if nest is None else _axis(nest)
    extent = None if nest is None or axis is None else static(nest.loops[axis].extent)
    if nest is None or axis is None or extent is None:
        return mutator.default_mutate(loop)
    var, value = nest.block.iter_vars[axis].var, nest.block.body.value
    parts = _pieces(value, var, 0, extent)
    if len(parts) < 2:
        return loop
    return tirx.SeqStmt([_part(nest, axis, piece) for piece in parts])


def _nest(loop: Any) -> _Nest | None:
    """Return the nest of a loop if each iteration is independent and stores one element."""
    loops, stmt = [], loop
    while isinstance(stmt, tirx.For):
        if stmt.kind != tirx.ForKind.SERIAL or stmt.annotations or stmt.step is not None:
            return None
        if static(stmt.min) != 0:
            return None
        loops.append(stmt)
        stmt = stmt.body
    if not isinstance(stmt, SBlockRealize) or static(stmt.predicate) != 1:
        return None
    block, store = stmt.block, stmt.block.body
    plain = not (block.init or items(block.alloc_buffers) or items(block.match_buffers)
                 or block.annotations)  # fmt: skip
    axes, values = items(block.iter_vars), items(stmt.iter_values)
    if not plain or not isinstance(store, tirx.BufferStore) or len(axes) != len(loops):
        return None
    whole = all(
        value.same_as(part.loop_var) and int(axis.iter_type) == 0 and static(axis.dom.min) == 0
        and tvm_ffi.structural_equal(axis.dom.extent, part.extent)
        for axis, value, part in zip(axes, values, loops, strict=True)
    )  # fmt: skip
    independent = not _uses(block, [part.loop_var for part in loops])
    return _Nest(loops, stmt) if whole and independent and _stores_once(block, store) else None


def _uses(block: Any, loop_vars: Sequence[Any]) -> bool:
    """Return whether a block or an extent of its axes reads a loop variable.

    `_part` gives new variables to the loops, and other values to one of them.
    """
    used: list[Any] = []
    for part in (*(v.dom.extent for v in items(block.iter_vars)), block):
        tvm_ffi.structural_walk(part, (tirx.Var, used.append))
    return any(var.same_as(loop) for var in used for loop in loop_vars)


def _stores_once(block: Any, store: Any) -> bool:
    """Return whether no two iterations store the same element, and none reads a stored one."""
    indices = items(store.indices)
    axes = [v.var for v in items(block.iter_vars)]
    named = [k for k, a in enumerate(axes) if any(i.same_as(a) for i in indices)]
    extents = [static(v.dom.extent) for v in items(block.iter_vars)]
    alone = all(k in named or extent == 1 for k, extent in enumerate(extents))
    return alone and not any(source_of(load).same_as(store.buffer) for load in loads(store.value))


def _axis(nest: _Nest) -> int | None:
    """Return the axis of which the outermost branch compares the value with a number."""
    value = nest.block.body.value
    if not is_guard(value) or (compared := _compared(value.args[0])) is None:
        return None
    for k, axis in enumerate(nest.block.iter_vars):
        if compared[0].same_as(axis.var) and static(axis.dom.extent) is not None:
            return k
    return None


def _pieces(value: Any, var: Any, low: int, high: int) -> list[_Piece]:
    """Return what is stored for the values of an axis between two bounds."""
    compared = _compared(value.args[0]) if is_guard(value) else None
    if compared is None or not compared[0].same_as(var):
        return [_Piece(low, high, value)] if low < high else []
    _, upper, first = compared
    first = min(max(first, low), high)
    above, below = (value.args[1], value.args[2]) if upper else (value.args[2], value.args[1])
    return [*_pieces(below, var, low, first), *_pieces(above, var, first, high)]


def _compared(condition: Any) -> tuple[Any, bool, int] | None:
    """Return a variable, whether a condition holds for its upper values, and the first of these."""
    kind = type(condition)
    if kind not in _UPPER:
        return None
    left, right = condition.a, condition.b
    if static(right) is None:
        left, right, kind = right, left, _MIRRORED[kind]
    bound = static(right)
    if bound is None or not isinstance(left, tirx.Var):
        return None
    upper, more = _UPPER[kind]
    return left, upper, int(bound) + more


def _part(nest: _Nest, axis: int, piece: _Piece) -> Any:
    """Return the nest for one piece, with variables of its own."""
    block = nest.block
    axes = [tirx.IterVar(v.dom, tirx.Var(v.var.name, v.var.ty), v.iter_type) for v in
            block.iter_vars]  # fmt: skip
    names: NodeDict[Any] = NodeDict()
    for old, new in zip(block.iter_vars, axes, strict=True):
        names[old.var] = new.var
    value = substitute(piece.value, names)
    store = substitute(block.body, names)
    store = tirx.BufferStore(store.buffer, value, store.indices)
    reads = [_element(load) for load in loads(value)]
    body = SBlock(axes, reads, [substitute(w, names) for w in block.writes], block.name_hint, store)
    loops = [tirx.Var(part.loop_var.name, part.loop_var.ty) for part in nest.loops]
    like = nest.loops[axis].loop_var.ty.dtype
    places = [var + tirx.IntImm(like, piece.low) if k == axis else var
              for k, var in enumerate(loops)]  # fmt: skip
    out = SBlockRealize(places, True, body)
    for k in reversed(range(len(loops))):
        extent = tirx.IntImm(like, piece.high - piece.low) if k == axis else nest.loops[k].extent
        out = tirx.For(loops[k], nest.loops[k].min, extent, tirx.ForKind.SERIAL, out)
    return out


def _element(load: Any) -> Any:
    """Return the region of one element that is read."""
    ranges = [tvm.ir.Range.from_min_extent(i, integer(1, i)) for i in items(load.indices)]
    return tirx.stmt.BufferRegion(source_of(load), ranges)
