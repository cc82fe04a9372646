"""Attributes of operators as TVM expects them: terms over sizes become expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import tirx

from ..terms.term import CallTerm, Int, Term, Var
from .call_op import NotBuilt


def to_prim(value: Any, sizes: Mapping[Var, Any]) -> Any:
    """Return an attribute as TVM expects it: terms over sizes become PrimExprs."""
    if isinstance(value, Int):
        if value.const is not None:
            return value.const
        out: Any = None
        for mono, coef in value.terms:
            part: Any = None
            for atom in mono:
                factor = _atom(atom, sizes)
                part = factor if part is None else part * factor
            constant = _imm(coef)
            part = constant if part is None else part if coef == 1 else part * constant
            out = part if out is None else out + part
        return out
    if isinstance(value, (tuple, list)):
        return type(value)(to_prim(v, sizes) for v in value)
    if isinstance(value, Term):
        raise NotBuilt(f"a symbolic dimension {value!r} has no expression over the sizes")
    return value


def _atom(atom: Any, sizes: Mapping[Var, Any]) -> Any:
    if isinstance(atom, Var) and atom in sizes:
        return sizes[atom]
    if isinstance(atom, CallTerm) and atom.op == "floordiv":
        return tirx.floordiv(to_prim(atom.args[0], sizes), _imm(to_prim(atom.args[1], sizes)))
    if isinstance(atom, CallTerm) and atom.op in ("min", "max"):
        pick = tirx.min if atom.op == "min" else tirx.max
        args = [_imm(to_prim(a, sizes)) for a in atom.args]
        out = args[0]
        for arg in args[1:]:
            out = pick(out, arg)
        return out
    raise NotBuilt(f"a symbolic dimension {atom!r} has no expression over the sizes")


def _imm(value: Any) -> Any:
    """An integer as an expression; terms hold integers of any size, expressions only int64."""
    if not isinstance(value, int):
        return value
    if not -(1 << 63) <= value < 1 << 63:
        raise NotBuilt(f"{value} does not fit in int64")
    return tirx.IntImm("int64", value)
