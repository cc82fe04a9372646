"""PrimFuncs that store rows in caches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import tvm_ffi
from tvm import ir, relax, tirx

from ...analysis.blocks.tir import loop

#: So that nothing is fused with a call that writes its argument.
_OPAQUE = 8


class CacheKernels:
    """PrimFuncs, each once; ``names`` are taken."""

    def __init__(self, names: set[str]) -> None:
        self.functions: dict[Any, Any] = {}
        self._names = names

    def variable(self, func: Any, stem: str = "append_to_cache") -> Any:
        """Return the global variable of a PrimFunc."""
        for gvar, known in self.functions.items():
            if tvm_ffi.structural_equal(known, func, map_free_vars=True):
                return gvar
        stems = (f"{stem}_{k}" for k in itertools.count())
        name = next(n for n in stems if n not in self._names)
        self._names.add(name)
        gvar = global_var(name, func)
        self.functions[gvar] = func
        return gvar


def global_var(name: str, func: Any) -> Any:
    """Return a global variable with the type of a function, for a call before it is in a module."""
    gvar = ir.GlobalVar(name)
    ty = func.ty if isinstance(func, relax.Function) else relax.BlockBuilder().add_func(
        func, name).ty  # fmt: skip
    relax.expr._update_type(gvar, ty)
    return gvar


def append(cache: Any, new: Any, axis: int) -> Any:
    """Return a PrimFunc that stores rows behind the first `length`."""
    sizes = [_size(f"n{k}", e) for k, e in enumerate(new.shape)]
    shape = list(sizes)
    shape[axis] = tirx.Var("capacity", "int64")
    buffer = tirx.decl_buffer(shape, str(cache.dtype), name="cache")
    rows = tirx.decl_buffer(sizes, str(new.dtype), name="rows")
    length = tirx.Var("length", "int64")

    def store(at: list[Any]) -> Any:
        place = list(at)
        place[axis] = length + at[axis]
        return tirx.BufferStore(buffer, tirx.BufferLoad(rows, at), place)

    return _func([buffer, rows, length], _nest(sizes, length, store))


def update(cache: Any, new: Any, positions: Any, order: Sequence[int]) -> Any:
    """Return a PrimFunc that stores rows at positions; those outside of the cache are dropped.

    Args:
        cache: The type of the cache.
        new: The type of the rows: their number, and the axes ``order[1:]`` of the cache.
        positions: The type of the positions, (rows, 1).
        order: The axes of the cache, that of the positions first.
    """
    sizes = [_size(f"n{k}", e) for k, e in enumerate(new.shape)]
    room = _size("capacity", cache.shape[order[0]])
    shape: list[Any] = [None] * len(order)
    for axis, extent in zip(order, [room, *sizes[1:]], strict=True):
        shape[axis] = extent
    buffer = tirx.decl_buffer(shape, str(cache.dtype), name="cache")
    rows = tirx.decl_buffer(sizes, str(new.dtype), name="rows")
    index = tirx.decl_buffer([sizes[0], 1], str(positions.dtype), name="positions")
    zero = tirx.const(0, "int64")

    def store(at: list[Any]) -> Any:
        position = tirx.Cast("int64", tirx.BufferLoad(index, [at[0], zero]))
        place: list[Any] = [None] * len(order)
        for axis, i in zip(order, [position, *at[1:]], strict=True):
            place[axis] = i
        inside = tirx.And(position >= 0, position < room)
        row = tirx.BufferStore(buffer, tirx.BufferLoad(rows, at), place)
        return tirx.IfThenElse(inside, row, None)

    return _func([buffer, rows, index], _nest(sizes, zero, store))


def keep(result: Any, caches: Sequence[Any]) -> Any:
    """Return a PrimFunc that writes nothing: a result that it "updates" depends on caches."""
    sizes = (f"n{k}" for k in itertools.count())
    names = ["result", *(f"cache{k}" for k in range(len(caches)))]
    buffers = [tirx.decl_buffer([_size(next(sizes), e) for e in ty.shape], str(ty.dtype), name=n)
               for n, ty in zip(names, [result, *caches], strict=True)]  # fmt: skip
    return _func(buffers, tirx.Evaluate(tirx.const(0, "int32")))


def _nest(sizes: Sequence[Any], like: Any, store: Callable[[list[Any]], Any]) -> Any:
    """Return serial loops, the first axis outermost."""

    def inside(at: list[Any]) -> Any:
        if len(at) == len(sizes):
            return store(at)
        return loop(f"i{len(at)}", sizes[len(at)], like, lambda i: inside([*at, i]))

    return inside([])


def _func(params: list[Any], body: Any) -> Any:
    func = tirx.PrimFunc(params, body)
    return func.with_attr("tirx.noalias", True).with_attr("op_pattern", _OPAQUE)


def _size(name: str, extent: Any) -> Any:
    return extent if isinstance(extent, tirx.IntImm) else tirx.Var(name, "int64")
