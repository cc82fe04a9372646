"""Helpers to build and inspect TIR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from ....analysis.lifting.tir.node import NodeDict, as_dtype, items

Values = NodeDict[Any]


def values(*pairs: tuple[Any, Any]) -> Values:
    """Return a map from variables to values."""
    made = Values()
    for v, expr in pairs:
        made[v] = expr
    return made


def dtype_of(expr: Any) -> str:
    return str(expr.ty.dtype)


def integer(value: int, like: Any) -> Any:
    """Return an integer literal with the dtype of ``like``."""
    return tirx.IntImm(dtype_of(like), value)


def static(expr: Any) -> int | None:
    """Return the value of an extent, or None if it is symbolic."""
    if isinstance(expr, int):
        return expr
    return int(expr.value) if isinstance(expr, tirx.IntImm) else None


def loads(node: Any) -> list[Any]:
    """Return all loads in an expression, in order."""
    found: list[Any] = []
    tvm_ffi.structural_walk(node, (tvm.ir.TensorLoad, found.append))
    return found


def mentions(node: Any) -> NodeDict[None]:
    """Return the scalar variables in an expression."""
    found: NodeDict[None] = NodeDict()

    def note(v: Any) -> None:
        if not is_buffer_var(v):
            found[v] = None

    tvm_ffi.structural_walk(node, (tvm.ir.Var, note))
    return found


def calls(node: Any) -> bool:
    """Return whether an expression contains a call, such as an exponential."""
    found: list[Any] = []
    tvm_ffi.structural_walk(node, (tvm.ir.Call, found.append))
    return bool(found)


def seq(parts: Sequence[Any]) -> Any:
    """Return a sequence of statements, flattened."""
    flat: list[Any] = []
    for param in parts:
        flat += items(param.seq) if isinstance(param, tirx.SeqStmt) else [param]
    return flat[0] if len(flat) == 1 else tirx.SeqStmt(flat)


def loop(
    stem: str, extent: Any, like: Any, body: Callable[[Any], Any], kind: Any = tirx.ForKind.SERIAL
) -> Any:
    """Return ``for v in range(extent): body(v)``, without a loop if the extent is 1."""
    known = static(extent)
    if known == 1:
        return body(integer(0, like))
    v = tirx.Var(stem, dtype_of(like))
    end = integer(known, like) if known is not None else as_dtype(extent, dtype_of(like))
    return tirx.For(v, integer(0, like), end, kind, body(v))


def is_guard(expr: Any) -> bool:
    """Return whether a call is an ``if_then_else``, which evaluates only one branch."""
    return isinstance(expr.op, tvm.ir.Op) and str(expr.op.name).rpartition(".")[2] == "if_then_else"


def local(name: str, shape: Sequence[Any], dtype: str) -> Any:
    """Declare a local buffer."""
    return tirx.decl_buffer(list(shape), dtype, name=name)
