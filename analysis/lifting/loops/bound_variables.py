"""Names of the variables that reductions and folds bind: equal for terms equal but for them."""

from __future__ import annotations

from ...terms.term import (
    Fold,
    Int,
    Load,
    Reduce,
    Term,
    Var,
    as_int,
    fold,
    raw_call,
    raw_reduce,
    variable,
)
from ...terms.traversal import free, rebuild, replace, substitute, subterms


def reduces(term: Term) -> bool:
    """Return whether a term contains a reduction or a fold."""
    result = term.memo.get("reduces")
    if result is None:
        result = term.memo["reduces"] = isinstance(term, (Reduce, Fold)) or any(
            map(reduces, term.children)
        )
    return result


def rename_bound(term: Term) -> Term:
    """Rename bound variables by height: inner reductions get lower numbers."""
    memo: dict[Term, tuple[Term, int]] = {}

    def go(term: Term) -> tuple[Term, int]:
        if not reduces(term):
            return term, 0
        result = memo.get(term)
        if result is None:
            heights = [0]

            def child(term: Term) -> Term:
                new, height = go(term)
                heights.append(height)
                return new

            new = rebuild(term, child)
            height = max(heights)
            atom = new.atom if isinstance(new, Int) else new
            if isinstance(term, Reduce) and isinstance(atom, Reduce):
                new, height = _renamed(atom, height), height + 1
            elif isinstance(term, Fold) and isinstance(atom, Fold):
                new, height = _renamed_fold(atom, height), height + 1
            result = memo[term] = new, height
        return result

    return go(term)[0]


def _renamed(reduction: Reduce, height: int) -> Term:
    names = {}
    axes = []
    for position, var in enumerate(_ordered(reduction)):
        new = variable("reduce", f"r{height}_{position}", var.extent)
        names[var] = as_int(new)
        axes.append(new)
    body = substitute(reduction.body, names)
    out = raw_reduce(reduction.op, tuple(axes), body, reduction.init, reduction.dtype)
    return as_int(out) if isinstance(body, Int) else out


def _renamed_fold(loop: Fold, height: int) -> Term:
    axis = variable("reduce", f"r{height}_0", loop.axis.extent)
    states = tuple(raw_call(f"state{height}_{k}", (), s.dtype) for k, s in enumerate(loop.states))
    names = dict(zip(loop.states, states, strict=True))
    mapping = {loop.axis: as_int(axis)}
    updates = tuple(replace(substitute(u, mapping), names) for u in loop.updates)
    return fold(axis, states, loop.inits, updates)


def _ordered(reduction: Reduce) -> list[Var]:
    """Axes in the order of their first use in an access; ties keep their order."""
    place: dict[Var, tuple[int, ...]] = {}
    loads = sorted(
        (s for s in subterms(reduction.body) if isinstance(s, Load)),
        key=lambda load: load.tensor.position,
    )
    for n, load in enumerate(loads):
        for d, poly in enumerate(load.indices):
            for var in free(poly):
                place.setdefault(var, (n, d))
    return sorted(reduction.axes, key=lambda var: place.get(var, (len(loads), 0)))
