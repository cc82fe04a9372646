"""Properties of terms that decide what is known of them in the iterations that only N has."""

from __future__ import annotations

from ...analysis.terms.term import CallTerm, Const, Fold, Int, Load, Reduce, Term, Var
from ...analysis.terms.traversal import free, subterms
from .padding_value import ANYTHING, KnownNumber, Value


def literal(term: Term) -> Value:
    """Evaluate a term at n, where all loads are valid: a literal, or unknown."""
    if isinstance(term, Const) and not isinstance(term.value, str):
        return KnownNumber(term.value)
    return KnownNumber(term.const) if isinstance(term, Int) and term.const is not None else ANYTHING


def has_state(term: Term) -> bool:
    """Return whether a term contains the state of a loop."""
    known: bool | None = term.memo.get("stateful")
    if known is None:
        is_state = isinstance(term, CallTerm) and not term.args and term.op.startswith("state")
        known = term.memo["stateful"] = is_state or any(map(has_state, term.children))
    return known


def is_indirect(term: Term) -> bool:
    """Return whether data determines an index."""
    return any(isinstance(s, Load) and any(i.reads for i in s.indices) for s in subterms(term))


def independent(axes: tuple[Var, ...]) -> bool:
    """Return whether no axis has an extent that depends on another axis."""
    return not any(a.extent is not None and not free(a.extent).isdisjoint(axes) for a in axes)


#: Operations that are finite for finite operands, apart from overflow.
_TAME = frozenset({"add", "sub", "mul", "neg", "abs", "min", "max", "tanh", "sigmoid", "erf",
                   "floor", "ceil", "ite", "ge0", "eq0", "and", "or", "not", "lt", "le", "gt",
                   "ge", "eq", "ne"})  # fmt: skip


def is_tame(term: Term) -> bool:
    """Return whether a term is finite even in iterations that do not exist at n."""
    tame = term.op in _TAME if isinstance(term, (CallTerm, Reduce)) else not isinstance(term, Fold)
    return tame and all(map(is_tame, term.children))
