"""Buffers with int64 extents, as Relax has them.

Before: q: T.Buffer((8, 8), "float32")
After:  q: T.Buffer((T.int64(8), T.int64(8)), "float32")

``FuseTIR`` refuses a value that two PrimFuncs take by buffers of different types, and extents of
different dtypes make different types. A hand-written PrimFunc has int32, a legalised one int64.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from .node import NodeDict, items, substitute


def int64_extents(mod: tvm.IRModule) -> tvm.IRModule:
    """Return the module with int64 extents of its PrimFuncs' parameters; `mod` is not changed.

    Symbolic extents stay, and so do buffers with strides or an offset.
    """
    funcs = {g: f for g, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)}
    changed = {g: new for g, f in funcs.items() if (new := _widened(f)) is not f}
    if not changed:
        return mod
    new_mod = mod.clone()
    for gvar, func in changed.items():
        new_mod.update_func(gvar, func)
    return new_mod


def _widened(func: Any) -> Any:
    params = items(func.params)
    wide = NodeDict[Any]()
    for param in params:
        if is_buffer_var(param) and _is_narrow(param.ty):
            wide[param] = _wide(param)
    if not wide.values():
        return func
    params = [wide[p] if p in wide else p for p in params]
    return tirx.PrimFunc(params, substitute(func.body, wide), func.ret_type, func.attrs)


def _is_narrow(buffer: Any) -> bool:
    narrow = any(_is_literal(e) and str(e.ty.dtype) != "int64" for e in items(buffer.shape))
    offset = buffer.elem_offset
    return narrow and not len(buffer.strides) and _is_literal(offset) and int(offset) == 0


def _is_literal(extent: Any) -> bool:
    return isinstance(extent, tirx.IntImm)


def _wide(param: Any) -> Any:
    extents = items(param.ty.shape)
    shape = [tirx.IntImm("int64", int(e)) if _is_literal(e) else e for e in extents]
    scope = str(param.ty.storage_scope)
    return tirx.decl_buffer(
        shape,
        str(param.ty.dtype),
        param.name,
        scope="" if scope == "global" else scope,
        layout=None if param.ty.layout is None else "default",
    )
