"""Z3 over bit-vectors that are just wide enough for every intermediate value."""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any

from ...proofs.z3_terms import Encoder
from ...terms.term import Int, Term, Var
from ..maps.to_terms import Unsupported


class Bits(Encoder):
    """Encodes terms as signed bit-vectors of one width, which excludes overflow."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def literal(self, value: int) -> Any:
        import z3

        return z3.BitVecVal(value, self.width, ctx=self.ctx)

    def variable(self, var: Var) -> Any:
        import z3

        return z3.BitVec(f"{var.name}!{var.uid}", self.width, ctx=self.ctx)

    def total(self, parts: list[Any]) -> Any:
        return reduce(operator.add, parts) if parts else self.literal(0)

    def fallback(self, term: Term) -> Any:
        raise Unsupported(f"{term!r} is not supported in bit-vector arithmetic")

    def call_bitand(self, *args: Term) -> Any:
        return reduce(operator.and_, map(self, args))

    def call_bitor(self, *args: Term) -> Any:
        return reduce(operator.or_, map(self, args))

    def call_bitxor(self, *args: Term) -> Any:
        return reduce(operator.xor, map(self, args))

    def call_floordiv(self, x: Term, d: Term) -> Any:
        """Return ``floor(x / d)`` for a positive d; Z3's signed division rounds towards zero."""
        import z3

        num, k = self(x), d.const if isinstance(d, Int) else None
        if k is not None and k > 0 and k & (k - 1) == 0:
            return num >> self.literal(k.bit_length() - 1)
        den = self(d)
        up = z3.UDiv(num, den)
        down = -z3.UDiv(-num + den - self.literal(1), den)
        return z3.If(num >= self.literal(0), up, down)
