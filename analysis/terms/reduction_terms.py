"""Smart constructors for reductions, and the guards of their bodies."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .condition_terms import atom_of, conj, ite, parts, same_term
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
    if op == "add":
        body = guarded_product(body)
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


def guarded_product(body: Term) -> Term:
    """``(a if c and p else 0) * (b if c and q else 0)``, a summand, under its common guard c.

    It is zero where c is false, up to its sign, which a sum drops.
    """
    factors, dtype = _factors(body), body.dtype
    guards = [split_guard(f, zero_of(f))[0] for f in factors]
    if len(factors) < 2 or TRUE in guards:
        return body
    common = [c for c in parts(guards[0]) if all(c in parts(g) for g in guards[1:])]
    if not common:
        return body
    inner = [_without(f, g, common) for f, g in zip(factors, guards, strict=True)]
    out = inner[0]
    for factor in inner[1:]:
        out = as_int(out) * as_int(factor) if dtype == "int" else call("mul", (out, factor), dtype)
    return ite(conj(*common), out, zero_of(out))


def _factors(body: Term) -> tuple[Term, ...]:
    if isinstance(body, Int):
        (mono, coef), *others = body.terms or (((), 0),)
        return () if others or coef != 1 else mono
    return body.args if isinstance(body, CallTerm) and body.op == "mul" else ()


def zero_of(term: Term) -> Term:
    """Return zero in the type of a term."""
    if isinstance(term, Int) or term.dtype in ("int", "int32", "int64"):
        return ZERO
    return const(0.0 if "float" in term.dtype else 0, term.dtype)


def _without(factor: Term, guard: Term, common: Sequence[Term]) -> Term:
    """A guarded factor without conjuncts of its guard."""
    _, value = split_guard(factor, zero_of(factor))
    return ite(conj(*(c for c in parts(guard) if c not in common)), value, zero_of(factor))


def split_guard(body: Term, otherwise: Term) -> tuple[Term, Term]:
    """Return ``(g, f)`` for ``ite(g, f, otherwise)``; ``(TRUE, body)`` for any other."""
    atom = atom_of(body)
    if isinstance(atom, CallTerm) and atom.op == "ite" and same_term(atom.args[2], otherwise):
        return atom.args[0], atom.args[1]
    return TRUE, body
