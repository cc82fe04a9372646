"""The function of one tensor that several elementwise operators compute together.

Values are polynomials over x and over functions of polynomials, so the order and grouping of terms
does not matter:

    x · (1 + erf(x / 1.4142135)) · 0.5   =   0.5 x + 0.5 x erf(0.70710678 x)   =   gelu(x)

Two functions are equal if they are in real arithmetic, with factors compared in float32 precision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isclose, isfinite, nan, pi, sqrt
from typing import Any

#: An operator of regions that Relax lacks: x · clip(alpha x + beta, 0, 1).
HARD_SWISH = "hard_swish"
#: Relative difference of float32 literals of one number that were rounded differently.
NEAR = 1e-6
#: If terms cancel to less than this fraction, the remainder is rounding error.
CANCELS = 1 / 64
#: No known function has more terms.
TERMS = 8

Atom = tuple[Any, ...]
Monomial = tuple[Atom, ...]


@dataclass(frozen=True)
class FloatPolynomial:
    """Σ coefficient · Π atoms; ``terms`` is sorted by monomial."""

    terms: tuple[tuple[Monomial, float], ...]

    def __add__(self, other: FloatPolynomial) -> FloatPolynomial:
        return _sum([*self.terms, *other.terms])

    def __mul__(self, other: FloatPolynomial) -> FloatPolynomial:
        return _sum([(tuple(sorted((*m, *n), key=repr)), a * b)
                     for m, a in self.terms for n, b in other.terms])  # fmt: skip

    @property
    def number(self) -> float | None:
        """Its value, if it is a constant."""
        if not self.terms:
            return 0.0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    def at(self, *atoms: Atom) -> float:
        """The coefficient of a monomial."""
        return dict(self.terms).get(tuple(sorted(atoms, key=repr)), 0.0)


def is_softplus(attrs: Mapping[str, Any]) -> bool:
    """Whether relax.nn.softplus is log(1 + exp(x)).

    Above its threshold it returns x; from 17 on, that is the same in float32.
    """
    return float(attrs.get("beta", 1.0)) == 1.0 and float(attrs.get("threshold", 20.0)) >= 17.0


def number(value: float) -> FloatPolynomial:
    return FloatPolynomial((((), float(value)),)) if value else FloatPolynomial(())


def _sum(terms: list[tuple[Monomial, float]]) -> FloatPolynomial:
    total: dict[Monomial, float] = {}
    size: dict[Monomial, float] = {}
    for monomial, coef in terms:
        total[monomial] = total.get(monomial, 0.0) + coef
        size[monomial] = size.get(monomial, 0.0) + abs(coef)
    total |= {m: nan for m, c in total.items() if abs(c) < CANCELS * size[m]}
    return FloatPolynomial(tuple(sorted(((m, c) for m, c in total.items() if c), key=repr)))


X: Atom = ("x",)
ARGUMENT = FloatPolynomial((((X,), 1.0),))
_FUNCTIONS = {"relax.erf": "erf", "relax.tanh": "tanh", "relax.sigmoid": "sigmoid",
              "relax.exp": "exp"}  # fmt: skip


def applied(
    name: str, attrs: Mapping[str, Any], operands: list[FloatPolynomial]
) -> FloatPolynomial | None:
    """The result of an operator; None if the operator or the result is not supported."""
    result = _applied(name, attrs, operands)
    if result is None or len(result.terms) > TERMS:
        return None
    return result if all(isfinite(c) for _, c in result.terms) else None


def _applied(
    name: str, attrs: Mapping[str, Any], operands: list[FloatPolynomial]
) -> FloatPolynomial | None:
    match name, operands:
        case "relax.add", [a, b]:
            return a + b
        case "relax.subtract", [a, b]:
            return a + number(-1) * b
        case "relax.multiply", [a, b]:
            return a * b
        case "relax.divide", [a, b]:
            return _divided(a, b)
        case "relax.negative", [a]:
            return number(-1) * a
        case "relax.square", [a]:
            return a * a
        case "relax.power", [a, b] if b.number in (2.0, 3.0):
            return a * a if b.number == 2.0 else a * a * a
        case "relax.clip", [a] if attrs["min"] < attrs["max"]:
            return _clipped(a, float(attrs["min"]), float(attrs["max"]))
        case "relax.nn.relu6", [a]:
            return _clipped(a, 0.0, 6.0)
        case "relax.nn.relu", [a]:
            return _clipped(a, 0.0, inf)
        case "relax.maximum", [a, b] if a.number is None and b.number is not None:
            return _clipped(a, b.number, inf)
        case "relax.maximum", [a, b] if b.number is None and a.number is not None:
            return _clipped(b, a.number, inf)
        case "relax.minimum", [a, b] if a.number is None and b.number is not None:
            return _clipped(a, -inf, b.number)
        case "relax.minimum", [a, b] if b.number is None and a.number is not None:
            return _clipped(b, -inf, a.number)
        case _, [a] if name in _FUNCTIONS:
            return _atom(_FUNCTIONS[name], a)
    return None


def _clipped(value: FloatPolynomial, low: float, high: float) -> FloatPolynomial | None:
    """A value between bounds; a value that has bounds gets the closer ones."""
    if len(value.terms) == 1 and value.terms[0][1] == 1.0 and len(value.terms[0][0]) == 1:
        ((name, *inside),) = value.terms[0][0]
        if name == "clip":
            value, low, high = inside[0], max(low, inside[1]), min(high, inside[2])
    return _atom("clip", value, low, high) if low < high else None


def _atom(name: str, *operands: Any) -> FloatPolynomial:
    return FloatPolynomial(((((name, *operands),), 1.0),))


def _divided(a: FloatPolynomial, b: FloatPolynomial) -> FloatPolynomial | None:
    """A quotient by a number, or by 1 + exp(p): a · sigmoid(-p)."""
    if b.number is not None:
        return a * number(1 / b.number) if b.number else None
    others = [(m, c) for m, c in b.terms if m]
    if b.at() != 1.0 or len(others) != 1 or others[0][1] != 1.0:
        return None
    (inside,) = others[0][0] if len(others[0][0]) == 1 else (("",),)
    return a * _atom("sigmoid", number(-1) * inside[1]) if inside[0] == "exp" else None


def named(poly: FloatPolynomial) -> tuple[str, dict[str, float]] | None:
    """The operator that a polynomial is equal to, with its attributes; None if unknown."""
    functions = {a for m, _ in poly.terms for a in m if a != X}
    if len(functions) != 1:
        return None
    (f,) = functions
    inside: FloatPolynomial = f[1]
    factor, linear = poly.at(X, f), inside.at(X)
    match f[0]:
        case "erf" if _is(poly, {(X,): 0.5, (X, f): 0.5}) and _is(inside, {(X,): sqrt(0.5)}):
            return "relax.nn.gelu", {}
        case "tanh" if _is(poly, {(X,): 0.5, (X, f): 0.5}) and _is(
            inside, {(X,): sqrt(2 / pi), (X, X, X): 0.044715 * sqrt(2 / pi)}
        ):
            return "relax.nn.gelu_tanh", {}
        case "sigmoid" if _is(poly, {(X, f): 1.0}) and _is(inside, {(X,): 1.0}):
            return "relax.nn.silu", {}
        case "clip" if _is(poly, {(X, f): factor}) and _is(inside, {(X,): linear, (): inside.at()}):
            if f[2] == 0.0 and isclose(f[3] * factor, 1.0, rel_tol=NEAR):
                return HARD_SWISH, {"alpha": linear * factor, "beta": inside.at() * factor}
    return None


def _is(poly: FloatPolynomial, coefs: Mapping[Monomial, float]) -> bool:
    expected = {tuple(sorted(m, key=repr)): c for m, c in coefs.items() if c}
    terms = dict(poly.terms)
    return terms.keys() == expected.keys() and all(
        isclose(terms[m], c, rel_tol=NEAR) for m, c in expected.items()
    )
