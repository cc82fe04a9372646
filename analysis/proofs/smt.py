"""Z3 over mathematical integers: terms as formulas, with explicit quotients and remainders.

Each ``x // d`` becomes a fresh ``q`` with ``x = d*q + r`` and ``0 <= r < d``, which holds because
divisors in floor divisions are positive; Z3's own (Euclidean) division is not used. What integers
cannot say (elements of tensors, floating point, opaque calls) becomes an uninterpreted function of
its arguments: a proof holds for every meaning of it, a refutation does not follow.
"""

from __future__ import annotations

import threading
from types import MappingProxyType
from typing import Any

from ..terms.term import FALSE, TRUE, CallTerm, Int, Load, Term, Var, as_int
from ..terms.traversal import free
from ..terms.work import spend
from .exhaustive import is_counterexample
from .verdict import Verdict

_LOCAL = threading.local()


def context() -> Any:
    """The Z3 context of this thread."""
    if not hasattr(_LOCAL, "context"):
        import z3

        _LOCAL.context = z3.Context()
    return _LOCAL.context


#: What a query costs of a question's budget, and a millisecond of one that ends by its limit.
_QUERY, _SEARCH = 300, 100
#: Z3's steps in a millisecond of the machine that they were counted on.
STEPS = 1_000


def limit(solver: Any, ms: int) -> None:
    """Bound a search by what it does: it ends at one place whatever the machine and its load.

    The clock is the net for what Z3 does not count.
    """
    solver.set("rlimit", ms * STEPS)
    solver.set("timeout", ms * 4)


def prove_int(goal: Term, given: Term, timeout_ms: int) -> Verdict:
    """``given -> goal`` over integers, in the steps of so many milliseconds."""
    spend(_QUERY)
    import z3

    model = Formulas()
    solver = z3.Solver(ctx=context())
    limit(solver, timeout_ms)
    try:
        claim, premise = model(goal), model(given)
    except z3.Z3Exception as error:
        return Verdict("unknown", "z3-int", reason=str(error))
    for v in sorted(_closure(free(goal) | free(given)), key=lambda v: v.uid):
        model.domain(v)
    solver.add(*model.side, premise, z3.Not(claim))
    answer = solver.check()
    if answer == z3.unknown and "incomplete" not in solver.reason_unknown():
        spend(timeout_ms * _SEARCH)
    if answer == z3.unsat:
        return Verdict("proved", "z3-int")
    if answer != z3.sat:
        return Verdict("unknown", "z3-int", reason=solver.reason_unknown())
    if model.opaque:
        return Verdict("unknown", "z3-int", reason="depends on values that are not integers")
    found = solver.model()
    point = {v: _value(found, z) for v, z in model.variables.items()}
    if not is_counterexample(goal, given, point):
        return Verdict("unknown", "z3-int", reason="counterexample does not evaluate")
    return Verdict("refuted", "z3-int", counterexample=MappingProxyType(point))


def _value(model: Any, z: Any) -> int:
    return int(model.eval(z, model_completion=True).as_long())


def _closure(variables: frozenset[Var]) -> frozenset[Var]:
    """The variables and those in their extents."""
    seen, stack = set(variables), list(variables)
    while stack:
        v = stack.pop()
        for w in free(v.extent) if v.extent is not None else ():
            if w not in seen:
                seen.add(w)
                stack.append(w)
    return frozenset(seen)


