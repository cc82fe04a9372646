"""Choices that make no difference.

    x[t] if t >= 2 else (x[1] if t >= 1 else x[0])   =   x[t]

Where a condition leaves few values of a coordinate to a branch, and the other branch is the same
term at each of them, the other branch is the value. So are the first elements that a loop keeps in
registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TypeVar

from ..proofs.context import has_choice
from ..proofs.prove import prove
from ..terms.condition_terms import conj, eq0, ge0, ite, negate, parts
from ..terms.reduction_terms import identity, reduce
from ..terms.term import (
    FALSE,
    TRUE,
    CallTerm,
    Int,
    Load,
    Reduce,
    Term,
    Var,
    as_int,
    bare,
    integer,
)
from ..terms.term.work_budget import spend
from ..terms.traversal import free, rebuild, substitute, subterms
from .loops.reduction import canonical

T = TypeVar("T")

Facts = tuple[Term, ...]

#: Of more values, a branch is not compared at each of them.
_MOST = 8
#: Steps of a choice, whose condition is negated and compared; each fact around it is one more.
_CHOICE = 10


def without_idle_choices(body: Term) -> Term:
    """Return a term without choices both of whose branches are one term wherever one is taken."""
    return _simpler(body, (), {}) if has_choice(body) else body


def _simpler(term: Term, facts: Facts, memo: dict[tuple[Term, Facts], Term]) -> Term:
    """The term where the conditions around it hold."""
    if not has_choice(term):
        return term
    key = (term, facts)
    if key not in memo:
        memo[key] = _chosen(term, facts, memo)
    return memo[key]


def _chosen(term: Term, facts: Facts, memo: dict[tuple[Term, Facts], Term]) -> Term:
    call = bare(term)
    if not (isinstance(call, CallTerm) and call.op == "ite"):
        return rebuild(term, lambda x: _simpler(x, facts, memo))
    spend(_CHOICE + len(facts))
    condition, yes, no = call.args
    yes = _simpler(yes, (*facts, condition), memo)
    no = _simpler(no, (*facts, negate(condition)), memo)
    for kept, other, points in special_places(condition, yes, no):
        at = [m for m in points if not any(substitute(f, m) is FALSE for f in facts)]
        if all(_equal_at(kept, other, m) for m in at):
            return as_int(kept) if isinstance(term, Int) else kept
        usual = condition if kept is yes else negate(condition)
        inside = _inside(kept, (*facts, usual))
        if inside is not None and all(_equal_at(inside, other, m) for m in at):
            return inside
    for kept, other, case in ((yes, no, negate(condition)), (no, yes, condition)):
        if _is_same_place(kept, other, (*facts, case)):
            return kept
    out = ite(condition, yes, no)
    return as_int(out) if isinstance(term, Int) else out


def _inside(term: Term, facts: Facts) -> Term | None:
    """A sum without the terms outside its tensors, if it has none where the facts hold."""
    unit = identity(term.op, term.dtype) if isinstance(term, Reduce) else None
    if not isinstance(term, Reduce) or unit is None or isinstance(term.body, Int):
        return None
    loads = [s for s in subterms(term.body) if isinstance(s, Load)]
    pairs = [p for x in loads for p in zip(x.indices, x.tensor.shape, strict=True)]
    bounds = conj(*(c for i, e in pairs for c in (ge0(i), ge0(e - 1 - i))))
    assumed = tuple(p for f in facts for p in parts(f))
    if bounds is TRUE or not prove(bounds, assumed).proved:
        return None
    body = ite(bounds, term.body, unit)
    return reduce(term.op, term.axes, body, term.init, term.dtype)


def _equal_at(term: Term, other: Term, point: dict[Var, Int]) -> bool:
    first, second = substitute(term, point), substitute(other, point)
    return first is second or canonical(first) is canonical(second)


def _is_same_place(a: Term, b: Term, facts: Facts) -> bool:
    """Whether loads with their indices in another order are of one element, as on a diagonal."""
    first, second = bare(a), bare(b)
    if not (isinstance(first, Load) and isinstance(second, Load)):
        return False
    if first.tensor is not second.tensor or {*first.indices} != {*second.indices}:
        return False
    goal = conj(*(eq0(i - j) for i, j in zip(first.indices, second.indices, strict=True)))
    return prove(goal, tuple(p for f in facts for p in parts(f))).proved


def special_places(condition: Term, yes: T, no: T) -> Iterator[tuple[T, T, list[dict[Var, Int]]]]:
    """Yield the usual branch, the special one, and the few coordinates that the latter is for."""
    if isinstance(condition, CallTerm) and condition.op in ("ge0", "eq0"):
        poly = as_int(condition.args[0])
        for var in free(poly):
            holds = _holding(var, poly, condition.op)
            if holds is None:
                continue
            assert var.extent is not None and var.extent.const is not None
            size = var.extent.const
            fails = chain(range(holds.start), range(holds.stop, size))
            if 0 < size - len(holds) <= _MOST:
                yield yes, no, [{var: integer(k)} for k in fails]
            if 0 < len(holds) <= _MOST:
                yield no, yes, [{var: integer(k)} for k in holds]


def _holding(var: Var, poly: Int, op: str) -> range | None:
    """The values of a coordinate of a known extent at which a condition on it alone holds."""
    coef = dict(poly.terms).get((var,), 0)
    shift = (poly - as_int(var) * coef).const
    size = None if var.extent is None else var.extent.const
    if shift is None or coef not in (1, -1) or size is None or var.kind == "size":
        return None
    if op == "eq0":
        return range(-shift * coef, -shift * coef + 1) if 0 <= -shift * coef < size else None
    bound = min(size, max(0, -shift if coef == 1 else shift + 1))
    return range(bound, size) if coef == 1 else range(bound)
