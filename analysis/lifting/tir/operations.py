"""TIR's arithmetic on terms; integers are brought to normal form."""

from __future__ import annotations

from ...terms.condition_terms import conj, disj, eq0, ge0, ite, negate
from ...terms.integer import floordiv, floormod
from ...terms.interval import interval
from ...terms.order import bounds, nonneg
from ...terms.scalar import call
from ...terms.term import INT_DTYPES, CallTerm, Int, Term, Var, as_int, integer, raw_call
from ...terms.traversal import free, subterms, tensors


def arithmetic(op: str, a: Term, b: Term, dtype: str) -> Term:
    """Return a sum, difference, product or quotient."""
    if isinstance(a, Int) and isinstance(b, Int):
        if op == "add":
            return a + b
        if op == "sub":
            return a - b
        if op == "mul":
            return a * b
        return truncdiv(a, b)
    return call(op, (a, b), dtype)


def compare(op: str, a: Term, b: Term) -> Term:
    """Return a comparison; between integers in terms of ``ge0`` and ``eq0``."""
    if op in ("gt", "ge"):
        op, a, b = {"gt": "lt", "ge": "le"}[op], b, a
    if isinstance(a, Int) or isinstance(b, Int):
        poly = as_int(b) - as_int(a)
        if op == "lt":
            return ge0(poly - 1)
        if op == "le":
            return ge0(poly)
        return eq0(poly) if op == "eq" else negate(eq0(poly))
    return call(op, (a, b), "bool")


def bitwise(op: str, a: Term, b: Term, dtype: str) -> Term:
    """Return a bitwise operation, as arithmetic of integers or as a condition where it is one."""
    if dtype == "bool" and op in ("bitand", "bitor"):
        return (conj if op == "bitand" else disj)(a, b)
    if isinstance(a, Int) and isinstance(b, Int):
        k, (lo, _) = b.const, bounds(a)
        if op == "shl" and k is not None and 0 <= k < 64 and _shifts(a, k, dtype):
            return a * (1 << k)
        if op == "shr" and k is not None and 0 <= k < 64:
            return floordiv(a, integer(1 << k))
        if op == "shr" and _is_below(b, 32):
            dtype = "int"  # the quotient by a power of 2, in any width
        if op == "bitand" and k is not None and k >= 0 and k & (k + 1) == 0:
            return floormod(a, integer(k + 1))
        if op == "bitand" and lo is not None and k == 0:
            return integer(0)
    if op not in ("shl", "shr"):
        a, b = sorted((a, b), key=lambda term: term.uid)
    return call(op, (a, b), dtype)


def _is_below(poly: Int, limit: int) -> bool:
    low, high = bounds(poly)
    return (
        low is not None and high is not None and nonneg(low) and nonneg(integer(limit - 1) - high)
    )


def width(dtype: str) -> int:
    """Return the bits of an integer type; the fewest where several are not distinguished."""
    return int(dtype.removeprefix("u").removeprefix("int").removeprefix("bool") or 32)


def _shifts(poly: Int, k: int, dtype: str) -> bool:
    """Return whether ``poly << k`` drops no bits; a scalar parameter may have any value."""
    if k == 0:
        return True
    return all(v.kind != "scalar" for v in free(poly)) and fits(poly * (1 << k), dtype)


def truncdiv(a: Int, b: Int) -> Int:
    """Return the quotient as in C, which is floor division if both operands are not negative."""
    if all(lo is not None and nonneg(lo) for lo, _ in (bounds(a), bounds(b))):
        return floordiv(a, b)
    return as_int(raw_call("truncdiv", (a, b), "int"))


#: Kinds of variables that are not data: sizes and loop variables.
_INDEX = frozenset({"size", "scalar", "loop", "axis", "reduce"})
#: Types whose values all fit the index type.
_SMALL = frozenset({"int8", "int16", "uint8", "uint16"})
_WIDENED = {"int32": _SMALL, "int64": _SMALL | {"uint32"}, "int": _SMALL | {"uint32"}}


def cast(value: Term, dtype: str) -> Term:
    """Return a conversion; widening an integer and narrowing a bounded index change nothing."""
    if value.dtype == dtype:
        return value
    if dtype in INT_DTYPES:
        if isinstance(value, Int):
            if dtype == "int64" or fits(value, dtype) or _is_int32(value):
                return value
            return as_int(raw_call("cast", (value,), dtype))
        if value.dtype == "bool":
            return ite(value, integer(1), integer(0))
        if value.dtype in _WIDENED[dtype]:
            return as_int(value)
        if "float" in value.dtype:  # int32 or int64: certificates assume that it fits
            return as_int(raw_call("cast", (value,), "int"))
    return call("cast", (value,), dtype)


def fits(value: Int, dtype: str) -> bool:
    """Return whether an integer fits a type, by its bounds.

    Sizes have none: an index over them is assumed to fit if its coefficients do. A scalar parameter
    of 64 bits that is not a size may have any value.
    """
    top = 1 << (31 if dtype == "int32" else 63)
    limits = interval(value) or _literal_bounds(value)
    if limits is not None:
        return -top <= limits[0] and limits[1] < top
    if _of_data(value) or (dtype == "int32" and any(map(_is_wide, free(value)))):
        return False
    return all(-top <= c < top for s in subterms(value) for c in _coefs(s))


def _is_wide(var: Var) -> bool:
    return var.kind == "scalar" and var.dtype == "int64"


def _literal_bounds(value: Int) -> tuple[int, int] | None:
    lo, hi = bounds(value)
    if lo is None or hi is None or lo.const is None or hi.const is None:
        return None
    return lo.const, hi.const


def _of_data(value: Int) -> bool:
    """Whether elements of tensors, or the states of a loop, occur in it."""
    return bool(tensors(value)) or any(v.kind not in _INDEX for v in free(value))


def _coefs(term: Term) -> tuple[int, ...]:
    return tuple(c for _, c in term.terms) if isinstance(term, Int) else ()


def _is_int32(value: Int) -> bool:
    return isinstance(value.atom, CallTerm) and value.atom.dtype == "int32"
