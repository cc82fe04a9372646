"""Smart constructors for scalar operations.

Floating-point operations keep their order of evaluation. Only the operands of a single ``add`` or
``mul`` are sorted, which does not change the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .casts import narrowed
from .condition_terms import conj, disj, eq0, ge0, ite, negate
from .integer import floordiv
from .order import nonneg
from .scalar_rules import flag, shifted, sign, unmasked, without_zero
from .term import CallTerm, Int, Term, as_int, raw_call
from .term.exclusive_or import xor
from .term.literals import root, whole_float, whole_result
from .term.work_budget import spend

Terms = tuple[Term, ...]
#: A normal form of an operation with a result of a dtype; None if the rule does not apply.
Rule = Callable[[str, Terms, str], Term | None]

#: No index exceeds it, so ``min(n, MAX_INT64)`` is n.
MAX_INT64 = 2**63 - 1
COMMUTES = frozenset({"add", "mul", "eq", "ne", "bitand", "bitor", "bitxor"})


def extreme(op: str, a: Term, b: Term) -> Term:
    """Return ``min`` or ``max``; over integers n-ary, sorted, without operands that cannot win."""
    if not (isinstance(a, Int) and isinstance(b, Int)):
        return raw_call(op, (a, b), a.dtype)
    flat: dict[Int, None] = {}
    for poly in (a, b):
        atom = poly.atom
        nested = isinstance(atom, CallTerm) and atom.op == op
        flat.update(dict.fromkeys(map(as_int, atom.args) if nested else (poly,)))  # type: ignore[union-attr]
    if len(flat) > 3:
        spend(2 * len(flat) ** 2)
    sign = 1 if op == "min" else -1
    end = MAX_INT64 if op == "min" else MAX_INT64 + 1
    never = [t for t in flat if t.const is not None and t.const * sign >= end]
    keep = [t for t in flat if t not in never] or never[:1]
    for poly in list(keep):
        if any(o is not poly and nonneg((poly - o) * sign) for o in keep):
            keep.remove(poly)
    if len(keep) == 1:
        return keep[0]
    return as_int(raw_call(op, tuple(sorted(keep, key=lambda term: term.uid)), "int"))


def _conditions(constructor: Callable[..., Term]) -> tuple[Rule, ...]:
    return (lambda op, args, dtype: constructor(*args),)


def _indices(constructor: Callable[..., Term]) -> tuple[Rule, ...]:
    return (lambda op, args, dtype: constructor(*map(as_int, args)),)


def _extremes(op: str, args: Terms, dtype: str) -> Term:
    out = args[0]
    for term in args[1:]:
        out = extreme(op, out, term)
    return out


def _exclusive_or(op: str, args: Terms, dtype: str) -> Term | None:
    return xor(*map(as_int, args)) if all(isinstance(a, Int) for a in args) else None


#: The rules of each operation; the first one that applies is taken.
RULES: Mapping[str, tuple[Rule, ...]] = {
    "ite": _conditions(ite),
    "and": _conditions(conj),
    "or": _conditions(disj),
    "not": _conditions(negate),
    "ge0": _indices(ge0),
    "eq0": _indices(eq0),
    "floordiv": _indices(floordiv),
    "min": (_extremes,),
    "max": (_extremes,),
    "cast": (whole_float, lambda op, args, dtype: narrowed(args[0], dtype, call), flag),
    "add": (whole_result, without_zero),
    "sub": (sign, whole_result),
    "mul": (whole_result,),
    "sqrt": (root,),
    "shl": (lambda op, args, dtype: shifted(op, args, dtype, call),),
    "shr": (lambda op, args, dtype: shifted(op, args, dtype, call),),
    "bitand": (unmasked,),
    "bitxor": (_exclusive_or,),
}


def call(op: str, args: Terms, dtype: str) -> Term:
    """Return any operation by its name, in normal form if it has one."""
    for rule in RULES.get(op, ()):
        found = rule(op, args, dtype)
        if found is not None:
            return found
    if op in COMMUTES:
        args = tuple(sorted(args, key=lambda term: term.uid))
    out = raw_call(op, args, dtype)
    return as_int(out) if dtype in ("int", "int32", "int64") else out
