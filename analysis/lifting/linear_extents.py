"""Extents of buffers that are sums over variables, such as ``past + 1``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .tir.node import NodeDict


@dataclass(frozen=True)
class LinearForm:
    """``sum(coefficient * variable) + literal``, with the variables in order of occurrence."""

    coefficients: NodeDict[int]
    literal: int

    def scaled(self, factor: int) -> LinearForm:
        coefficients = NodeDict[int]()
        for var, coefficient in self.coefficients.items():
            coefficients[var] = coefficient * factor
        return LinearForm(coefficients, self.literal * factor)

    def plus(self, other: LinearForm) -> LinearForm:
        coefficients = NodeDict[int]()
        for var, coefficient in (*self.coefficients.items(), *other.coefficients.items()):
            coefficients[var] = coefficient + (coefficients.get(var) or 0)
        return LinearForm(coefficients, self.literal + other.literal)


def linear_form(expr: Any) -> LinearForm | None:
    """Return an integer expression as a linear form; None if it is none."""
    kind = type(expr).__name__
    if kind == "IntImm":
        return LinearForm(NodeDict[int](), int(expr))
    if kind == "Var":
        coefficients = NodeDict[int]()
        coefficients[expr] = 1
        return LinearForm(coefficients, 0)
    if kind == "Cast":
        return linear_form(expr.value)
    if kind not in ("Add", "Sub", "Mul"):
        return None
    a, b = linear_form(expr.a), linear_form(expr.b)
    if a is None or b is None:
        return None
    if kind == "Mul":
        factor, form = (a, b) if not a.coefficients.values() else (b, a)
        return None if factor.coefficients.values() else form.scaled(factor.literal)
    return a.plus(b if kind == "Add" else b.scaled(-1))
