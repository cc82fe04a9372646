"""Arithmetic on sizes: numbers, expressions over symbolic dimensions, and their fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ...analysis.support.tvm_compat import sym
from .scalars import (
    DENOMINATOR,
    Rational,
    Unknown,
    as_expr,
    is_expr,
    mentions,
    rational,
    same,
    size,
    substituted,
    variables,
)

#: A size at which a ratio of sizes is read before it is proved for all of them.
_SAMPLE = 1 << 10


class SizeArithmetic:
    """Operations on elements, which are simplified; symbolic dimensions are at least 0."""

    def __init__(self) -> None:
        self.analyzer = sym.Analyzer()
        #: Symbolic dimensions and what run-time checks have made them equal to.
        self.aliases: dict[Any, Any] = {}
        self._bound: set[Any] = set()

    def learn(self, var: Any, dim: Any) -> None:
        """Take a symbolic dimension for another size from now on: a check at run time says so."""
        value = self._resolved(as_expr(dim))
        if not mentions(value, var):
            self.aliases = self.aliases | {var: value}  # who kept the former facts restores them

    def _resolved(self, expr: Any) -> Any:
        """Return an expression without dimensions that are taken for others.

        What they are taken for may mention dimensions that have become others since.
        """
        for var in variables(expr):
            value = self.aliases.get(var)
            if value is None:
                continue
            while any(v in self.aliases for v in variables(value)):
                value = substituted(value, self.aliases)
            self.aliases[var] = value
        return substituted(expr, self.aliases)

    def simplify(self, x: Any) -> Any:
        """Return the simplest form of an integer element."""
        if not is_expr(x):
            return x
        if self.aliases:
            x = self._resolved(x)
        self._bind(x)
        return size(self.analyzer.simplify(x))

    def proves(self, condition: Any) -> bool:
        """Return whether a condition holds for all symbolic dimensions."""
        if not is_expr(condition):
            return bool(condition)
        self._bind(condition)
        return bool(self.analyzer.can_prove(condition))

    def equal(self, a: Any, b: Any) -> bool:
        """Return whether two integers are equal for all symbolic dimensions."""
        a, b = self.simplify(a), self.simplify(b)
        if not is_expr(a) and not is_expr(b):
            return bool(a == b)
        return same(a, b) or self.proves(tirx.EQ(as_expr(a), as_expr(b)))

    def equation(self, a: Any, b: Any) -> Any:
        """Return the condition that two integers are equal, or whether they are if it is known."""
        return self.simplify(tirx.EQ(as_expr(a), as_expr(b)))

    def _bind(self, expr: Any) -> None:
        def bind(var: Any) -> None:
            if var not in self._bound and str(var.ty) == "int64":
                self._bound.add(var)
                self.analyzer.update(var, sym.ConstIntBound(0, sym.ConstIntBound.POS_INF))

        tvm_ffi.structural_walk(expr, (tvm.ir.Var, bind))

    # integers and rationals

    def add(self, a: Any, b: Any) -> Any:
        """Return a + b."""
        if isinstance(a, Rational) or isinstance(b, Rational):
            x, y = rational(a), rational(b)
            bottom = math.lcm(x.bottom, y.bottom)
            left = self.multiply(x.top, bottom // x.bottom)
            return self._rational(self.add(left, self.multiply(y.top, bottom // y.bottom)), bottom)
        return self.simplify(a + b)

    def negate(self, a: Any) -> Any:
        """Return -a."""
        return self.multiply(a, -1)

    def subtract(self, a: Any, b: Any) -> Any:
        """Return a - b."""
        return self.add(a, self.negate(b))

    def multiply(self, a: Any, b: Any) -> Any:
        """Return a * b."""
        if isinstance(a, Rational) or isinstance(b, Rational):
            x, y = rational(a), rational(b)
            return self._rational(self.multiply(x.top, y.top), x.bottom * y.bottom)
        return self.simplify(a * b)

    def _rational(self, top: Any, bottom: int) -> Rational:
        if isinstance(top, int):
            common = math.gcd(top, bottom)
            top, bottom = top // common, bottom // common
        elif bottom > 1 and self.equal(tirx.floormod(top, bottom), 0):
            top, bottom = self.floor_divide(top, bottom), 1
        if bottom > DENOMINATOR:
            raise Unknown
        return Rational(top, bottom)

    def floor_divide(self, a: Any, b: Any) -> Any:
        """Return floor(a / b) of integers with b > 0."""
        if not is_expr(a) and not is_expr(b):
            return a // b
        return self.simplify(tirx.floordiv(as_expr(a), as_expr(b)))

    def divide(self, a: Any, b: Any) -> Any:
        """Return a / b, truncated towards zero if both are integers."""
        if isinstance(a, Rational) or isinstance(b, Rational):
            x, y = rational(a), rational(b)
            if is_expr(y.top):
                return self._ratio(x, y)
            if y.top == 0:
                raise Unknown
            sign = 1 if y.top > 0 else -1
            top = self.multiply(x.top, sign * y.bottom)
            return self._rational(top, x.bottom * abs(y.top))
        if not is_expr(b) and b == 0:
            raise Unknown
        if self.proves(as_expr(a) >= 0) and self.proves(as_expr(b) > 0 if is_expr(b) else b > 0):
            return self.floor_divide(a, b)
        if self.proves(as_expr(a) >= 0) and self.proves(as_expr(b) >= 0):
            return self.floor_divide(a, b)  # division by zero is an error in both
        return self.simplify(tirx.truncdiv(as_expr(a), as_expr(b)))

    def _ratio(self, a: Rational, b: Rational) -> Rational:
        """Return a / b if it is the same number for all sizes, as of floor(2 * n) / n."""
        top, bottom = self.multiply(a.top, b.bottom), self.multiply(b.top, a.bottom)
        if not self.proves(as_expr(bottom) >= 0):  # division by zero is an error of the model
            raise Unknown
        names: dict[Any, int] = {}
        for expr in (as_expr(top), as_expr(bottom)):
            tvm_ffi.structural_walk(expr, (tvm.ir.Var, lambda v: names.setdefault(v, len(names))))
        numbers = {v: tirx.IntImm(str(v.ty), _SAMPLE + k) for v, k in names.items()}
        sample = [size(self.analyzer.simplify(substituted(as_expr(e), numbers)))
                  for e in (top, bottom)]  # fmt: skip
        if any(is_expr(number) for number in sample) or not sample[1]:
            raise Unknown
        ratio = Fraction(*sample)
        if ratio.denominator & (ratio.denominator - 1):
            raise Unknown  # rounded in floating point
        if not self.equal(self.multiply(top, ratio.denominator),
                          self.multiply(bottom, ratio.numerator)):  # fmt: skip
            raise Unknown
        return self._rational(ratio.numerator, ratio.denominator)

    def modulo(self, a: Any, b: Any) -> Any:
        """Return a - floor(a / b) * b."""
        if isinstance(a, Rational) or isinstance(b, Rational):
            raise Unknown
        return self.simplify(tirx.floormod(as_expr(a), as_expr(b)))

    def floor(self, a: Any) -> Rational:
        """Return the largest integer that is at most `a`, as a rational."""
        x = rational(a)
        return Rational(self.floor_divide(x.top, x.bottom))

    def ceil(self, a: Any) -> Rational:
        """Return the smallest integer that is at least `a`, as a rational."""
        x = rational(a)
        return Rational(self.floor_divide(self.add(x.top, x.bottom - 1), x.bottom))

    def truncate(self, a: Any) -> Any:
        """Return `a` without its fraction, as an integer."""
        x = rational(a)
        if x.bottom > 1 and not self.proves(as_expr(x.top) >= 0):
            raise Unknown
        return self.floor_divide(x.top, x.bottom) if x.bottom > 1 else x.top

    def minimum(self, a: Any, b: Any) -> Any:
        """Return the smaller of two integers."""
        return self._extreme(a, b, tirx.min, -1)

    def maximum(self, a: Any, b: Any) -> Any:
        """Return the larger of two integers."""
        return self._extreme(a, b, tirx.max, 1)

    def _extreme(self, a: Any, b: Any, combine: Any, sign: int) -> Any:
        if isinstance(a, Rational) or isinstance(b, Rational):
            x, y = rational(a), rational(b)
            if x.bottom != y.bottom:
                raise Unknown
            return Rational(self._extreme(x.top, y.top, combine, sign), x.bottom)
        if not is_expr(a) and not is_expr(b):
            return max(a, b) if sign > 0 else min(a, b)
        return self.simplify(combine(as_expr(a), as_expr(b)))

    # conditions

    def compare(self, a: Any, b: Any, holds: Any, negated: Any) -> Any:
        """Return a comparison as a `bool` where it can be decided, else as an expression."""
        if isinstance(a, Rational) or isinstance(b, Rational):
            x, y = rational(a), rational(b)
            bottom = math.lcm(x.bottom, y.bottom)
            a = self.multiply(x.top, bottom // x.bottom)
            b = self.multiply(y.top, bottom // y.bottom)
        if isinstance(a, bool) or isinstance(b, bool):
            a, b = _as_integer(a), _as_integer(b)
        condition = holds(as_expr(a), as_expr(b))
        if self.proves(condition):
            return True
        if self.proves(negated(as_expr(a), as_expr(b))):
            return False
        return condition

    def select(self, condition: Any, a: Any, b: Any) -> Any:
        """Return `a` where the condition holds, else `b`."""
        if not is_expr(condition):
            return a if condition else b
        if isinstance(a, Rational) or isinstance(b, Rational):
            x, y = rational(a), rational(b)
            bottom = math.lcm(x.bottom, y.bottom)
            left = self.multiply(x.top, bottom // x.bottom)
            right = self.multiply(y.top, bottom // y.bottom)
            return Rational(self.select(condition, left, right), bottom)
        if not is_expr(a) and not is_expr(b) and a == b:
            return a
        return self.simplify(tirx.Select(condition, as_expr(a), as_expr(b)))


def _as_integer(x: Any) -> Any:
    if is_expr(x):
        return tirx.Cast("int64", x) if str(x.ty) == "bool" else x
    return int(x)
