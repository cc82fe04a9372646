"""What holds at each step of a fold, and comparisons of floats that are not NaN."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...terms.condition_terms import disj, ge0, negate, parts
from ...terms.term import TRUE, CallTerm, Fold, Int, Term, as_int, raw_call
from ...terms.traversal import rebuild


def earlier_indices(fold: Fold, axis: Int, states: Sequence[Term]) -> Iterator[Term]:
    """Yield ``state < axis`` for states that are the index of an earlier step, or below 0.

    Args:
        fold: The fold.
        axis: The index of the step.
        states: The states before it.
    """
    index = as_int(fold.axis)
    for own, init, update, state in zip(fold.states, fold.inits, fold.updates, states, strict=True):
        start = init.const if isinstance(init, Int) else None
        if start is None or start >= 0:
            continue
        if all(leaf is index or leaf is as_int(own) for leaf in _leaves(update)):
            yield ge0(axis - 1 - as_int(state))


def _leaves(term: Term) -> Iterator[Term]:
    """The alternatives of a selection."""
    atom = term.atom if isinstance(term, Int) else term
    if isinstance(atom, CallTerm) and atom.op == "ite":
        yield from _leaves(as_int(atom.args[1]))
        yield from _leaves(as_int(atom.args[2]))
    else:
        yield term


def in_order(term: Term, facts: Sequence[Term]) -> Term:
    """Return a term where the facts hold and no number is NaN.

    ``a < b or a == b`` is ``not b < a``, and ``a if a < b else b`` is a minimum.
    """
    memo: dict[Term, Term] = dict.fromkeys(facts, TRUE)

    def go(term: Term) -> Term:
        if term not in memo:
            new = rebuild(term, go)
            rule = _RULES.get(new.op) if isinstance(new, CallTerm) else None
            memo[term] = new if rule is None else rule(new)  # type: ignore[arg-type]
        return memo[term]

    return go(term)


def _not_above(condition: CallTerm) -> Term:
    options = parts(condition, "or")
    for less in options:
        if not (isinstance(less, CallTerm) and less.op == "lt"):
            continue
        for same in options:
            if isinstance(same, CallTerm) and same.op == "eq" and set(same.args) == set(less.args):
                others = (t for t in options if t is not less and t is not same)
                return disj(negate(raw_call("lt", less.args[::-1], "bool")), *others)
    return condition


def _extreme(choice: CallTerm) -> Term:
    condition, *branches = choice.args
    if isinstance(condition, CallTerm) and condition.op == "lt" and "float" in choice.dtype:
        for op, order in (("min", condition.args), ("max", condition.args[::-1])):
            if tuple(branches) == order:
                return raw_call(op, condition.args, choice.dtype)
    return choice


_RULES = {"or": _not_above, "ite": _extreme}
