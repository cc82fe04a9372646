"""Smart constructors for reductions, and the guards of their bodies."""

from __future__ import annotations

import math

from .condition_terms import atom_of, ite, same_term
from .scalar import call
from .term import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    CallTerm,
    Int,
    Reduce,
    Term,
    Var,
    as_int,
    const,
    raw_call,
    raw_reduce,
)


def _ends(unsigned: str, bits: int) -> tuple[int, int]:
    return (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


#: Least and greatest values of the integer types that are not polynomials.
SMALL = {f"{u}int{b}": _ends(u, b) for u in ("", "u") for b in (8, 16)}


def identity(op: str, dtype: str) -> Term | None:
    """Return the identity element of a combiner, if it is a literal."""
    if op in ("add", "mul"):
        if dtype in ("int", "int32", "int64"):
            return ZERO if op == "add" else ONE
        value: float | int = 0 if op == "add" else 1
        return const(float(value) if "float" in dtype else value, dtype)
    if op in ("and", "or"):
        return TRUE if op == "and" else FALSE
    if op in ("max", "min"):
        if dtype in ("int", "int32", "int64"):
            return as_int(raw_call("lowest" if op == "max" else "highest", (), "int"))
        if "float" in dtype:
            return const(-math.inf if op == "max" else math.inf, dtype)
        if dtype in SMALL:
            return const(SMALL[dtype][op == "min"], dtype)
    return None


def reduce(op: str, axes: tuple[Var, ...], body: Term, init: Term, dtype: str) -> Term:
    """Return ``init ⊕ ⊕_{axes} body``; nested reductions of one kind are merged."""
    if isinstance(init, Int) or isinstance(body, Int):
        body, init = as_int(body), as_int(init)
    unit = identity(op, dtype)
    inner = atom_of(body)
    if unit is not None and isinstance(inner, CallTerm) and inner.op == "ite":
        hoisted = _hoist_guard(op, axes, inner, init, unit)
        if hoisted is not None:
            return hoisted
    if init is unit and isinstance(inner, CallTerm) and inner.op == op and unit in inner.args[:1]:
        remaining = inner.args[1:]
        if len(remaining) == 1:  # unit ⊕ f is f, up to the sign of zero, which the sum drops
            body = remaining[0]
    if isinstance(inner, Reduce) and inner.op == op and inner.init is unit:
        axes, body = (*axes, *inner.axes), inner.body
    elif not axes:
        return call(op, (init, body), dtype) if init is not unit else body
    out = raw_reduce(op, axes, body, init, dtype)
    return as_int(out) if dtype in ("int", "int32", "int64") else out


def _hoist_guard(
    op: str, axes: tuple[Var, ...], body: CallTerm, init: Term, unit: Term
) -> Term | None:
    """``⊕_a (⊕_b f if g else unit) = ⊕_{a,b} (f if g else unit)``."""
    inner = atom_of(body.args[1])
    if not (same_term(body.args[2], unit) and isinstance(inner, Reduce)):
        return None
    if inner.op != op or inner.init is not unit:
        return None
    merged = ite(body.args[0], inner.body, unit)
    return reduce(op, (*axes, *inner.axes), merged, init, inner.dtype)


def split_guard(body: Term, otherwise: Term) -> tuple[Term, Term]:
    """Return ``(g, f)`` for ``ite(g, f, otherwise)``; ``(TRUE, body)`` for any other."""
    atom = atom_of(body)
    if isinstance(atom, CallTerm) and atom.op == "ite" and same_term(atom.args[2], otherwise):
        return atom.args[0], atom.args[1]
    return TRUE, body
