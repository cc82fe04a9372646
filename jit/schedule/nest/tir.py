"""Small helpers to write TIR."""

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
    """What variables are worth."""
    made = Values()
    for v, e in pairs:
        made[v] = e
    return made


def dtype_of(e: Any) -> str:
    return str(e.ty.dtype)


def integer(value: int, like: Any) -> Any:
    """A literal of the type of ``like``."""
    return tirx.IntImm(dtype_of(like), value)


def static(e: Any) -> int | None:
    """The value of an extent, None if it is symbolic."""
    if isinstance(e, int):
        return e
    return int(e.value) if isinstance(e, tirx.IntImm) else None


def loads(node: Any) -> list[Any]:
    """All loads in an expression, in order."""
    found: list[Any] = []
    tvm_ffi.structural_walk(node, (tvm.ir.TensorLoad, found.append))
    return found


def mentions(node: Any) -> NodeDict[None]:
    """The scalar variables in an expression."""
    found: NodeDict[None] = NodeDict()

    def note(v: Any) -> None:
        if not is_buffer_var(v):
            found[v] = None

    tvm_ffi.structural_walk(node, (tvm.ir.Var, note))
    return found


def calls(node: Any) -> bool:
    """Whether an expression calls something: an exponential, say."""
    found: list[Any] = []
    tvm_ffi.structural_walk(node, (tvm.ir.Call, found.append))
    return bool(found)


def seq(parts: Sequence[Any]) -> Any:
    """Statements one after the other."""
    flat: list[Any] = []
    for p in parts:
        flat += items(p.seq) if isinstance(p, tirx.SeqStmt) else [p]
    return flat[0] if len(flat) == 1 else tirx.SeqStmt(flat)


def loop(
    stem: str, extent: Any, like: Any, body: Callable[[Any], Any], kind: Any = tirx.ForKind.SERIAL
) -> Any:
    """``for v in range(extent): body(v)``; no loop where there is one iteration."""
    known = static(extent)
    if known == 1:
        return body(integer(0, like))
    v = tirx.Var(stem, dtype_of(like))
    end = integer(known, like) if known is not None else as_dtype(extent, dtype_of(like))
    return tirx.For(v, integer(0, like), end, kind, body(v))


def is_guard(e: Any) -> bool:
    """Whether a call evaluates only one of its arguments."""
    return isinstance(e.op, tvm.ir.Op) and str(e.op.name).rpartition(".")[2] == "if_then_else"


def local(name: str, shape: Sequence[Any], dtype: str) -> Any:
    """A buffer inside the function."""
    return tirx.decl_buffer(list(shape), dtype, name=name)
