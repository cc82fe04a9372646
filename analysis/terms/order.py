"""Bounds and signs of polynomials over axes and sizes.

Sizes are at least 1, and an axis runs from 0 to its extent less 1. An unknown bound is None, an
unknown sign False, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable

from .quotient import divide, is_div, remove
from .term import (
    ONE,
    SIZES,
    ZERO,
    CallTerm,
    Int,
    Later,
    Mono,
    Term,
    Var,
    as_int,
    integer,
    mul,
    polynomial,
)

Bounds = tuple[Int | None, Int | None]

#: Bounds of a call, by its operation; registered by the files that define the operation.
CALL_BOUNDS: dict[str, Callable[[CallTerm], Bounds]] = {}


def bounds(poly: Int) -> Bounds:
    """Return inclusive bounds as polynomials over sizes; None for an unknown bound."""
    if poly.const is not None or poly.memo.get("closed"):
        return poly, poly
    result: Bounds | None = poly.memo.get("bounds")
    if result is None:
        result = _bounds(poly)
        if result[0] is poly and result[1] is poly:
            poly.memo["closed"] = True  # a reference to itself would keep it alive
        elif poly not in result:
            poly.memo["bounds"] = result
    return result


def ranges_over(poly: Int, extent: Int | None) -> bool:
    """Return whether ``0 <= poly < extent`` trivially: a variable of that extent, or a literal."""
    if poly.const is not None:
        return extent is not None and extent.const is not None and 0 <= poly.const < extent.const
    atom = poly.atom
    return extent is not None and isinstance(atom, Var) and atom.extent is extent


def _bounds(poly: Int) -> Bounds:
    lo: Int | None = ZERO
    hi: Int | None = ZERO
    low = high = 0  # the literal part is summed separately: it is most of the work
    for mono, coef in poly.terms:
        a, b = _mono_bounds(mono) if mono else (ONE, ONE)
        if coef < 0:
            a, b = b, a
        if a is None:
            lo = None
        elif (k := a.const) is not None:
            low += k * coef
        elif lo is not None:
            lo = lo + a * coef
        if b is None:
            hi = None
        elif (k := b.const) is not None:
            high += k * coef
        elif hi is not None:
            hi = hi + b * coef
    plain = (None if lo is None else lo + low, None if hi is None else hi + high)
    return _tighter(plain, _digit_bounds(poly))


def _tighter(first: Bounds, second: Bounds) -> Bounds:
    """The second bounds, unless the first are known to be as good."""
    lo, hi = first
    if second[0] is not None and (lo is None or not nonneg(lo - second[0])):
        lo = second[0]
    if second[1] is not None and (hi is None or not nonneg(second[1] - hi)):
        hi = second[1]
    return lo, hi


def _digit_bounds(poly: Int) -> Bounds:
    """Bounds from a pair ``k*x - k*d*(x // d)``, which is k times a digit in ``[0, d)``.

    Also of ``k*(x // e) - k*d*(x // (d*e))``, as a quotient of a quotient is one quotient.
    """
    for mono, coef in poly.terms:
        for atom in mono:
            if not is_div(atom):
                continue
            num, den = atom.args  # type: ignore[attr-defined]
            others = polynomial({remove(mono, (atom,)) or (): coef})
            if len(den.terms) > 1:
                others = _factor(poly, atom)
            for value, radix in ((num, den), *_finer(poly, num, den, -others)):
                factor, remaining = divide(-others, radix)
                if remaining is not ZERO:
                    continue
                remaining_terms = poly - mul(others, as_int(atom)) - mul(factor, value)
                if len(remaining_terms.terms) >= len(poly.terms) or (
                    factor.const is None and not _signed(factor)
                ):
                    continue
                # the factor itself may vary, and bounds are over sizes only
                least, most = bounds(mul(factor, radix - 1))
                lo, hi = bounds(remaining_terms)
                if nonneg(factor):
                    return lo, None if hi is None or most is None else hi + most
                return None if lo is None or least is None else lo + least, hi
    return None, None


def _factor(poly: Int, atom: Term) -> Int:
    """The factor of an atom, which is a sum."""
    return polynomial({remove(m, (atom,)) or (): c for m, c in poly.terms if atom in m})


def _finer(poly: Int, num: Int, den: Int, factor: Int) -> list[tuple[Int, Int]]:
    """Quotients ``num // e``, with ``den / e``, of which ``num // den`` times a factor is a part.

    They are those in the sum, and that for which ``den / e`` is the factor.
    """
    found = []
    for atom in (m[0] for m, _ in poly.terms if len(m) == 1 and is_div(m[0])):
        value, finer = atom.args  # type: ignore[attr-defined]
        if value is num and finer is not den:
            radix, remaining = divide(den, finer)
            if remaining is ZERO:
                found.append((as_int(atom), radix))
    if factor.const is None and den.const is None:
        finer, remaining = divide(den, factor)
        if remaining is ZERO and finer.const is not None and finer.const > 0:
            found.append((Later.floordiv(num, finer), factor))
    return found


def _signed(poly: Int) -> bool:
    return nonneg(poly) or nonneg(-poly)


def _mono_bounds(mono: Mono) -> Bounds:
    lo: Int | None = ONE
    hi: Int | None = ONE
    for atom in mono:
        if is_closed(atom):
            a = b = as_int(atom)
        else:
            a, b = atom_bounds(atom)  # type: ignore[assignment]
        if len(mono) == 1:
            return a, b
        if a is None or not nonneg(a):
            return None, None
        lo = None if lo is None else mul(lo, a)
        hi = None if hi is None or b is None else mul(hi, b)
    return lo, hi


def is_closed(term: Term) -> bool:
    """Return whether a term is over sizes only, so that it is its own bound."""
    if isinstance(term, Var):
        return term.kind in SIZES
    if not isinstance(term, (Int, CallTerm)):
        return False
    closed: bool | None = term.memo.get("over sizes")
    if closed is None:
        atoms = (a for mono, _ in term.terms for a in mono) if isinstance(term, Int) else term.args
        closed = term.memo["over sizes"] = all(map(is_closed, atoms))
    return closed


def atom_bounds(atom: Term) -> Bounds:
    """Return the least and the greatest value of an atom; None where it is unknown."""
    if isinstance(atom, Var):
        if atom.kind == "size":
            return as_int(atom), as_int(atom)
        return (None, None) if atom.extent is None else (ZERO, atom.extent - 1)
    if isinstance(atom, CallTerm):
        rule = CALL_BOUNDS.get(atom.op)
        if rule is not None:
            return _call_bounds(atom, rule)
    if atom.dtype in ("bool", "uint8"):
        return ZERO, integer(1 if atom.dtype == "bool" else 255)
    return None, None


def _call_bounds(atom: CallTerm, rule: Callable[[CallTerm], Bounds]) -> Bounds:
    """The bounds by a rule; they are kept unless they may refer to the atom."""
    result: Bounds | None = atom.memo.get("bounds")
    if result is None:
        result = rule(atom)
        if not is_closed(atom):
            atom.memo["bounds"] = result
    return result


# ---------------------------------------------------------------------------- order


def nonneg(poly: Int) -> bool:
    """Return whether ``poly >= 0`` is certain; False if unknown."""
    if poly.const is not None:
        return poly.const >= 0
    result = poly.memo.get("nonneg")
    if result is None:
        poly.memo["nonneg"] = False  # a query that leads back to itself is unknown
        result = poly.memo["nonneg"] = _nonneg(poly)
    return result


def positive(poly: Int) -> bool:
    return nonneg(poly - 1)


def _nonneg(poly: Int) -> bool:
    lo, _ = bounds(poly)
    if lo is not None and lo is not poly and nonneg(lo):
        return True
    if lo is not None and lo.const is not None:
        return False
    return _shifted_nonneg(poly) or _digit_nonneg(poly)


def _digit_nonneg(poly: Int) -> bool:
    """Whether a remainder by a symbolic divisor shows it; its plain lower bound is too weak."""
    lo, _ = _digit_bounds(poly)
    return lo is not None and lo is not poly and nonneg(lo)


def _shifted_nonneg(poly: Int) -> bool:
    """Whether all coefficients are >= 0 with each atom as its least value plus a variable >= 0."""
    out: dict[Mono, int] = {}
    for mono, coef in poly.terms:
        parts: dict[Mono, int] = {(): coef}
        for atom in mono:
            least = _least_value(atom)
            if least is None:
                return False
            grown: dict[Mono, int] = {}
            for terms, factor in parts.items():
                grown[terms] = grown.get(terms, 0) + factor * least
                longer = tuple(sorted((*terms, atom), key=lambda term: term.uid))
                grown[longer] = grown.get(longer, 0) + factor
            parts = grown
        for terms, factor in parts.items():
            out[terms] = out.get(terms, 0) + factor
    return all(c >= 0 for c in out.values())


def _least_value(atom: Term) -> int | None:
    if isinstance(atom, Var):
        return 1 if atom.kind == "size" else 0 if atom.extent is not None else None
    lo, _ = atom_bounds(atom)
    if lo is None:
        return None
    return lo.const if lo.const is not None else 0 if nonneg(lo) else None
