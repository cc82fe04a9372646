"""Which scalars are at least 1 because an extent is."""

from __future__ import annotations

from typing import Any

from .linear_extents import linear_form


def positive_with(expr: Any, var: Any) -> bool:
    """Return whether ``expr`` >= 1 implies ``var`` >= 1: ``var``, ``var * k``, ``var // k``.

    In ``var * other``, both may be negative; the certificate says that they are not.
    """
    kind = type(expr).__name__
    if kind == "Var":
        return bool(expr.same_as(var))
    if kind == "Mul":
        sides = ((expr.a, expr.b), (expr.b, expr.a))
        return any(positive_with(a, var) and not _is_negative(b) for a, b in sides)
    if kind == "FloorDiv":
        return positive_with(_not_rounded_up(expr), var) and not _is_negative(expr.b)
    return kind == "Cast" and positive_with(expr.value, var)


def _not_rounded_up(quotient: Any) -> Any:
    """Return ``x`` of ``x // d``, and of ``(x + c) // d`` for ``c < d``: if it is 1, ``x`` is."""
    total, divisor = quotient.a, quotient.b
    if type(total).__name__ != "Add" or type(divisor).__name__ != "IntImm":
        return total
    rest = total.b
    return total.a if type(rest).__name__ == "IntImm" and int(rest) < int(divisor) else total


def _is_negative(expr: Any) -> bool:
    form = linear_form(expr)
    return form is not None and not form.coefficients.values() and form.literal < 0
