"""A term without free coordinates as a polynomial, or an extreme, of elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from ...terms.evaluate import numpy_dtype
from ...terms.term import (
    FALSE,
    TRUE,
    CallTerm,
    Const,
    Int,
    Load,
    Reduce,
    Term,
    integer,
)
from ...terms.term.work_budget import spend
from ...terms.traversal import substitute
from ..sums.polynomial import REAL

#: The coefficient of each product of elements.
Table = dict[tuple[Load, ...], Fraction]
Elements = Callable[[Term], Table]

#: Types whose largest number numpy knows.
_IEEE = frozenset({"float16", "float32", "float64"})
#: Types whose sums may wrap; of wider ones it is assumed that they do not.
_WRAPPING = frozenset({"int8", "uint8", "int16", "uint16"})
#: Products of elements in one polynomial, elements in one product, and bits of a coefficient: the
#: square of a square of … has as many as memory.
_MOST, _LONGEST, _BITS = 2000, 16, 2048


class NotWritten(Exception):
    """A term is neither a polynomial nor an extreme of elements."""


def polynomial_at(term: Term) -> Table:
    """Return a term as a polynomial over elements, with exact coefficients.

    Raises:
        NotWritten: It has another operation, or a condition on elements.
    """
    return _Polynomials(term.dtype)(term)


class _Polynomials:
    """Reads terms as polynomials, in the ring of the output's type if that is narrow."""

    def __init__(self, dtype: str) -> None:
        self.memo: dict[Term, Table] = {}
        self.dtype = dtype

    def __call__(self, term: Term) -> Table:
        result = self.memo.get(term)
        if result is None:
            result = self.memo[term] = self.of(term)
            if len(result) > _MOST:
                raise NotWritten
        return result

    def of(self, term: Term) -> Table:
        if isinstance(term, Load):
            return {(term,): Fraction(1)}
        if not self.fits(term):
            raise NotWritten
        if isinstance(term, Const):
            return _constant(term.value)
        if isinstance(term, Int):
            return self.integer(term)
        if isinstance(term, Reduce) and term.op == "add":
            out = dict(self(term.init))
            for body in iterations(term):
                _add(out, self(body))
            return out
        if not isinstance(term, CallTerm):
            raise NotWritten
        return self.sum(term) if term.op in ("add", "sub") else self.call(term)

    def sum(self, call: CallTerm) -> Table:
        """A sum of sums; the first operands are followed in a loop, as there may be many."""
        addends: list[tuple[Term, int]] = []
        first: Term = call
        while isinstance(first, CallTerm) and first.op in ("add", "sub") and self.fits(first):
            if first in self.memo:
                break
            addends.append((first.args[1], 1 if first.op == "add" else -1))
            first = first.args[0]
        out = dict(self(first))
        for term, sign in reversed(addends):
            _add(out, _scaled(self(term), Fraction(sign)))
        return out

    def fits(self, term: Term) -> bool:
        """Whether a result wraps in no type but that of the output."""
        return term.dtype == self.dtype or term.dtype not in _WRAPPING

    def integer(self, poly: Int) -> Table:
        out: Table = {}
        for mono, coef in poly.terms:
            part: Table = {(): Fraction(coef)}
            for atom in mono:
                part = _times(part, self(atom))
            _add(out, part)
        return out

    def call(self, call: CallTerm) -> Table:
        if call.op == "ite":
            return self(chosen(call))
        if call.op == "cast" and isinstance(call.args[0], Int) and call.dtype in REAL:
            return _number(call.args[0])
        if call.op == "neg":
            return _scaled(self(call.args[0]), Fraction(-1))
        if call.op not in ("mul", "div"):
            raise NotWritten
        a, b = (self(x) for x in call.args)
        if call.op == "mul":
            return _times(a, b)
        if b.keys() != {()}:
            raise NotWritten
        return _scaled(a, 1 / b[()])


def extreme_at(op: str) -> Elements:
    """Return what reads a term as a maximum or minimum of elements."""

    def read(term: Term) -> Table:
        elements: Table = {(x,): Fraction(1) for x in _extreme(op, term)}
        if not elements:
            raise NotWritten
        return elements

    return read


def _extreme(op: str, term: Term) -> Iterator[Load]:
    if isinstance(term, Load):
        yield term
    elif isinstance(term, Const) and _is_end(op, term):
        return
    elif isinstance(term, Reduce) and term.op == op:
        yield from _extreme(op, term.init)
        for body in iterations(term):
            yield from _extreme(op, body)
    elif isinstance(term, CallTerm) and term.op == op:
        for arg in term.args:
            yield from _extreme(op, arg)
    elif isinstance(term, CallTerm) and term.op == "ite":
        yield from _extreme(op, chosen(term))
    else:
        raise NotWritten


def _is_end(op: str, term: Const) -> bool:
    """Whether a literal is at the end of the numbers: every finite element counts before it."""
    if term.dtype not in REAL:
        return False
    largest = float(np.finfo(numpy_dtype(term.dtype)).max) if term.dtype in _IEEE else math.inf
    return bool(term.value <= -largest if op == "max" else term.value >= largest)


def chosen(call: CallTerm) -> Term:
    """Return the branch of a selection whose condition is decided."""
    condition, first, second = call.args
    if condition is TRUE:
        return first
    if condition is FALSE:
        return second
    raise NotWritten


def iterations(reduction: Reduce) -> Iterator[Term]:
    """Yield the body of a reduction at each iteration."""
    extents = [a.extent.const if a.extent is not None else None for a in reduction.axes]
    if None in extents:
        raise NotWritten
    for place in product(*(range(n or 0) for n in extents)):
        yield substitute(
            reduction.body, dict(zip(reduction.axes, map(integer, place), strict=True))
        )


def _constant(value: Any) -> Table:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise NotWritten
    return {(): Fraction(value)} if value else {}


def _number(poly: Int) -> Table:
    """A literal integer in a floating-point type; a large one would be rounded."""
    if poly.const is None or abs(poly.const) > 2048:
        raise NotWritten
    return _constant(poly.const)


def _add(out: Table, other: Table) -> None:
    spend(len(other) // 4)
    for mono, coef in other.items():
        total = out.get(mono, 0) + coef
        if total:
            out[mono] = Fraction(total)
        else:
            del out[mono]


def _scaled(poly: Table, factor: Fraction) -> Table:
    return {m: _bounded(c * factor) for m, c in poly.items()}


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _BITS:
        raise NotWritten
    return value


def _times(a: Table, b: Table) -> Table:
    if len(a) * len(b) > _MOST:
        raise NotWritten
    spend(1 + len(a) * len(b) // 2)
    out: Table = {}
    for m, c in a.items():
        for n, d in b.items():
            if len(m) + len(n) > _LONGEST:
                raise NotWritten
            mono = tuple(sorted((*m, *n), key=lambda x: (x.tensor.position, x.uid)))
            _add(out, {mono: _bounded(c * d)})
    return out
