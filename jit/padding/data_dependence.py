"""What data may determine: indices, extents and divisors that contain loads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tvm_ffi

from ...analysis.lifting.tir.node import items

#: Integer divisions, which trap where the divisor is zero.
DIVISIONS = ("FloorDiv", "FloorMod", "Mod", "Div")
#: Statements that may not be left, or not normally.
STOPS = frozenset({"While", "AssertStmt"})


def operands(expr: Any) -> list[Any]:
    """Return the expressions that an expression consists of."""
    kind = type(expr).__name__
    if kind == "TensorLoad":
        return list(items(expr.indices))
    if kind == "Call":
        return [a for a in items(expr.args) if hasattr(a, "ty")]
    if kind == "Select":
        return [expr.condition, expr.true_value, expr.false_value]
    if kind == "Let":
        return [expr.value, expr.body]
    if kind in ("Cast", "Broadcast"):
        return [expr.value]
    if kind == "Ramp":
        return [expr.base, expr.stride]
    if hasattr(expr, "b"):
        return [expr.a, expr.b]
    return [expr.a] if hasattr(expr, "a") else []


def nodes_of(node: Any) -> Iterator[Any]:
    """Return all nodes in a node, children first."""
    nodes: list[Any] = []
    tvm_ffi.structural_walk(node, nodes.append, order="post")
    return iter(nodes)


def reads_data(expr: Any) -> bool:
    """Return whether an expression contains a load."""
    return any(type(x).__name__ == "TensorLoad" for x in nodes_of(expr))


def may_depend_on_data(body: Any) -> bool:
    """Return whether data may determine an index, extent or divisor; usually it does not."""
    for node in nodes_of(body):
        kind = type(node).__name__
        if kind in STOPS or (kind in DIVISIONS and "int" in str(node.ty.dtype)):
            if kind in STOPS or type(node.b).__name__ != "IntImm" or int(node.b.value) < 1:
                return True
        exprs = _checked_exprs(node)
        if any(reads_data(e) for e in exprs):
            return True
        if kind in ("Bind", "Let") and reads_data(node.value):
            return True
        if kind == "DeclBuffer" and type(node.buffer.ty.elem_offset).__name__ != "IntImm":
            return True
    return False


def _checked_exprs(node: Any) -> list[Any]:
    """Return the expressions of a node that data must not make arbitrary."""
    kind = type(node).__name__
    if kind in ("TensorLoad", "BufferStore"):
        return list(items(node.indices))
    if kind == "For":
        return [node.min, node.extent]
    if kind == "MatchBufferRegion":
        return [e for r in items(node.source.region) for e in (r.min, r.extent)]
    return list(items(node.iter_values)) if kind == "SBlockRealize" else []
