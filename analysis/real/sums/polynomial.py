"""Sums of products of atoms with literal coefficients, for floating-point terms."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ...terms.order import positive
from ...terms.term import CallTerm, Const, Int, Term, const, raw_call
from ...terms.traversal import free, subterms
from .budget import TooLarge, spend

Monomial = tuple[Term, ...]
Poly = dict[Monomial, float]

#: Types of real numbers.
REAL = frozenset({"float16", "bfloat16", "float32", "float64"})
LONGEST = 100  # factors of a monomial, summands of a polynomial
MOST = 64  # monomials of a product; with more, the factors are not multiplied out
_INVERSE = {"sqrt": "rsqrt", "rsqrt": "sqrt"}


def ordered(atoms: Iterable[Term]) -> Monomial:
    return tuple(sorted(atoms, key=lambda term: term.uid))


def poly_of(term: Term, dtype: str) -> Poly:
    """Return a term in this form as a polynomial: sums, products and literals are decomposed."""
    spend(1)
    if (
        isinstance(term, Const)
        and isinstance(term.value, (int, float))
        and math.isfinite(term.value)
    ):
        return {(): float(term.value)} if term.value else {}
    if isinstance(term, CallTerm) and term.op == "add":
        out: Poly = {}
        for arg in term.args:
            out = plus(out, poly_of(arg, dtype))
        return out
    if isinstance(term, CallTerm) and term.op == "mul":
        parts = [poly_of(x, dtype) for x in term.args]
        if all(len(p) == 1 for p in parts):
            out = {(): 1.0}
            for part in parts:
                out = times(out, part, dtype)
            return out
    return {(term,): 1.0}


def product_of(poly: Poly) -> Poly:
    """Return a polynomial with atoms that are products or literals themselves decomposed."""
    out: Poly = {}
    for mono, coef in poly.items():
        part: Poly = {(): coef}
        for term in mono:
            part = times(part, poly_of(term, term.dtype), term.dtype)
        out = plus(out, part)
    return out


def plus(a: Poly, b: Poly, scale: float = 1.0) -> Poly:
    """Return ``a + scale * b``; raise `TooLarge` for a long polynomial, or an infinite number."""
    spend(len(a) + sum(map(len, b)) + 1)
    out = dict(a)
    for mono, coef in b.items():
        total = out.get(mono, 0.0) + scale * coef
        if not math.isfinite(total):
            raise TooLarge
        if abs(total) > 1e-13 * abs(scale * coef):  # a smaller one is a rounding error
            out[mono] = total
        elif all(map(finite, mono)):
            out.pop(mono, None)
        else:
            out[mono] = 0.0
    if len(out) > LONGEST:
        raise TooLarge
    return out


def times(a: Poly, b: Poly, dtype: str) -> Poly:
    """Return the product of two polynomials; one of many terms stays a product of two factors."""
    if len(a) * len(b) > MOST:
        return {ordered((to_term(a, dtype), to_term(b, dtype))): 1.0}
    out: Poly = {}
    for mono_a, coef_a in (a or {(): 0.0}).items():
        for mono_b, coef_b in (b or {(): 0.0}).items():
            coef = coef_a * coef_b
            if not coef and coef_a and coef_b:
                raise TooLarge
            out = plus(out, {_cancelled(ordered((*mono_a, *mono_b))): coef})
    return out


def _cancelled(mono: Monomial) -> Monomial:
    """The monomial without ``n * (1 / n)`` for sizes n, which are not zero."""
    spend(len(mono))
    if len(mono) > LONGEST:
        raise TooLarge
    atoms = list(mono)
    for term in mono:
        inverse = raw_call("recip", (term,), term.dtype) if _is_size(term) else None
        if inverse in atoms and term in atoms:
            atoms.remove(term)
            atoms.remove(inverse)
    return tuple(atoms)


#: Functions without a finite value at some finite operands.
_PARTIAL = frozenset({"recip", "rsqrt", "sqrt", "div", "fmod", "truncmod", "floormod", "floordiv",
                      "pow", "log", "log2", "log10", "log1p", "tan", "acos", "asin", "acosh",
                      "atanh"})  # fmt: skip


def finite(term: Term) -> bool:
    """Return whether an atom is finite for finite operands: only then is it 0 times 0."""
    return not any(
        isinstance(subterm, CallTerm) and subterm.op in _PARTIAL and not _is_defined(subterm)
        for subterm in subterms(term)
    )


def _is_defined(call: CallTerm) -> bool:
    """Whether a partial function is defined at all operands that occur here."""
    term = call.args[-1] if call.op == "div" else call.args[0]
    if len(call.args) > 1 and call.op != "div":
        return "float" not in call.dtype
    return _is_size(term) or (
        isinstance(term, Const) and call.op in _ROOTS and float(term.value) > 0
    )


_ROOTS = frozenset({"recip", "rsqrt", "sqrt", "div", "log", "log2", "log10", "log1p"})


def _is_size(term: Term) -> bool:
    if not (isinstance(term, CallTerm) and term.op == "cast" and isinstance(term.args[0], Int)):
        return False
    return positive(term.args[0]) and all(v.kind == "size" for v in free(term))


def inverse(poly: Poly, dtype: str) -> Poly:
    """Return ``1 / poly``: by factor for a product; as one atom for a sum, first coefficient 1."""
    if not poly or not all(poly.values()):
        return {(raw_call("recip", (to_term(poly, dtype),), dtype),): 1.0}
    if len(poly) == 1:
        ((mono, coef),) = poly.items()
        return {ordered(_flipped(x) for x in mono): 1 / coef}
    lead = poly[min(poly, key=key_of)]
    monic = to_term({m: c / lead for m, c in poly.items()}, dtype)
    return {(raw_call("recip", (monic,), dtype),): 1 / lead}


def _flipped(term: Term) -> Term:
    if isinstance(term, CallTerm) and term.op == "recip":
        return term.args[0]
    return raw_call(
        _INVERSE.get(term.op, "recip") if isinstance(term, CallTerm) else "recip",
        term.args if isinstance(term, CallTerm) and term.op in _INVERSE else (term,),
        term.dtype,
    )


def key_of(mono: Monomial) -> tuple[int, ...]:
    return (len(mono), *(x.uid for x in mono))


def to_term(poly: Poly, dtype: str) -> Term:
    """Return the polynomial as a term: sums and products of two, in a fixed order."""
    terms = []
    for mono in sorted(poly, key=key_of):
        coef = poly[mono]
        factors = [*mono] if coef == 1.0 and mono else [const(coef, dtype), *mono]
        terms.append(combine_all("mul", factors, dtype))
    return combine_all("add", terms, dtype)


def combine_all(op: str, terms: Iterable[Term], dtype: str) -> Term:
    """Return ``((t0 ⊕ t1) ⊕ t2) ⊕ …``; 0 or 1 for no terms."""
    out: Term | None = None
    for term in terms:
        out = term if out is None else raw_call(op, (out, term), dtype)
    return const(1.0 if op == "mul" else 0.0, dtype) if out is None else out


def operands(op: str, term: Term) -> Iterable[Term]:
    """Yield the operands of a nest of one associative operation."""
    if isinstance(term, CallTerm) and term.op == op:
        for arg in term.args:
            yield from operands(op, arg)
    else:
        spend(1)
        yield term
