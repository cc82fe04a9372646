"""Helpers to build and inspect TIR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from ..lifting.tir.node import NodeDict, as_dtype, items
from ..support.ir.call_ops import op_name
from ..support.tvm_compat import TensorLoad

Values = NodeDict[Any]


def values(*pairs: tuple[Any, Any]) -> Values:
    """Return a map from variables to values."""
    mapping = Values()
    for var, expr in pairs:
        mapping[var] = expr
    return mapping


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
    nodes: list[Any] = []
    tvm_ffi.structural_walk(node, (TensorLoad, nodes.append))
    return nodes


def mentions(node: Any) -> NodeDict[None]:
    """Return the scalar variables in an expression."""
    variables: NodeDict[None] = NodeDict()

    def note(var: Any) -> None:
        if not is_buffer_var(var):
            variables[var] = None

    tvm_ffi.structural_walk(node, (tvm.ir.Var, note))
    return variables


def calls(node: Any) -> bool:
    """Return whether an expression contains a call, such as an exponential."""
    nodes: list[Any] = []
    tvm_ffi.structural_walk(node, (tvm.ir.Call, nodes.append))
    return bool(nodes)


def seq(parts: Sequence[Any]) -> Any:
    """Return a sequence of statements, flattened."""
    flat: list[Any] = []
    for part in parts:
        flat += items(part.seq) if isinstance(part, tirx.SeqStmt) else [part]
    return flat[0] if len(flat) == 1 else tirx.SeqStmt(flat)


def loop(
    stem: str, extent: Any, like: Any, body: Callable[[Any], Any], kind: Any = tirx.ForKind.SERIAL
) -> Any:
    """Return ``for var in range(extent): body(var)``, without a loop if the extent is 1."""
    size = static(extent)
    if size == 1:
        return body(integer(0, like))
    var = tirx.Var(stem, dtype_of(like))
    end = integer(size, like) if size is not None else as_dtype(extent, dtype_of(like))
    return tirx.For(var, integer(0, like), end, kind, body(var))


def is_guard(expr: Any) -> bool:
    """Return whether an expression is an ``if_then_else``, which evaluates only one branch."""
    is_op = isinstance(getattr(expr, "op", None), tvm.ir.Op)
    return is_op and op_name(expr).rpartition(".")[2] == "if_then_else"


def local(name: str, shape: Sequence[Any], dtype: str) -> Any:
    """Declare a local buffer."""
    return tirx.decl_buffer(list(shape), dtype, name=name)