class Formulas:
    """Translates terms; ``side`` collects what defines the quotients, and the domains."""

    def __init__(self) -> None:
        self.side: list[Any] = []
        self.variables: dict[Var, Any] = {}
        self.opaque = False
        self.names: dict[object, str] = {}
        self.memo: dict[Term, Any] = {}
        self.ctx = context()

    def __call__(self, t: Term) -> Any:
        found = self.memo.get(t)
        if found is None:
            found = self.memo[t] = self.translate(t)
        return found

    def domain(self, v: Var) -> None:
        z = self(v)
        if v.kind == "size":
            self.side.append(z >= 1)
        elif v.extent is not None:
            self.side += [z >= 0, z < self(v.extent)]

    def translate(self, t: Term) -> Any:
        import z3

        if isinstance(t, Int):
            return self.polynomial(t)
        if isinstance(t, Var):
            z = z3.Int(f"v!{len(self.variables)}", ctx=self.ctx)
            self.variables[t] = z
            return z
        if t is TRUE or t is FALSE:
            return z3.BoolVal(t is TRUE, ctx=self.ctx)
        if isinstance(t, CallTerm):
            rule = getattr(self, f"call_{t.op}", None)
            if rule is not None:
                return rule(*t.args)
        return self.uninterpreted(t)

    def polynomial(self, p: Int) -> Any:
        import z3

        out = z3.IntVal(0, ctx=self.ctx)
        for mono, coef in p.terms:
            part: Any = None
            for atom in mono:
                z = self.number(atom)
                part = z if part is None else part * z
            part = (
                z3.IntVal(coef, ctx=self.ctx)
                if part is None
                else part
                if coef == 1
                else part * coef
            )
            out = out + part
        return out

    def number(self, t: Term) -> Any:
        import z3

        z = self(t)
        return (
            z3.If(z, z3.IntVal(1, ctx=self.ctx), z3.IntVal(0, ctx=self.ctx)) if z3.is_bool(z) else z
        )

    def call_ge0(self, p: Term) -> Any:
        return self(p) >= 0

    def call_eq0(self, p: Term) -> Any:
        return self(p) == 0

    def call_not(self, a: Term) -> Any:
        import z3

        return z3.Not(self(a))

    def call_and(self, *args: Term) -> Any:
        import z3

        return z3.And([self(a) for a in args])

    def call_or(self, *args: Term) -> Any:
        import z3

        return z3.Or([self(a) for a in args])

    def call_ite(self, c: Term, a: Term, b: Term) -> Any:
        import z3

        return z3.If(self(c), self(a), self(b))

    def call_min(self, *args: Term) -> Any:
        return self.extreme("min", args, lambda a, b: a <= b)

    def call_max(self, *args: Term) -> Any:
        return self.extreme("max", args, lambda a, b: a >= b)

    def extreme(self, op: str, args: tuple[Term, ...], wins: Any) -> Any:
        import z3

        if not all(isinstance(a, Int) for a in args):
            return self.uninterpreted_call(args[0].dtype, op, args)
        out = self(args[0])
        for a in args[1:]:
            out = z3.If(wins(out, self(a)), out, self(a))
        return out

    def call_floordiv(self, x: Term, d: Term) -> Any:
        import z3

        num, den = self(x), self(d)  # first: divisions inside them have names of their own
        n = len(self.side)
        q, r = (z3.Int(f"{s}!!{n}", ctx=self.ctx) for s in "qr")
        self.side += [num == den * q + r, r >= 0, r < den]
        return q

    def call_truncdiv(self, x: Term, d: Term) -> Any:
        """Division that rounds towards zero, by a positive literal."""
        import z3

        divisor = as_int(d).const
        if divisor is None or divisor < 1:
            return self.uninterpreted_call("int", "truncdiv", (x, d))
        down, up = self.call_floordiv(x, d), self.call_floordiv(-as_int(x), d)
        return z3.If(self(x) >= 0, down, -up)

    # ------------------------------------------------------------------ what is not an integer

    def uninterpreted(self, t: Term) -> Any:
        """A function of the integers and truth values in ``t``, and of nothing else."""
        if isinstance(t, CallTerm):
            return self.uninterpreted_call(t.dtype, t.op, t.args)
        if isinstance(t, Load):
            return self.uninterpreted_call(t.dtype, self.named(t.tensor), t.indices)
        return self.uninterpreted_call(t.dtype, self.named(t), ())

    def named(self, key: object) -> str:
        """A name that is the same in every run: by the order of occurrence."""
        return self.names.setdefault(key, f"{type(key).__name__}!{len(self.names)}")

    def uninterpreted_call(self, dtype: str, name: str, args: tuple[Term, ...]) -> Any:
        import z3

        self.opaque = True
        values = [self(a) for a in args]
        sorts = [v.sort() for v in values]
        label = f"{name}:{','.join(str(s) for s in sorts)}:{dtype}"
        fn = z3.Function(label, *sorts, self.sort(dtype))
        return fn(*values)

    def sort(self, dtype: str) -> Any:
        import z3

        if dtype == "bool":
            return z3.BoolSort(ctx=self.ctx)
        if dtype.startswith(("int", "uint")):
            return z3.IntSort(ctx=self.ctx)
        return z3.DeclareSort(f"element!{dtype}", ctx=self.ctx)
