"""Sizes: numbers, expressions over symbolic dimensions, and their fractions.

Exporters compute sizes in floating point, for example ``floor(float(n) * 0.5)``. A `Rational` keeps
such a value exact. Floor and ceiling of it agree with float32 for sizes below 2**24.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

#: Largest denominator; a factor such as 0.1 has none that is small and is not exact.
DENOMINATOR = 1 << 10


class Unknown(Exception):
    """An element that cannot be expressed over symbolic dimensions."""


@dataclass(frozen=True)
class Rational:
    """The real number ``top / bottom`` with an integer `top`, a number or an expression."""

    top: Any
    bottom: int = 1

    def __float__(self) -> float:
        return float(self.top / self.bottom)


def is_expr(x: Any) -> bool:
    """Return whether an element is an expression over symbolic dimensions."""
    return isinstance(x, tvm.ir.Expr)


def is_var(x: Any) -> bool:
    """Return whether an element is a symbolic dimension itself."""
    return isinstance(x, tvm.ir.Var)


def size(dim: Any) -> Any:
    """Return a size as an `int` if it is one, else as an expression."""
    return int(dim.value) if isinstance(dim, tirx.IntImm) else dim


def as_expr(x: Any) -> Any:
    """Return an element as an expression; a number becomes a literal of int64."""
    return x if is_expr(x) else tirx.IntImm("int64", int(x))


def same(a: Any, b: Any) -> bool:
    """Return whether two sizes are the same expression."""
    if not is_expr(a) or not is_expr(b):
        return not is_expr(a) and not is_expr(b) and bool(a == b)
    return bool(tvm_ffi.structural_equal(a, b))


def substituted(expr: Any, values: Mapping[Any, Any]) -> Any:
    """Return an expression with other expressions for some of its variables."""
    return tvm_ffi.structural_mutate(
        expr, [(tvm.ir.Var, lambda var, mutator: values.get(var, var))]
    )


def variables(expr: Any) -> list[Any]:
    """Return the variables of an element in the order of their uses, repeated ones too."""
    seen: list[Any] = []
    if is_expr(expr):
        tvm_ffi.structural_walk(expr, (tvm.ir.Var, seen.append))
    return seen


def mentions(expr: Any, var: Any) -> bool:
    """Return whether a variable occurs in an expression."""
    return any(v.same_as(var) for v in variables(expr))


def rational(x: Any) -> Rational:
    """Return an element as a rational; raises `Unknown` if it is not exactly one."""
    if isinstance(x, Rational):
        return x
    if is_expr(x):
        return Rational(x)
    if not math.isfinite(x):
        raise Unknown
    top, bottom = float(x).as_integer_ratio()
    if bottom > DENOMINATOR:
        raise Unknown
    return Rational(top, bottom)
