"""Z3 over mathematical integers: terms as formulas, with explicit quotients and remainders.

Each ``x // d`` becomes a fresh ``q`` with ``x = d*q + r`` and ``0 <= r < d``, which holds because
divisors in floor divisions are positive; Z3's own (Euclidean) division is not used. Values that are
not integers (elements of tensors, floating point, opaque calls) become uninterpreted functions of
their arguments. A proof holds for every interpretation; a refutation does not follow.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from ...terms.term import CallTerm, Int, Load, Term, Var, as_int
from ...terms.term.work_budget import spend
from ...terms.traversal import free
from .exhaustive import is_counterexample
from .verdict import Verdict
from .z3_terms import Encoder

#: The cost of a query in the budget, and of each millisecond of one that reaches its limit.
_QUERY, _SEARCH = 300, 100
#: Z3's steps per millisecond, as counted on the reference machine.
STEPS = 1_000
#: Times longer than its steps should take that a query may run by the clock.
CLOCK = 4


def limit(solver: Any, ms: int) -> None:
    """Bound a search by its steps, so that it ends at the same place on every machine.

    The clock is a safety net for work that Z3 does not count.
    """
    solver.set("rlimit", ms * STEPS)
    solver.set("timeout", ms * CLOCK)


def prove_int(goal: Term, premise: Term, timeout_ms: int) -> Verdict:
    """Decide ``premise -> goal`` over integers, within the steps of `timeout_ms` milliseconds."""
    spend(_QUERY)
    import z3

    model = Formulas()
    solver = z3.Solver(ctx=model.ctx)
    limit(solver, timeout_ms)
    try:
        claim, assumption = model(goal), model(premise)
    except z3.Z3Exception as error:
        return Verdict("unknown", "z3-int", reason=str(error))
    for var in sorted(_closure(free(goal) | free(premise)), key=lambda var: var.uid):
        model.domain(var)
    solver.add(*model.side, assumption, z3.Not(claim))
    answer = solver.check()
    if answer == z3.unknown and "incomplete" not in solver.reason_unknown():
        spend(timeout_ms * _SEARCH)
    if answer == z3.unsat:
        return Verdict("proved", "z3-int")
    if answer != z3.sat:
        return Verdict("unknown", "z3-int", reason=solver.reason_unknown())
    if model.opaque:
        return Verdict("unknown", "z3-int", reason="depends on values that are not integers")
    assignment = solver.model()
    point = {v: _value(assignment, z) for v, z in model.variables.items()}
    if not is_counterexample(goal, premise, point):
        return Verdict("unknown", "z3-int", reason="counterexample does not evaluate")
    return Verdict("refuted", "z3-int", counterexample=MappingProxyType(point))


def _value(model: Any, expr: Any) -> int:
    return int(model.eval(expr, model_completion=True).as_long())


def _closure(variables: frozenset[Var]) -> frozenset[Var]:
    """The variables, and those in their extents."""
    seen, stack = set(variables), list(variables)
    while stack:
        var = stack.pop()
        for inner in free(var.extent) if var.extent is not None else ():
            if inner not in seen:
                seen.add(inner)
                stack.append(inner)
    return frozenset(seen)


class Formulas(Encoder):
    """Encodes terms as integers; ``side`` collects definitions of quotients, and domains."""

    def __init__(self) -> None:
        super().__init__()
        self.side: list[Any] = []
        self.opaque = False
        self.names: dict[object, str] = {}

    def domain(self, var: Var) -> None:
        value = self(var)
        if var.kind == "size":
            self.side.append(value >= 1)
        elif var.extent is not None:
            self.side += [value >= 0, value < self(var.extent)]

    def literal(self, value: int) -> Any:
        import z3

        return z3.IntVal(value, ctx=self.ctx)

    def variable(self, var: Var) -> Any:
        import z3

        return z3.Int(f"v!{len(self.variables)}", ctx=self.ctx)

    def total(self, parts: list[Any]) -> Any:
        return sum(parts, self.literal(0))

    def extreme(self, op: str, args: tuple[Term, ...], wins: Any) -> Any:
        if not all(isinstance(a, Int) for a in args):
            return self.uninterpreted_call(args[0].dtype, op, args)
        return super().extreme(op, args, wins)

    def call_floordiv(self, x: Term, d: Term) -> Any:
        import z3

        num, den = self(x), self(d)  # first, because divisions inside them define names too
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

    def fallback(self, term: Term) -> Any:
        """Return an uninterpreted function of the integers and truth values in ``term`` only."""
        if isinstance(term, CallTerm):
            return self.uninterpreted_call(term.dtype, term.op, term.args)
        if isinstance(term, Load):
            return self.uninterpreted_call(term.dtype, self.named(term.tensor), term.indices)
        return self.uninterpreted_call(term.dtype, self.named(term), ())

    def named(self, key: object) -> str:
        """Return a name that is the same in every run, by order of occurrence."""
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
