"""Checks that loop nests, blocks and calls are in TIR's standard form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm.tirx.buffer import is_buffer_var

from ..lifting.tir.from_tir import ExpressionReader
from ..lifting.tir.node import items
from .block_terms import BlockEnv, Opaque, index_term


def nodes_of(parts: Sequence[Any], *kinds: Any) -> list[list[Any]]:
    """All nodes of each kind, in order."""
    nodes: list[list[Any]] = [[] for _ in kinds]
    rules = [(kind, into.append) for kind, into in zip(kinds, nodes, strict=True)]
    for part in parts:
        tvm_ffi.structural_walk(part, rules)
    return nodes


def loops_of(stmt: Any) -> tuple[tuple[Any, ...], Any]:
    """The loops around the single block of a nest."""
    loops = []
    while type(stmt).__name__ == "For":
        if int(stmt.kind) != 0 or len(stmt.annotations) or stmt.step is not None:
            raise Opaque("a loop is not serial, or is annotated")
        if type(stmt.min).__name__ != "IntImm" or int(stmt.min):
            raise Opaque("a loop does not start at 0")
        loops.append(stmt)
        stmt = stmt.body
    if type(stmt).__name__ != "SBlockRealize":
        raise Opaque(f"a loop nest contains {type(stmt).__name__}, expected one block")
    block = stmt.block
    if type(stmt.predicate).__name__ != "IntImm" or not int(stmt.predicate):
        raise Opaque("a block has a predicate")
    if len(block.alloc_buffers) or len(block.match_buffers):
        raise Opaque("a block allocates or matches buffers")
    return tuple(loops), stmt


def check_statements(stmt: Any, env: BlockEnv, reader: ExpressionReader) -> None:
    """Check that a block consists of stores, bound values and conditions."""
    kind = type(stmt).__name__
    if kind == "SeqStmt":
        for part in items(stmt.seq):
            check_statements(part, env, reader)
    elif kind == "IfThenElse":
        check_statements(stmt.then_case, env, reader)
        if stmt.else_case is not None:
            check_statements(stmt.else_case, env, reader)
    elif kind == "Bind":
        value = (
            index_term(reader, stmt.value)
            if str(stmt.value.ty.dtype) in ("int32", "int64")
            else None
        )
        if value is not None:
            env.axes[stmt.var] = value
    elif kind != "BufferStore":
        raise Opaque(f"a block contains a {kind} statement")


def check_call(expr: Any) -> None:
    """Check that a call has no effect and takes no buffer as a pointer."""
    effect = expr.op.get_attr("TCallEffectKind") if isinstance(expr.op, tvm.ir.Op) else None
    if effect is None or int(effect) > 1 or str(expr.op.name) == "tirx.address_of":
        raise Opaque(f"calls {expr.op}, which is not TIR or has side effects")
    if any(is_buffer_var(a) for a in items(expr.args)):
        raise Opaque("a buffer is used as a pointer")
