"""Z3 over bit-vectors that are just wide enough for every intermediate value."""

from __future__ import annotations

from typing import Any

from ...proofs.smt import context
from ...terms.term import TRUE, CallTerm, Const, Int, Term, Var
from ..maps.to_terms import Unsupported


class Bits:
    """Translates terms to signed bit-vectors of one width; overflow is excluded by the width."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.variables: dict[Var, Any] = {}
        self.memo: dict[Term, Any] = {}

    def __call__(self, t: Term) -> Any:
        found = self.memo.get(t)
        if found is None:
            found = self.memo[t] = self.translate(t)
        return found

    def literal(self, value: int) -> Any:
        import z3

        return z3.BitVecVal(value, self.width, ctx=context())

    def translate(self, t: Term) -> Any:
        import z3

        if isinstance(t, Int):
            return self.polynomial(t)
        if isinstance(t, Var):
            z = z3.BitVec(f"{t.name}!{t.uid}", self.width, ctx=context())
            self.variables[t] = z
            return z
        if isinstance(t, Const) and t.dtype == "bool":
            return z3.BoolVal(t is TRUE, ctx=context())
        if isinstance(t, CallTerm) and t.op in _RULES:
            return _RULES[t.op](self, *t.args)
        raise Unsupported(f"{t!r} has no bit-vector meaning")

    def polynomial(self, p: Int) -> Any:
        out = None
        for mono, coef in p.terms:
            part = None
            for atom in mono:
                z = self(atom)
                part = z if part is None else part * z
            if part is None:
                part = self.literal(coef)
            elif coef != 1:
                part = part * self.literal(coef)
            out = part if out is None else out + part
        return self.literal(0) if out is None else out

    def fold(self, op: Any, *args: Term) -> Any:
        out = self(args[0])
        for a in args[1:]:
            out = op(out, self(a))
        return out


def _floordiv(bits: Bits, a: Term, d: Term) -> Any:
    """``floor(a / d)`` for a positive d; Z3's signed division rounds to zero."""
    import z3

    x, k = bits(a), d.const if isinstance(d, Int) else None
    if k is not None and k > 0 and k & (k - 1) == 0:
        return x >> bits.literal(k.bit_length() - 1)
    y = bits(d)
    up = z3.UDiv(x, y)
    down = -z3.UDiv(-x + y - bits.literal(1), y)
    return z3.If(x >= bits.literal(0), up, down)


def _logic(name: str) -> Any:
    def rule(bits: Bits, *args: Term) -> Any:
        import z3

        return getattr(z3, name)(*(bits(a) for a in args))

    return rule


def _ite(bits: Bits, c: Term, a: Term, b: Term) -> Any:
    import z3

    return z3.If(bits(c), bits(a), bits(b))


def _extreme(wins: Any) -> Any:
    def rule(bits: Bits, *args: Term) -> Any:
        import z3

        return bits.fold(lambda a, b: z3.If(wins(a, b), a, b), *args)

    return rule


_RULES: dict[str, Any] = {
    "ge0": lambda bits, p: bits(p) >= bits.literal(0),
    "eq0": lambda bits, p: bits(p) == bits.literal(0),
    "and": _logic("And"),
    "or": _logic("Or"),
    "not": _logic("Not"),
    "ite": _ite,
    "min": _extreme(lambda a, b: a <= b),
    "max": _extreme(lambda a, b: a >= b),
    "floordiv": _floordiv,
    "bitand": lambda bits, *args: bits.fold(lambda a, b: a & b, *args),
    "bitor": lambda bits, *args: bits.fold(lambda a, b: a | b, *args),
    "bitxor": lambda bits, *args: bits.fold(lambda a, b: a ^ b, *args),
}
