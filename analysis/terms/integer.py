"""Integer normal form: floor division.

``x % d`` is never a node: it is ``x - d * (x // d)``. With that one choice ``x // 4 * 4 + x % 4``
is ``x``, ``(x % 12) // 4`` is ``x // 4 - 3 * (x // 12)``, and equal nested, fused and split indices
are in most cases the same polynomial.

Divisors are positive; a division whose divisor is not known to be positive is an opaque call.
"""

from __future__ import annotations

import math

from . import call_bounds as call_bounds
from .order import CALL_BOUNDS, Bounds, bounds, nonneg, positive
from .quotient import divide, divides, is_div
from .term import (
    ONE,
    ZERO,
    CallTerm,
    Int,
    Later,
    Var,
    as_int,
    integer,
    mul,
    polynomial,
    raw_call,
    recall,
    remember,
)


def floordiv(p: Int, d: Int) -> Int:
    """Return ``floor(p / d)``."""
    if d is ONE:
        return p
    if p.const is not None and d.const:
        return integer(p.const // d.const)
    if not positive(d):
        return as_int(raw_call("floordiv_any", (p, d), "int"))
    key = f"//{d.uid}"
    quotient: Int | None = recall(p, key)
    if quotient is None:
        quotient = _floordiv(p, d)
        remember(p, key, quotient)
    return quotient


def floormod(p: Int, d: Int) -> Int:
    """Return ``p - d * floor(p / d)``."""
    if not positive(d):
        return as_int(raw_call("floormod_any", (p, d), "int"))
    return p - mul(d, floordiv(p, d))


def _floordiv(p: Int, d: Int) -> Int:
    quotient, remainder = divide(p, d)
    if remainder.const is not None and d.const:
        return quotient + remainder.const // d.const
    inside = _constant_quotient(remainder, d)
    if inside is not None:
        return quotient + inside
    digits = _under_digits(remainder, d)
    if digits is not None:
        return quotient + digits
    remainder, extra = _reduce_coefficients(remainder, d)
    quotient = quotient + extra
    inside = _constant_quotient(remainder, d)
    if inside is not None:
        return quotient + inside
    shorter = _drop_digits(remainder, d) or _nested(remainder, d) or _whole_digit(remainder, d)
    if shorter is not None:
        return quotient + shorter
    return quotient + as_int(raw_call("floordiv", (remainder, d), "int"))


def _constant_quotient(p: Int, d: Int) -> Int | None:
    """The quotient, if the bounds of p allow only one."""
    lo, hi = bounds(p)
    if lo is None or hi is None:
        return None
    if lo.const is not None and hi.const is not None and d.const:
        return integer(lo.const // d.const) if lo.const // d.const == hi.const // d.const else None
    if nonneg(lo) and nonneg(d - hi - 1):
        return ZERO
    if nonneg(lo + d) and nonneg(-hi - 1):
        return integer(-1)
    return None


def _reduce_coefficients(p: Int, d: Int) -> tuple[Int, Int]:
    """Reduce coefficients modulo a literal: ``(7x - 1) // 4 = x - 1 + (3x + 3) // 4``."""
    k = d.const
    if k is None:
        return p, ZERO
    extra = polynomial({m: c // k for m, c in p.terms})
    return p - mul(d, extra), extra


def _under_digits(p: Int, d: Int) -> Int | None:
    """``(g*big + k*(x % e)) // (g*f) = big // f`` where ``k*(x % e) < g``, before e is reduced."""
    digits = ZERO
    terms = dict(p.terms)
    for mono, coef in p.terms:
        if coef >= 0 or len(mono) != 1 or not is_div(mono[0]):
            continue
        num, den = mono[0].args  # type: ignore[attr-defined]
        factor = 0 if num.atom is None or den.const is None else terms.get((num.atom,), 0)
        if factor > 0 and coef == -factor * den.const:
            digits = digits + (num - as_int(mono[0]) * den.const) * factor
    big = p - digits
    if digits is ZERO or d.const is None or not big.terms:
        return None
    for g in {math.gcd(c, d.const) for m, c in big.terms if m} - {1, d.const}:
        multiple = polynomial({m: c for m, c in big.terms if c % g == 0})
        low, high = bounds(digits + big - multiple)
        if low is not None and low.const is not None and low.const >= 0:
            if high is not None and high.const is not None and high.const < g:
                reduced = polynomial({m: c // g for m, c in multiple.terms})
                return floordiv(reduced, integer(d.const // g))
    return None


def _drop_digits(p: Int, d: Int) -> Int | None:
    """``(g*big + small) // (g*e) = big // e`` where ``0 <= small < g``; also the common factor."""
    for g in _factors(p, d):
        big = polynomial({m: c for m, c in p.terms if divides(g, m, c)})
        small = p - big
        if small is p:
            continue
        lo, hi = bounds(small)
        if lo is None or hi is None:
            continue
        if not (nonneg(lo) and nonneg(g - hi - 1)):
            if lo.const is None or g.const is None or hi.const is None:
                continue
            if lo.const // g.const != hi.const // g.const:
                continue
            big = big + g * (lo.const // g.const)
        return floordiv(divide(big, g)[0], divide(d, g)[0])
    return None


def _whole_digit(p: Int, d: Int) -> Int | None:
    """The ``x // e`` in p that is p // d, as ``p - d * (x // e)`` is a number of smaller digits.

    So ``(y // 4 % 2 + 6 * (y // 8)) // 6 = y // 8``, whose first term is ``y // 4 - 2 * (y // 8)``.
    """
    divisions = [m[0] for m, c in p.terms if len(m) == 1 and is_div(m[0]) and c > 0]
    if d.const is None or len(divisions) < 2:
        return None
    for atom in divisions:
        if _constant_quotient(p - mul(d, as_int(atom)), d) is ZERO:
            return as_int(atom)
    return None


def _factors(p: Int, d: Int) -> list[Int]:
    """Proper divisors of d that divide some term of p, largest first."""
    if len(d.terms) != 1:
        return []
    dm, dc = d.terms[0]
    divisors = {}
    for mono, coef in p.terms:
        if not mono:
            continue
        gc = math.gcd(coef, dc)
        gm = tuple(a for a in dm if a in mono)
        g = polynomial({gm: gc})
        if g is not ONE and g is not d:
            divisors[g] = (len(gm), gc)
    return sorted(divisors, key=lambda poly: divisors[poly], reverse=True)


def _nested(p: Int, d: Int) -> Int | None:
    """``(x // c + k) // d = (x + k*c) // (c*d)``."""
    inner: CallTerm | None = None
    shift = ZERO
    for mono, coef in p.terms:
        if not mono:
            shift = integer(coef)
        elif len(mono) == 1 and coef == 1 and inner is None and is_div(mono[0]):
            inner = mono[0]  # type: ignore[assignment]
        else:
            return None
    if inner is None:
        return None
    num, den = inner.args
    assert isinstance(num, Int) and isinstance(den, Int)
    return floordiv(num + mul(shift, den), mul(den, d))


def _div_bounds(atom: CallTerm) -> Bounds:
    num, den = atom.args
    assert isinstance(num, Int) and isinstance(den, Int)
    lo, hi = bounds(num)
    if lo is num and hi is num:
        return _least_quotient(num, den), as_int(atom)
    return (
        None if lo is None else floordiv(lo, den),
        None if hi is None else floordiv(hi, den),
    )


def _least_quotient(num: Int, den: Int) -> Int | None:
    """A lower bound of ``num // den`` over sizes, which are at least 1."""
    k = den.const
    if k is not None and all(c >= 0 for m, c in num.terms if m):
        least = sum(c for _, c in num.terms) // k
        if all(isinstance(a, Var) and a.kind == "size" for m, _ in num.terms for a in m):
            return integer(least)
    return ZERO if nonneg(num) else None


CALL_BOUNDS["floordiv"] = _div_bounds
Later.floordiv = floordiv
Later.floormod = floormod
