"""Winograd's minimal filtering of windows of three taps: F(m, 3) along one axis.

    y[i] = sum over k of d[i + k] g[k]        is        y = A ((G g) * (B d))

m results take m + 2 products instead of 3 m. The rows of ``B`` and ``G`` belong to points: the
window and the data are polynomials, multiplied where they take these values (Toom and Cook). The
points of F(4, 3) were chosen for small rounding errors; data and results meet exact factors only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any

from tvm import tirx

Matrix = tuple[tuple[Fraction, ...], ...]
#: Names an expression, and returns its variable.
Bind = Callable[[Any], Any]
TAPS = 3


@dataclass(frozen=True)
class Filtering:
    """F(m, 3) with its finite points; the last point is infinity."""

    outputs: int
    finite: tuple[Fraction, ...]

    @property
    def points(self) -> int:
        return len(self.finite) + 1

    @cached_property
    def data(self) -> Matrix:
        """The matrix B: a row of coefficients for each point."""
        rows = [_polynomial([q for q in self.finite if q != p]) for p in self.finite]
        return tuple(_padded(r, self.points) for r in (*rows, _polynomial(self.finite)))

    @cached_property
    def weights(self) -> Matrix:
        """The matrix G."""
        scales = [prod((p - q for q in self.finite if q != p), start=Fraction(1))
                  for p in self.finite]  # fmt: skip
        rows = (tuple(p**k / s for k in range(TAPS))
                for p, s in zip(self.finite, scales, strict=True))  # fmt: skip
        return (*rows, _last(TAPS))

    @cached_property
    def results(self) -> Matrix:
        """The matrix A."""
        last = _last(self.outputs)
        return tuple((*(p**i for p in self.finite), last[i]) for i in range(self.outputs))


FILTERINGS = (
    Filtering(4, (Fraction(0), *(s * Fraction(p, 4) for p in (3, 6) for s in (1, -1)))),
    Filtering(2, (Fraction(0), Fraction(1), Fraction(-1))),
)


def _polynomial(roots: Sequence[Fraction]) -> list[Fraction]:
    """Return the coefficients of the monic polynomial with these roots, lowest first."""
    out = [Fraction(1)]
    for root in roots:
        out = [a - root * b for a, b in zip([Fraction(0), *out], [*out, Fraction(0)], strict=True)]
    return out


def _padded(row: Sequence[Fraction], length: int) -> tuple[Fraction, ...]:
    return (*row, *[Fraction(0)] * (length - len(row)))


def _last(length: int) -> tuple[Fraction, ...]:
    return (*[Fraction(0)] * (length - 1), Fraction(1))


def product(matrix: Matrix, values: Sequence[Any], bind: Bind) -> list[Any]:
    """Return a matrix times a vector of expressions.

    Rows that differ in the signs of some columns only, as those of points p and -p, share the sums
    of the other columns.
    """
    out: list[Any] = [None] * len(matrix)
    for k, row in enumerate(matrix):
        if out[k] is not None:
            continue
        twin = next((j for j in range(k + 1, len(matrix)) if _twins(row, matrix[j])), None)
        if twin is None:
            out[k] = bind(_sum(row, values))
            continue
        same = [a == b for a, b in zip(row, matrix[twin], strict=True)]
        part = bind(_sum([a if s else Fraction(0) for a, s in zip(row, same, strict=True)], values))
        turned = bind(
            _sum([Fraction(0) if s else a for a, s in zip(row, same, strict=True)], values)
        )
        out[k], out[twin] = bind(part + turned), bind(part - turned)
    return out


def paired(matrix: Matrix, values: Sequence[Any], bind: Bind) -> list[Any]:
    """Return a matrix times a vector whose columns for p and -p share sums and differences."""
    columns = list(zip(*matrix, strict=True))
    terms: list[tuple[tuple[Fraction, ...], Any]] = []
    used: set[int] = set()
    for k, column in enumerate(columns):
        if k in used:
            continue
        twin = next((j for j in range(k + 1, len(columns)) if _twins(column, columns[j])), None)
        if twin is None:
            terms.append((column, values[k]))
            continue
        used.add(twin)
        same = [a == b for a, b in zip(column, columns[twin], strict=True)]
        even = tuple(a if s else Fraction(0) for a, s in zip(column, same, strict=True))
        odd = tuple(Fraction(0) if s else a for a, s in zip(column, same, strict=True))
        terms.append((even, bind(values[k] + values[twin])))
        terms.append((odd, bind(values[k] - values[twin])))
    rows = zip(*(column for column, _ in terms), strict=True)
    return [bind(_sum(row, [value for _, value in terms])) for row in rows]


def _twins(a: Sequence[Fraction], b: Sequence[Fraction]) -> bool:
    """Return whether two vectors differ in signs only, with at least one entry of each kind."""
    signs = {x == y for x, y in zip(a, b, strict=True) if x or y}
    return signs == {True, False} and all(abs(x) == abs(y) for x, y in zip(a, b, strict=True))


def _sum(factors: Sequence[Fraction], values: Sequence[Any]) -> Any:
    """Return the sum of products, without factors of 0 and 1."""
    out: Any = None
    for factor, value in sorted(
        ((f, v) for f, v in zip(factors, values, strict=True) if f), key=lambda t: t[0] < 0
    ):
        size = abs(factor)
        term = value if size == 1 else value * tirx.FloatImm("float32", float(size))
        if out is None:
            out = term if factor > 0 else tirx.FloatImm("float32", 0.0) - term
        else:
            out = out + term if factor > 0 else out - term
    return tirx.FloatImm("float32", 0.0) if out is None else out
