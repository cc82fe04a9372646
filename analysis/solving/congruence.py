"""Consequences of linear equations: elimination over the rationals, and modulo coefficients.

An equation ``5*a + 3*b = y`` implies ``2*a = y`` modulo 3. Congruences are eliminated modulo one
number, then joined over several (Chinese remainder theorem), coefficient by coefficient. A
congruence whose left side spans less than the modulus is an equation again:
``a = y0 (mod 3)``, ``a = y1 (mod 5)``, ``0 <= a < 15`` gives ``a = (10*y0 + 6*y1) % 15``.

Unknowns are monomials; every result is a necessary consequence of the equations.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Iterator, Sequence
from typing import NamedTuple

from ..terms.integer import floordiv, floormod
from ..terms.interval import interval
from ..terms.term import Int, Mono, Var, integer, mul, polynomial

IsUnknown = Callable[[Mono], bool]
MAX_ROWS = 12


class Congruence(NamedTuple):
    """``form = value (mod modulus)``; the coefficients of ``form`` are reduced."""

    form: Int
    value: Int
    modulus: int


def eliminate(equations: Sequence[Int], unknown: IsUnknown) -> Iterator[Int]:
    """Yield combinations ``p = 0`` by Gaussian elimination, quotients before variables.

    Coefficients may be sizes, which are positive.
    """
    rows = [(p, _columns(p, unknown)) for p in equations[:MAX_ROWS]]
    finished: list[Row] = []
    for _ in range(len(rows)):
        pivot = _pivot(rows)
        if pivot is None:
            break
        row, column = pivot
        rows.remove(row)
        new = [_cancel(before, row, column, unknown) for before in rows]
        old = [_cancel(before, row, column, unknown) for before in finished]
        yield from (
            poly
            for (poly, _), before in zip(new + old, rows + finished, strict=True)
            if poly is not before[0]
        )
        rows, finished = new, [*old, row]


Row = tuple[Int, dict[Mono, Int]]
"""An equation, and the coefficient (over known terms) of each product of unknowns."""


def _columns(poly: Int, unknown: IsUnknown) -> dict[Mono, Int]:
    columns: dict[Mono, dict[Mono, int]] = {}
    for mono, coef in poly.terms:
        column = tuple(a for a in mono if unknown((a,)))
        if column:
            known_factors = tuple(a for a in mono if not unknown((a,)))
            columns.setdefault(column, {})[known_factors] = coef
    return {column: polynomial(terms) for column, terms in columns.items()}


def _pivot(rows: Sequence[Row]) -> tuple[Row, Mono] | None:
    """The unknown that occurs in most rows, and the row where its coefficient is simplest."""
    count: dict[Mono, int] = {}
    for _, columns in rows:
        for terms in columns:
            count[terms] = count.get(terms, 0) + 1
    if not count:
        return None
    mono = max(count, key=lambda terms: (not all(isinstance(a, Var) for a in terms), count[terms]))
    row = min((r for r in rows if mono in r[1]), key=lambda r: _size(r[1][mono]))
    return row, mono


def _size(coefficient: Int) -> tuple[bool, int]:
    k = coefficient.const
    return (True, len(coefficient.terms)) if k is None else (False, abs(k))


def _cancel(target: Row, row: Row, column: Mono, unknown: IsUnknown) -> Row:
    k, c = target[1].get(column), row[1][column]
    if k is None:
        return target
    if k.const is not None and c.const is not None:
        g = math.gcd(k.const, c.const)
        k, c = integer(k.const // g), integer(c.const // g)
    poly = mul(target[0], c) - mul(row[0], k)
    return poly, _columns(poly, unknown)


def congruences(
    equations: Sequence[Int], unknown: IsUnknown, skip: Container[Int] = ()
) -> list[Int]:
    """Return an equation ``p = 0`` that follows modulo the coefficients and is not in ``skip``."""
    rows = [_split(p, unknown) for p in equations[:MAX_ROWS]]
    moduli = {abs(c) for form, _ in rows for m, c in form.terms if abs(c) > 1}
    by_modulus: dict[int, list[Congruence]] = {}
    for k in sorted(moduli):
        reduced = [
            congruence
            for form, value in rows
            if (congruence := _reduced(form, value, k)).form.terms
        ]
        for k in {c.modulus for c in reduced}:
            rows_k = [c for c in reduced if c.modulus == k]
            earlier = by_modulus.get(k, [])
            by_modulus[k] = _distinct([*earlier, *rows_k, *_eliminated(rows_k)])
    seen: set[tuple[Int, int]] = set()
    for congruence in _joined(by_modulus):
        if (congruence.form, congruence.modulus) not in seen:
            seen.add((congruence.form, congruence.modulus))
            equation = _exact(congruence)
            if equation is not None and equation not in skip:
                return [equation]
    return []


def _distinct(rows: list[Congruence]) -> list[Congruence]:
    return list({c.form: c for c in reversed(rows)}.values())[::-1]


def _split(poly: Int, unknown: IsUnknown) -> tuple[Int, Int]:
    form = polynomial({m: c for m, c in poly.terms if unknown(m)})
    return form, form - poly


def _reduced(form: Int, value: Int, k: int) -> Congruence:
    """The congruence with coefficients modulo k, and factors that k shares divided out."""
    terms = {m: c % k for m, c in form.terms if c % k}
    g = math.gcd(k, *terms.values()) if terms else 1
    if g > 1:
        terms, value, k = {m: c // g for m, c in terms.items()}, floordiv(value, integer(g)), k // g
    return Congruence(polynomial(terms), value, k)


def _eliminated(rows: list[Congruence]) -> list[Congruence]:
    """Gauss-Jordan elimination modulo one number, with invertible pivots."""
    k = rows[0].modulus
    work, finished = list(rows), list[Congruence]()
    while work:
        row = work.pop(0)
        if row.modulus != k:
            continue
        pivot = next(((m, c) for m, c in row.form.terms if math.gcd(c, k) == 1), None)
        if pivot is None:
            continue
        mono, coef = pivot
        inverse = pow(coef, -1, k)
        row = _reduced(row.form * inverse, row.value * inverse, k)
        work = [_subtract(r, row, mono) for r in work]
        finished = [_subtract(r, row, mono) for r in finished] + [row]
    return [r for r in finished if r.form.terms and r.modulus == k]


def _subtract(congruence: Congruence, row: Congruence, mono: Mono) -> Congruence:
    coef = dict(congruence.form.terms).get(mono, 0)
    if not coef or congruence.modulus != row.modulus:
        return congruence
    return _reduced(
        congruence.form - row.form * coef, congruence.value - row.value * coef, congruence.modulus
    )


def _joined(by_modulus: dict[int, list[Congruence]]) -> Iterator[Congruence]:
    """Every congruence, and every join of two moduli (at most 32)."""
    for rows in by_modulus.values():
        yield from rows
    if len(by_modulus) > 1:
        for choice in itertools.islice(itertools.product(*by_modulus.values()), 64):
            joined: Congruence | None = choice[0]
            for congruence in choice[1:]:
                joined = joined and _join(joined, congruence)
            if joined is not None:
                yield joined
    for first, second in itertools.islice(itertools.combinations(by_modulus.values(), 2), 32):
        for a, b in itertools.islice(itertools.product(first, second), 16):
            pair = _join(a, b)
            if pair is not None:
                yield pair


def _join(a: Congruence, b: Congruence) -> Congruence | None:
    """The join modulo the least common multiple; None if coefficients disagree."""
    g = math.gcd(a.modulus, b.modulus)
    k = a.modulus // g * b.modulus
    step = pow(a.modulus // g, -1, b.modulus // g) if b.modulus // g > 1 else 0
    ca, cb = dict(a.form.terms), dict(b.form.terms)
    terms: dict[Mono, int] = {}
    for mono in {**ca, **cb}:
        x, y = ca.get(mono, 0), cb.get(mono, 0)
        if (y - x) % g:
            return None
        terms[mono] = (x + a.modulus * ((y - x) // g * step)) % k
    gap = floordiv(b.value - a.value, integer(g))
    return Congruence(polynomial(terms), a.value + gap * (a.modulus * step), k)


def _exact(congruence: Congruence) -> Int | None:
    """``form - lo = (value - lo) % modulus``, if the form spans less than the modulus."""
    half = congruence.modulus // 2
    signed = polynomial(
        {m: k - congruence.modulus if k > half else k for m, k in congruence.form.terms}
    )
    for form in (congruence.form, signed):
        ends = interval(form)
        if ends is not None and ends[1] - ends[0] < congruence.modulus:
            return (
                form - ends[0] - floormod(congruence.value - ends[0], integer(congruence.modulus))
            )
    return None
