"""Terms as Z3 expressions: the common part of integers and bit-vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ...terms.term import FALSE, TRUE, CallTerm, Int, Term, Var


class Encoder(ABC):
    """Translates terms, each once; an operation ``op`` is translated by the method ``call_op``.

    Its Z3 context is its own: the steps of a query in a shared one depend on the queries before it.
    """

    def __init__(self) -> None:
        import z3

        self.variables: dict[Var, Any] = {}
        self.memo: dict[Term, Any] = {}
        self.ctx = z3.Context()

    def __call__(self, term: Term) -> Any:
        result = self.memo.get(term)
        if result is None:
            result = self.memo[term] = self.translate(term)
        return result

    @abstractmethod
    def literal(self, value: int) -> Any: ...

    @abstractmethod
    def variable(self, var: Var) -> Any: ...

    @abstractmethod
    def total(self, parts: list[Any]) -> Any:
        """Return the sum; 0 for no parts."""

    @abstractmethod
    def fallback(self, term: Term) -> Any:
        """Translate a term without a rule of its own."""

    def translate(self, term: Term) -> Any:
        import z3

        if isinstance(term, Int):
            return self.total([self.product(mono, coef) for mono, coef in term.terms])
        if isinstance(term, Var):
            encoded = self.variables[term] = self.variable(term)
            return encoded
        if term is TRUE or term is FALSE:
            return z3.BoolVal(term is TRUE, ctx=self.ctx)
        rule = getattr(self, f"call_{term.op}", None) if isinstance(term, CallTerm) else None
        return self.fallback(term) if rule is None else rule(*term.args)  # type: ignore[attr-defined]

    def product(self, mono: tuple[Term, ...], coef: int) -> Any:
        part: Any = None
        for atom in mono:
            factor = self.number(atom)
            part = factor if part is None else part * factor
        if part is None:
            return self.literal(coef)
        return part if coef == 1 else part * self.literal(coef)

    def number(self, term: Term) -> Any:
        """Return a truth value as 1 or 0."""
        import z3

        value = self(term)
        return z3.If(value, self.literal(1), self.literal(0)) if z3.is_bool(value) else value

    def call_ge0(self, term: Term) -> Any:
        return self(term) >= self.literal(0)

    def call_eq0(self, term: Term) -> Any:
        return self(term) == self.literal(0)

    def call_not(self, term: Term) -> Any:
        import z3

        return z3.Not(self(term))

    def call_and(self, *args: Term) -> Any:
        import z3

        return z3.And([self(a) for a in args])

    def call_or(self, *args: Term) -> Any:
        import z3

        return z3.Or([self(a) for a in args])

    def call_ite(self, condition: Term, a: Term, b: Term) -> Any:
        import z3

        return z3.If(self(condition), self(a), self(b))

    def call_min(self, *args: Term) -> Any:
        return self.extreme("min", args, lambda a, b: a <= b)

    def call_max(self, *args: Term) -> Any:
        return self.extreme("max", args, lambda a, b: a >= b)

    def extreme(self, op: str, args: tuple[Term, ...], wins: Any) -> Any:
        import z3

        out = self(args[0])
        for term in args[1:]:
            out = z3.If(wins(out, self(term)), out, self(term))
        return out
