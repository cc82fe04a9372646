"""Terms as TVM expressions, with ``x % d`` for ``x - d * (x // d)`` in the polynomial.

Before: ``y0 + 4*y1 - 12*((y0 + 4*y1) // 12)``. After: ``(y0 + y1 * 4) % 12``.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import tvm
from tvm import tirx

from ...solving.remainder import remainder
from ...terms.order import nonneg
from ...terms.term import TRUE, CallTerm, Const, Int, Term, Var, as_int
from ...terms.traversal import free
from .to_terms import Unsupported


def to_tvm(term: Term, leaves: Mapping[Var, Any], dtype: str = "int64") -> Any:
    """Return the expression of a term; ``leaves`` has the expression of each variable.

    Raises:
        Unsupported: A variable or an operation has no expression.
    """
    return Emitter(leaves, dtype)(term)


class Emitter:
    """`to_tvm`, with a cache of sub-terms."""

    def __init__(self, leaves: Mapping[Var, Any], dtype: str) -> None:
        self.leaves, self.dtype = leaves, dtype
        self.rank = {v: k for k, v in enumerate(leaves)}
        self.memo: dict[Term, Any] = {}

    def __call__(self, term: Term) -> Any:
        if term not in self.memo:
            self.memo[term] = self.emit(term)
        return self.memo[term]

    def emit(self, term: Term) -> Any:
        if isinstance(term, Int):
            return self.total(self.pieces(term))
        if isinstance(term, Var):
            if term not in self.leaves:
                raise Unsupported(f"variable {term!r} has no expression")
            return self.leaves[term]
        if isinstance(term, Const) and term.dtype == "bool":
            return tirx.IntImm("bool", int(term is TRUE))
        rule = _CALLS.get(term.op) if isinstance(term, CallTerm) else None
        if rule is None:
            raise Unsupported(f"{term!r} has no index expression")
        return rule(self, *term.args)  # type: ignore[attr-defined]

    def pieces(self, poly: Int) -> list[tuple[int, Any]]:
        """Return signed summands; remainders are recognised first."""
        out: list[tuple[int, Any]] = []
        while (split := remainder(poly)) is not None:
            factor, num, den, poly = split
            digit = tvm.tirx.floormod(self(num), self(den))
            sign = -1 if nonneg(-factor) else 1
            out.append(self.scaled(factor * sign, digit, sign))
        for mono, coef in sorted(poly.terms, key=self.first):
            factors = [self(a) for a in mono]
            part = functools.reduce(lambda a, b: a * b, factors) if factors else None
            out.append((coef, part))
        return out

    def first(self, part: tuple[tuple[Term, ...], int]) -> int:
        """Return the rank of a factor, so that equal factors are in the order of the leaves."""
        ranks = (self.rank.get(v, len(self.rank)) for a in part[0] for v in free(a))
        return min(ranks, default=len(self.rank))

    def scaled(self, poly: Int, expr: Any, sign: int) -> tuple[int, Any]:
        return (poly.const * sign, expr) if poly.const is not None else (sign, expr * self(poly))

    def literal(self, value: int) -> Any:
        return tirx.IntImm(self.dtype, value)

    def total(self, pieces: list[tuple[int, Any]]) -> Any:
        """Return the sum: positive parts first, large factors first, the literal last."""
        out = None
        for coef, expr in sorted(pieces, key=lambda c: (c[0] < 0, c[1] is None, -abs(c[0]))):
            size = (
                self.literal(abs(coef))
                if expr is None
                else expr
                if abs(coef) == 1
                else expr * abs(coef)
            )
            if out is None:
                out = size if coef > 0 else self.literal(coef) if expr is None else expr * coef
            else:
                out = out + size if coef > 0 else out - size
        return self.literal(0) if out is None else out

    def compare(self, poly: Int, op: Any) -> Any:
        """Return ``poly op 0`` with the negative parts moved to the right."""
        pieces = self.pieces(poly)
        positive = [c for c in pieces if c[0] > 0]
        right = [(-c, e) for c, e in pieces if c < 0]
        return op(self.total(positive), self.total(right))

    def ge0(self, term: Term) -> Any:
        term = as_int(term)
        shift = next((c for m, c in term.terms if not m), 0)
        if shift == -1:
            return self.compare(term + 1, tirx.GT)
        if shift > 0 and all(c < 0 for m, c in term.terms if m):
            return self.compare(term + 1, tirx.GT)
        return self.compare(term, tirx.GE)

    def fold(self, op: Any, *args: Term) -> Any:
        return functools.reduce(op, (self(a) for a in args))

    def negation(self, term: Term) -> Any:
        if isinstance(term, CallTerm) and term.op == "eq0":
            return self.compare(as_int(term.args[0]), tirx.NE)
        return tirx.Not(self(term))


_CALLS: dict[str, Any] = {
    "floordiv": lambda emit, a, b: tirx.floordiv(emit(a), emit(b)),
    "floordiv_any": lambda emit, a, b: tirx.floordiv(emit(a), emit(b)),
    "floormod_any": lambda emit, a, b: tirx.floormod(emit(a), emit(b)),
    "truncdiv": lambda emit, a, b: tirx.truncdiv(emit(a), emit(b)),
    "min": lambda emit, *args: emit.fold(tirx.Min, *args),
    "max": lambda emit, *args: emit.fold(tirx.Max, *args),
    "ite": lambda emit, c, a, b: tirx.Select(emit(c), emit(a), emit(b)),
    "bitxor": lambda emit, *args: emit.fold(lambda a, b: a ^ b, *args),
    "bitand": lambda emit, *args: emit.fold(lambda a, b: a & b, *args),
    "bitor": lambda emit, *args: emit.fold(lambda a, b: a | b, *args),
    "shr": lambda emit, a, b: emit(a) >> emit(b),
    "and": lambda emit, *args: emit.fold(tirx.And, *args),
    "or": lambda emit, *args: emit.fold(tirx.Or, *args),
    "not": lambda emit, a: emit.negation(a),
    "ge0": lambda emit, poly: emit.ge0(poly),
    "eq0": lambda emit, poly: emit.compare(as_int(poly), tirx.EQ),
}
