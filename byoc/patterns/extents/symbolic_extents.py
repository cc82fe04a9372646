"""Extents and steps that are known at run time: polynomials over symbolic sizes.

A polynomial without symbols is an ``int``. Sizes are positive and quotients exact, so equations
between polynomials hold for all sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Any, TypeAlias

import tvm_ffi
from tvm import tirx

from ....analysis.terms.quotient import remove


@dataclass(frozen=True, eq=False)
class ExtentSymbol:
    """A variable, or an expression that is not a polynomial; equal ones are one symbol."""

    expr: Any
    key: tuple[int, str]

    @staticmethod
    def of(expr: Any) -> ExtentSymbol:
        return ExtentSymbol(expr, (int(tvm_ffi.structural_hash(expr)), str(expr)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExtentSymbol) and bool(
            self.expr.same_as(other.expr) or tvm_ffi.structural_equal(self.expr, other.expr)
        )

    def __hash__(self) -> int:
        return hash(self.key)


Monomial: TypeAlias = tuple[ExtentSymbol, ...]


@dataclass(frozen=True)
class SymbolicExtent:
    """A polynomial with at least one symbol: the coefficient of each monomial, in their order."""

    terms: tuple[tuple[Monomial, int], ...]

    @property
    def is_variable(self) -> bool:
        """Whether it is one variable of TVM's."""
        ((symbols, factor), *more) = self.terms
        return not more and factor == 1 and len(symbols) == 1 and isinstance(
            symbols[0].expr, tirx.Var)  # fmt: skip

    def __mul__(self, other: Extent) -> Extent:
        out: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in _terms(other):
                both = tuple(sorted((*left, *right), key=lambda s: s.key))
                out[both] = out.get(both, 0) + a * b
        return _polynomial(out)

    __rmul__ = __mul__

    def __add__(self, other: Extent) -> Extent:
        out = dict(self.terms)
        for monomial, a in _terms(other):
            out[monomial] = out.get(monomial, 0) + a
        return _polynomial(out)

    __radd__ = __add__


Extent: TypeAlias = int | SymbolicExtent


def extent_of(expr: Any) -> Extent:
    """The extent of an expression of TVM's, or a number itself."""
    if isinstance(expr, (int, SymbolicExtent)):
        return expr
    if isinstance(expr, tirx.IntImm):
        return int(expr.value)
    if isinstance(expr, tirx.Mul):
        return extent_of(expr.a) * extent_of(expr.b)
    if isinstance(expr, tirx.Add):
        return extent_of(expr.a) + extent_of(expr.b)
    if isinstance(expr, tirx.Sub):
        return extent_of(expr.a) + -1 * extent_of(expr.b)
    if isinstance(expr, tirx.Cast):
        return extent_of(expr.value)
    return SymbolicExtent((((ExtentSymbol.of(expr),), 1),))


def expression(extent: SymbolicExtent) -> Any:
    """An extent as an expression of TVM's."""
    total: Any = None
    for symbols, coefficient in extent.terms:
        term: Any = tirx.IntImm("int64", coefficient)
        for symbol in symbols:
            term = term * symbol.expr
        total = term if total is None else total + term
    return total


def quotient(extent: Extent, divisor: Extent) -> Extent | None:
    """The exact quotient; None if there is none."""
    if isinstance(extent, int) and isinstance(divisor, int):
        return None if divisor == 0 or extent % divisor else extent // divisor
    out: Extent = 0
    lead, factor = _leading(divisor)
    while extent != 0:
        monomial, coefficient = _leading(extent)
        rest = remove(monomial, lead)
        if rest is None or coefficient % factor:
            return None
        part = _polynomial({rest: coefficient // factor})
        out, extent = part + out, extent + -1 * (part * divisor)
    return out


def divisible(extent: Extent, number: int) -> bool:
    """Whether a number divides an extent, whatever the sizes."""
    return all(coefficient % number == 0 for _, coefficient in _terms(extent))


def product(extents: Sequence[Extent]) -> Extent:
    return prod(extents, start=1)


def factors(extent: Extent, known: Sequence[tuple[SymbolicExtent, str]]) -> str | None:
    """C++ of an extent as a product of known ones with their C++; None if it is not one."""
    if isinstance(extent, int):
        return str(extent)
    for other, text in known:
        rest = quotient(extent, other)
        more = None if rest is None else factors(rest, known)
        if more is not None:
            return text if more == "1" else f"{text} * {more}"
    return None


def with_quotients(named: Sequence[tuple[Extent, str]]) -> list[tuple[SymbolicExtent, str]]:
    """Extents with their C++, without numbers; then quotients of two, or by a common factor."""
    known = {e: text for e, text in reversed(named) if isinstance(e, SymbolicExtent)}
    out = dict(reversed(known.items()))
    for extent, text in known.items():
        factor = gcd(*(coefficient for _, coefficient in extent.terms))
        others = [(other, name) for other, name in known.items() if other != extent]
        divisors: list[tuple[Extent, str]] = [(factor, str(factor)), *others]
        for other, name in divisors:
            rest = quotient(extent, other)
            if isinstance(rest, SymbolicExtent):
                out.setdefault(rest, f"({text} / {name})")
    return list(out.items())


def _terms(extent: Extent) -> tuple[tuple[Monomial, int], ...]:
    return (((), extent),) if isinstance(extent, int) else extent.terms


def _order(item: tuple[Monomial, int]) -> tuple[Any, ...]:
    return len(item[0]), [s.key for s in item[0]]


def _polynomial(terms: dict[Monomial, int]) -> Extent:
    kept = tuple(sorted(((m, c) for m, c in terms.items() if c), key=_order))
    if not kept or kept[-1][0] == ():
        return kept[0][1] if kept else 0
    return SymbolicExtent(kept)


def _leading(extent: Extent) -> tuple[Monomial, int]:
    return _terms(extent)[-1]
