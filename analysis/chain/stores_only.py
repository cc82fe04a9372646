"""Whether the only effects of a statement are the stores that it names.

That is so if it consists of the nodes listed here: no pointers, no calls with effects, no jump out.
Any other node may change any buffer, or end the function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tvm
import tvm_ffi

from ..lifting.tir.annotations import NEUTRAL
from ..lifting.tir.node import items
from ..support.tvm_compat import TENSOR_LOAD, is_predicated
from .footprint import ALL_REDUCE

_BINARY = ("Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max", "And", "Or",
           "LT", "LE", "GT", "GE", "EQ", "NE", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "LShift",
           "RShift")  # fmt: skip
#: Statements and expressions, with the fields that hold their parts.
_PARTS: dict[str, tuple[str, ...]] = {
    "AllocBuffer": (),
    "AttrStmt": ("value", "body"),
    "Bind": ("value",),
    "BufferStore": ("indices", "value"),
    "DeclBuffer": (),
    "Evaluate": ("value",),
    "For": ("min", "extent", "step", "body"),
    "IfThenElse": ("condition", "then_case", "else_case"),
    "SBlock": ("init", "body"),
    "SBlockRealize": ("iter_values", "predicate", "block"),
    "SeqStmt": ("seq",),
    "While": ("condition", "body"),
    "BitwiseNot": ("a",),
    "Broadcast": ("value",),
    "Call": ("args",),
    "Cast": ("value",),
    "FloatImm": (),
    "IntImm": (),
    "Let": ("value", "body"),
    "Not": ("a",),
    "Ramp": ("base", "stride"),
    "Select": ("condition", "true_value", "false_value"),
    "Shuffle": ("vectors", "indices"),
    TENSOR_LOAD: ("indices",),
    "Var": (),
    **dict.fromkeys(_BINARY, ("a", "b")),
}
_LOOPS = ("For", "While")
#: Jumps out of the innermost loop, or to its end.
_JUMPS = ("tirx.break_loop", "tirx.continue_loop")
#: Functions outside TIR: without a pointer to a buffer they cannot change it.
_EXTERN = ("tirx.call_extern", "tirx.tvm_call_packed", "tirx.tvm_call_cpacked")
#: A barrier changes no memory; a reduction over threads stores in its last operands.
_ORDER = ("tirx.tvm_storage_sync", ALL_REDUCE)
#: What a statement is for, which does not change what it stores.
_PURPOSES = ("hand_threaded", "reduce_scope")
#: The greatest ``TCallEffectKind`` of calls that only read.
_READS = 2
_THREADS = ("thread_extent", "virtual_thread")


def only_stores(node: Any, looped: bool = False) -> bool:
    """Whether the only effects of a statement are the stores that it names.

    Args:
        node: The statement.
        looped: Whether the statement is inside a loop, to which jumps may refer.
    """
    kind = type(node).__name__
    if kind not in _PARTS or (isinstance(node, tvm.ir.Expr) and not _is_number(node)):
        return False
    if kind == "Evaluate" and _jumps(node.value):
        return looped
    if not _RULES.get(kind, _always)(node):
        return False
    looped = looped or kind in _LOOPS
    return all(only_stores(p, looped) for p in _parts(node) if p is not None and not _is_text(p))


def _parts(node: Any) -> Iterator[Any]:
    """The statements and expressions in a node, and those that describe its buffers."""
    kind = type(node).__name__
    for name in _PARTS[kind]:
        part = getattr(node, name)
        yield from items(part) if isinstance(part, tvm_ffi.Array) else [part]
    if kind in ("AllocBuffer", "DeclBuffer"):
        yield from _dimensions(node.buffer)
    if kind == "SBlock":
        for buffer in items(node.alloc_buffers):
            yield from _dimensions(buffer)
        for m in items(node.match_buffers):
            yield from _dimensions(m.buffer)
            yield from (e for r in items(m.source.region) for e in (r.min, r.extent))


def _dimensions(buffer: Any) -> list[Any]:
    return [*items(buffer.ty.shape), *items(buffer.ty.strides), buffer.ty.elem_offset]


def _is_number(expr: Any) -> bool:
    """Whether the type of an expression is a number: not a pointer, buffer or text."""
    return type(expr.ty).__name__ == "PrimType"


def _always(node: Any) -> bool:
    return True


def _jumps(expr: Any) -> bool:
    return str(getattr(getattr(expr, "op", None), "name", "")) in _JUMPS


def _calls_purely(expr: Any) -> bool:
    """Whether a call has no effect, if its arguments are numbers or text."""
    if not isinstance(expr.op, tvm.ir.Op):
        return False
    effect = expr.op.get_attr("TCallEffectKind")
    return (effect is not None and int(effect) <= _READS) or str(expr.op.name) in _EXTERN + _ORDER


def _placed_freely(buffers: Iterable[Any]) -> bool:
    """Whether no buffer has a fixed address, which another buffer could share."""
    return not any(len(b.ty.allocated_addr) for b in buffers)


def _is_text(node: Any) -> bool:
    return type(node).__name__ == "StringImm"


_RULES: dict[str, Callable[[Any], bool]] = {
    "AllocBuffer": lambda stmt: _placed_freely([stmt.buffer]),
    "BufferStore": lambda stmt: not is_predicated(stmt),
    TENSOR_LOAD: lambda expr: not is_predicated(expr),
    "AttrStmt": lambda stmt: stmt.attr_key in (*NEUTRAL["AttrStmt"], *_THREADS, *_PURPOSES),
    "Call": _calls_purely,
    "SBlock": lambda stmt: _placed_freely(items(stmt.alloc_buffers)),
}
