"""Z3 over bit-vectors that are just wide enough for every intermediate value.

    (x ^ (x >> 31)) - (x >> 31) = x if x >= 0 else -x        for x of int32

Elements of tensors of integers are any number of their type. Programs are assumed not to overflow,
and the width excludes it here, so that bits are those of integers in two's complement.
"""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any

from ...terms.interval import Sized, sized
from ...terms.term import CallTerm, Int, Load, Term, Var, as_int, integer, variable
from ...terms.term.work_budget import spend
from ...terms.traversal import replace, substitute, subterms
from ..solvers.smt import limit
from ..solvers.z3_terms import Encoder

#: The bits of the elements that are known integers.
_BITS = {"int32": 32, "int64": 64}
#: The widest bit-vectors, the cost of a query in the budget, and its milliseconds.
_WIDEST, _QUERY, _MS = 160, 4000, 400
_SAMPLES = (0, 1, -1, 6, -37, 0x5A5A_1234, -0x7654_4321)
_OPERATIONS = frozenset({"bitand", "bitor", "bitxor"})


class NoBits(Exception):
    """A term has an operation without a meaning for bit-vectors."""


def has_bit_operations(term: Term) -> bool:
    """Return whether a term combines numbers bit by bit."""
    return any(isinstance(s, CallTerm) and s.op in _OPERATIONS for s in subterms(term))


def proved_by_bits(a: Int, b: Int) -> bool | None:
    """Return whether two integers are equal for all values of the elements they read.

    None if Z3 did not decide it within its steps.
    """
    loads = {s for t in (a, b) for s in subterms(t) if isinstance(s, Load)}
    if not loads or any(x.dtype not in _BITS for x in loads):
        return False
    spend(_QUERY)
    names: dict[Term, Var] = {}
    ends: dict[Var, Sized] = {}
    for load in sorted(loads, key=lambda x: x.uid):
        half = 1 << (_BITS[load.dtype] - 1)
        names[load] = variable("free", f"element {len(names)}")
        ends[names[load]] = (-half, half - 1, half)
    values: dict[Term, Term] = {x: as_int(v) for x, v in names.items()}
    left, right = as_int(replace(a, values)), as_int(replace(b, values))
    sizes = [sized(t, ends) for t in (left, right)]
    width = max((s[2].bit_length() for s in sizes if s is not None), default=0) + 2
    if None in sizes or width > _WIDEST or _differ(left, right, tuple(ends)):
        return False
    return _equal(left, right, ends, width)


def _differ(a: Int, b: Int, variables: tuple[Var, ...]) -> bool:
    """Whether the two differ at a few points, which spares a query."""
    for shift in range(len(_SAMPLES)):
        turn = (*_SAMPLES[shift:], *_SAMPLES[:shift])
        values = {v: integer(turn[3 * k % len(turn)]) for k, v in enumerate(variables)}
        if as_int(substitute(a - b, values)).const not in (None, 0):
            return True
    return False


def _equal(a: Int, b: Int, ends: dict[Var, Sized], width: int) -> bool | None:
    import z3

    model = BitVectors(width)
    solver = z3.Solver(ctx=model.ctx)
    limit(solver, _MS)
    try:
        left, right = model(a), model(b)
    except (NoBits, z3.Z3Exception):
        return False
    for var, encoded in model.variables.items():
        if var not in ends:
            return False
        low, high, _ = ends[var]
        solver.add(encoded >= model.literal(low), encoded <= model.literal(high))
    solver.add(left != right)
    answer = solver.check()
    return None if answer == z3.unknown else bool(answer == z3.unsat)


class BitVectors(Encoder):
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
        raise NoBits(f"{term!r} is not supported in bit-vector arithmetic")

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
