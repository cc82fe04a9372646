"""Remove clamps of indices that an enclosing selection makes redundant.

x[min(i, n - 1)] if i < n else v      is    x[i] if i < n else v
v if k == i and 0 <= k < n else w     is    v if k == i else w, for i < n
i >= 1 and x[max(i - 1, 0)] < v       is    i >= 1 and x[i - 1] < v
"""

from __future__ import annotations

from ..terms.condition_terms import conj, ge0, negate, parts
from ..terms.term import CallTerm, Int, Term, as_int
from ..terms.traversal import rebuild, subterms
from .implication import follows_from

#: Visits of sub-terms after which facts from selections are ignored.
VISITS = 5_000


def remove_clamps(term: Term) -> Term:
    """Return the term without clamps, and bounds beside an equality, that selections decide."""
    if not any(_clamp(s) or _equalities(s) for s in subterms(term)):
        return term
    memo: dict[tuple[Term, tuple[Term, ...]], Term] = {}

    def go(term: Term, facts: tuple[Term, ...]) -> Term:
        if len(memo) > VISITS:
            return term
        result = memo.get((term, facts))
        if result is None:
            if isinstance(term, CallTerm) and term.op == "ite":
                condition, yes, no = term.args
                branches = (
                    go(condition, facts),
                    go(yes, (*facts, *_facts(*parts(condition)))),
                    go(no, (*facts, *_facts(negate(condition)))),
                )
                remaining = iter(branches)
                result = rebuild(term, lambda _: next(remaining))
            elif isinstance(term, CallTerm) and term.op == "and":
                known = _facts(*(p for p in parts(term) if not any(map(_clamp, subterms(p)))))
                sides = iter(go(p, facts if p in known else (*facts, *known)) for p in term.args)
                result = _unbounded(rebuild(term, lambda _: next(sides)))
            else:
                result = _unbounded(rebuild(term, lambda child: go(child, facts)))
                result = _decided(result, facts)
            memo[term, facts] = result
        return result

    return go(term, ())


def _clamp(term: Term) -> bool:
    return (
        isinstance(term, CallTerm) and term.op in ("min", "max") and isinstance(term.args[0], Int)
    )


def _equalities(term: Term) -> list[Term]:
    """The equalities of a conjunction."""
    if not (isinstance(term, CallTerm) and term.op == "and"):
        return []
    return [p for p in parts(term) if isinstance(p, CallTerm) and p.op == "eq0"]


def _unbounded(term: Term) -> Term:
    """A conjunction without the bounds that one of its equalities implies."""
    equal = _equalities(term)
    return (
        conj(*(p for p in parts(term) if p in equal or not follows_from(p, equal)))
        if equal
        else term
    )


def _facts(*conditions: Term) -> tuple[Term, ...]:
    return tuple(
        part
        for condition in conditions
        for part in parts(condition)
        if isinstance(part, CallTerm) and part.op in _USED
    )


_USED = ("ge0", "eq0")


def _decided(term: Term, facts: tuple[Term, ...]) -> Term:
    """The operand of a minimum or maximum that is the smaller or larger one under the facts."""
    atom = term.atom if isinstance(term, Int) else term
    if not facts or not isinstance(atom, CallTerm) or not _clamp(atom) or len(atom.args) != 2:
        return term
    a, b = map(as_int, atom.args)
    if atom.op == "max":
        a, b = b, a
    if follows_from(ge0(b - a), facts):  # the first operand is the smaller one, or the larger one
        return atom.args[0]
    return atom.args[1] if follows_from(ge0(a - b), facts) else term
