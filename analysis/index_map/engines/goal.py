"""Proof obligations of an index map, as formulas for any engine.

``forall variables: premise and (v = t for v, t in lets) => claim``. A ``let`` variable has no
domain of its own. It keeps the two sides of a composition apart, so that an engine that judges
``g(f(x))`` does not depend on the simplifications of terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...terms.condition_terms import conj, eq0, ge0
from ...terms.row_major import volume
from ...terms.term import ONE, TRUE, ZERO, Int, Term, Var, as_int, variable
from ...terms.traversal import free, ints, substitute
from ..maps.to_terms import Map


@dataclass(frozen=True)
class Goal:
    """One proof obligation; it must hold everywhere in the domains of its variables."""

    name: str
    statement: str
    claim: Term
    premise: Term = TRUE
    lets: tuple[tuple[Var, Int], ...] = ()

    @property
    def variables(self) -> tuple[Var, ...]:
        """Return the universally quantified variables, including those in extents."""
        bound = {v for v, _ in self.lets}
        seen: dict[Var, None] = {}
        stack = [self.claim, self.premise, *(t for _, t in self.lets)]
        while stack:
            for var in sorted(free(stack.pop()) - bound, key=lambda var: var.uid):
                if var not in seen:
                    seen[var] = None
                    if var.extent is not None:
                        stack.append(var.extent)
        return tuple(seen)

    def closed(self) -> tuple[Term, Term]:
        """Return claim and premise with the ``let`` variables replaced by their values."""
        values = dict(self.lets)
        return substitute(self.claim, values), substitute(self.premise, values)


def _lets(stem: str, values: Sequence[Int]) -> tuple[tuple[Var, Int], ...]:
    return tuple((variable("free", f"{stem}{k}"), t) for k, t in enumerate(values))


def _inside(values: Iterable[Int], extents: Iterable[Int]) -> Term:
    return conj(
        *(c for v, e in zip(values, extents, strict=True) for c in (ge0(v), ge0(e - 1 - v)))
    )


def left_inverse(index_map: Map, ys: tuple[Var, ...], inverse: Sequence[Int]) -> Goal:
    """Return ``g(f(x)) = x``: the map is injective and g is its inverse on the image."""
    lets = _lets("f", index_map.results)
    renamed = {y: as_int(v) for y, (v, _) in zip(ys, lets, strict=True)}
    claim = conj(*(eq0(ints(t, renamed) - index_map.coordinate(k)) for k, t in enumerate(inverse)))
    return Goal("left_inverse", "g(f(x)) = x", claim, index_map.predicate, lets)


def in_range(index_map: Map, out: Sequence[Int]) -> Goal:
    """Return ``0 <= f(x) < out``."""
    lets = _lets("f", index_map.results)
    claim = _inside((as_int(v) for v, _ in lets), out)
    return Goal("range", "0 <= f(x) < out_shape", claim, index_map.predicate, lets)


def same_volume(index_map: Map, out: Sequence[Int]) -> Goal:
    """Return that there are as many points as places: if injective and in range, f is onto."""
    return Goal(
        "volume", "prod(shape) = prod(out_shape)", eq0(volume(index_map.extents) - volume(out))
    )


def right_inverse(index_map: Map, ys: tuple[Var, ...], inverse: Sequence[Int]) -> Goal:
    """Return ``f(g(y)) = y`` with ``g(y)`` in the domain: f is onto."""
    lets = _lets("g", inverse)
    inner = {a: as_int(v) for a, (v, _) in zip(index_map.axes, lets, strict=True)}
    claim = conj(
        _inside((as_int(v) for v, _ in lets), index_map.extents),
        substitute(index_map.predicate, inner),
        *(eq0(ints(r, inner) - place(y)) for r, y in zip(index_map.results, ys, strict=True)),
    )
    return Goal("right_inverse", "f(g(y)) = y and g(y) in the domain", claim, TRUE, lets)


def injective(index_map: Map) -> Goal:
    """Return ``f(x) = f(z) => x = z``, for maps without an inverse in closed form."""
    twins = tuple(variable("axis", f"z{k}", e) for k, e in enumerate(index_map.extents))
    inner = {axis: as_int(twin) for axis, twin in zip(index_map.axes, twins, strict=True)}
    same = (eq0(r - ints(r, inner)) for r in index_map.results)
    premise = conj(index_map.predicate, substitute(index_map.predicate, inner), *same)
    claim = conj(
        *(
            eq0(as_int(axis) - as_int(twin))
            for axis, twin, poly in zip(index_map.axes, twins, index_map.extents, strict=True)
            if poly.const != 1
        )
    )
    return Goal("injective", "f(x) = f(z) implies x = z", claim, premise)


def place(var: Var) -> Int:
    """Return the value of an output coordinate: 0 where its extent is 1."""
    return ZERO if var.extent is ONE else as_int(var)
