"""Parts of terms for recognisers of stores at indices from data: a fold over the stores.

out[y] = data[y];  for k: if place(k) == y and more: out[y] = value(out[y], k)
"""

from __future__ import annotations

from dataclasses import dataclass

from ...lifting.effects.tensor_expression import OutputDefinition
from ...terms.condition_terms import parts
from ...terms.term import CallTerm, Fold, Int, Load, TensorVar, Term, as_int
from ...terms.traversal import subterms
from .sums_of_products import bare


@dataclass(frozen=True)
class Scatter:
    """Stores into ``data``: ``places`` has, for some dimensions, the term that selects them."""

    data: TensorVar
    places: dict[int, Int]
    value: Term
    state: Term
    fold: Fold


def scatter(definition: OutputDefinition, term: Term) -> Scatter | None:
    """Return a fold of one value as stores into the tensor that it starts from."""
    term = bare(term)
    if not isinstance(term, Fold) or len(term.states) != 1:
        return None
    choice, start = bare(term.updates[0]), bare(term.inits[0])
    if not (isinstance(choice, CallTerm) and choice.op == "ite") or not isinstance(start, Load):
        return None
    if start.tensor.shape != definition.out.shape or bare(choice.args[2]) is not term.states[0]:
        return None
    places = {
        dim: place
        for condition in parts(choice.args[0])
        for dim, axis in enumerate(definition.axes)
        if (place := _place(condition, axis)) is not None
    }
    return Scatter(start.tensor, places, bare(choice.args[1]), term.states[0], term)


def _place(condition: Term, axis: Int) -> Int | None:
    """The term that a condition equates with a coordinate."""
    if not (isinstance(condition, CallTerm) and condition.op == "eq0") or axis.atom is None:
        return None
    poly = as_int(condition.args[0])
    sign = dict(poly.terms).get((axis.atom,), 0)
    rest = axis - poly * sign
    if sign not in (1, -1) or axis.atom in subterms(rest):
        return None
    return rest


def index_vector(place: Term | None, fold: Fold) -> TensorVar | None:
    """The vector of indices that is read at the iterations of a fold."""
    term = None if place is None else bare(place)
    at_iteration = (as_int(fold.axis),)
    return term.tensor if isinstance(term, Load) and term.indices == at_iteration else None


def read(term: Term) -> list[Load]:
    """The loads in a term, each tensor once."""
    loads = {s.tensor: s for s in subterms(term) if isinstance(s, Load)}
    return list(loads.values())
