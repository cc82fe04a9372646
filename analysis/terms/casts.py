"""Casts of operations on wider types, where the narrow operation has the same result.

    float16(float32(a) + float32(b)) = a + b           rounded twice as once: 24 >= 2*11 + 2
    uint8(int32(a) + int32(b)) = a + b                 modulo 256
    int32(floor(c * float32(i))) = i * m // 2**k       for c = m / 2**k, and products below 2**24

Source of the first: S. A. Figueroa, When is double rounding innocuous?, SIGNUM Newsletter 30(3).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from .integer import floordiv
from .order import bounds
from .term import CallTerm, Const, Int, Term, const, integer

Call = Callable[[str, tuple[Term, ...], str], Term]

_ROUNDED = frozenset({"add", "sub", "mul", "div"})
_BYTES = frozenset({"int8", "uint8", "int16", "uint16"})
_EXACT = 2**24


def narrowed(term: Term, dtype: str, call: Call) -> Term | None:
    """Return a cast to `dtype` as an operation of that type; None for other casts."""
    if dtype == "float16":
        return _rounded_once(term, call)
    if dtype in _BYTES and isinstance(term, Int):
        if term.const is not None and 0 <= term.const < 2**7:
            return const(term.const, dtype)
        return _modular(term, dtype, call)
    return None


def _rounded_once(term: Term, call: Call) -> Term | None:
    if not (isinstance(term, CallTerm) and term.op in _ROUNDED and term.dtype == "float32"):
        return None
    operands = [_half(x) for x in term.args]
    if None in operands or all(isinstance(x, Const) for x in operands):
        return None
    return call(term.op, tuple(operands), "float16")  # type: ignore[arg-type]


def _half(term: Term) -> Term | None:
    """The float16 number that a float32 term is."""
    if isinstance(term, CallTerm) and term.op == "cast" and term.args[0].dtype == "float16":
        return term.args[0]
    if isinstance(term, Const) and isinstance(term.value, float) and math.isfinite(term.value):
        if abs(term.value) < 2**15 and struct.unpack("e", struct.pack("e", term.value)) == (
            term.value,
        ):
            return const(term.value, "float16")
    return None


def _modular(poly: Int, dtype: str, call: Call) -> Term | None:
    """A sum, difference or product of two numbers of the type, which wraps around."""
    atoms = [a for mono, _ in poly.terms for a in mono]
    if len(atoms) != 2 or any(a.dtype != dtype for a in atoms):
        return None
    coefficients = [c for _, c in poly.terms]
    if len(poly.terms) == 1:
        return call("mul", tuple(atoms), dtype) if coefficients == [1] else None
    if any(len(mono) != 1 for mono, _ in poly.terms):
        return None  # a product and a literal
    if coefficients == [1, 1]:
        return call("add", tuple(atoms), dtype)
    if sorted(coefficients) == [-1, 1]:
        return call("sub", tuple(atoms if coefficients[0] == 1 else atoms[::-1]), dtype)
    return None


def floored(term: Term) -> Int | None:
    """Return ``floor(c * i)`` for an index i, if the product is exact."""
    if not (isinstance(term, CallTerm) and term.op == "floor" and term.dtype == "float32"):
        return None
    product = term.args[0]
    if not (isinstance(product, CallTerm) and product.op == "mul"):
        return None
    for factor, cast in (product.args, product.args[::-1]):
        if not (isinstance(factor, Const) and isinstance(cast, CallTerm) and cast.op == "cast"):
            continue
        index, value = cast.args[0], factor.value
        if not isinstance(index, Int) or not isinstance(value, float) or not 0 < value < _EXACT:
            continue
        above, below = value.as_integer_ratio()
        low, high = bounds(index)
        if low is None or high is None or low.const is None or high.const is None:
            continue
        if max(abs(low.const), abs(high.const)) * above < _EXACT and below < _EXACT:
            return floordiv(index * above, integer(below))
    return None
