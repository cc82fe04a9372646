"""Exact division of polynomials."""

from __future__ import annotations

from typing import TypeVar

from .term import ZERO, CallTerm, Int, Mono, Term, mul, polynomial

Factor = TypeVar("Factor")


def is_div(atom: Term) -> bool:
    return isinstance(atom, CallTerm) and atom.op == "floordiv"


def divide(p: Int, d: Int) -> tuple[Int, Int]:
    """Return q, r with ``p = d * q + r``; q has what the leading term of d divides."""
    lead_mono, lead_coef = max(d.terms, key=lambda t: (len(t[0]), abs(t[1])))
    quotient = ZERO
    for _ in range(64):  # bounded, as no monomial order picks the leading term
        step: dict[Mono, int] = {}
        for mono, coef in p.terms:
            factors = remove(mono, lead_mono)
            if factors is not None and coef % lead_coef == 0:
                step[factors] = coef // lead_coef
                if len(d.terms) > 1:
                    break
        if not step:
            break
        part = polynomial(step)
        quotient, p = quotient + part, p - mul(d, part)
        if len(d.terms) == 1:
            break
    return quotient, p


def remove(mono: tuple[Factor, ...], factor: tuple[Factor, ...]) -> tuple[Factor, ...] | None:
    """Return a product without the factors of another; None if it does not have all of them."""
    factors = list(mono)
    for atom in factor:
        if atom not in factors:
            return None
        factors.remove(atom)
    return tuple(factors)


def divides(poly: Int, mono: Mono, coef: int) -> bool:
    gm, gc = poly.terms[0]
    return coef % gc == 0 and remove(mono, gm) is not None
