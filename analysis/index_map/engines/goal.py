"""Proof obligations of an index map, as formulas for any engine.

``forall variables: given and (v = t for v, t in lets) => claim``. A ``let`` variable has no domain
of its own. It keeps the two sides of a composition apart, so that an engine that judges ``g(f(x))``
does not depend on the simplifications of terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...terms.flat import volume
from ...terms.scalar import conj, eq0, ge0
from ...terms.term import ONE, TRUE, ZERO, Int, Term, Var, as_int, variable
from ...terms.traversal import free, ints, substitute
from ..maps.to_terms import Map


@dataclass(frozen=True)
class Goal:
    """One proof obligation; the domains of the variables in ``box`` are part of the claim."""

    name: str
    statement: str
    claim: Term
    given: Term = TRUE
    lets: tuple[tuple[Var, Int], ...] = ()

    @property
    def variables(self) -> tuple[Var, ...]:
        """Return the universally quantified variables, including those in extents."""
        bound = {v for v, _ in self.lets}
        seen: dict[Var, None] = {}
        stack = [self.claim, self.given, *(t for _, t in self.lets)]
        while stack:
            for v in sorted(free(stack.pop()) - bound, key=lambda v: v.uid):
                if v not in seen:
                    seen[v] = None
                    if v.extent is not None:
                        stack.append(v.extent)
        return tuple(seen)

    def closed(self) -> tuple[Term, Term]:
        """Return claim and premise with the ``let`` variables replaced by their values."""
        values = dict(self.lets)
        return substitute(self.claim, values), substitute(self.given, values)


def _bound(stem: str, values: Sequence[Int]) -> tuple[tuple[Var, Int], ...]:
    return tuple((variable("free", f"{stem}{k}"), t) for k, t in enumerate(values))


def _inside(values: Iterable[Int], extents: Iterable[Int]) -> Term:
    return conj(
        *(c for v, e in zip(values, extents, strict=True) for c in (ge0(v), ge0(e - 1 - v)))
    )


def left_inverse(m: Map, ys: tuple[Var, ...], g: Sequence[Int]) -> Goal:
    """Return ``g(f(x)) = x``: the map is injective and g is its inverse on the image."""
    lets = _bound("f", m.results)
    renamed = {y: as_int(v) for y, (v, _) in zip(ys, lets, strict=True)}
    claim = conj(*(eq0(ints(t, renamed) - m.coordinate(k)) for k, t in enumerate(g)))
    return Goal("left_inverse", "g(f(x)) = x", claim, m.predicate, lets)


def in_range(m: Map, out: Sequence[Int]) -> Goal:
    """Return ``0 <= f(x) < out``."""
    lets = _bound("f", m.results)
    claim = _inside((as_int(v) for v, _ in lets), out)
    return Goal("range", "0 <= f(x) < out_shape", claim, m.predicate, lets)


def same_volume(m: Map, out: Sequence[Int]) -> Goal:
    """Return that there are as many points as places: if injective and in range, f is onto."""
    return Goal("volume", "prod(shape) = prod(out_shape)", eq0(volume(m.extents) - volume(out)))


def right_inverse(m: Map, ys: tuple[Var, ...], g: Sequence[Int]) -> Goal:
    """Return ``f(g(y)) = y`` with ``g(y)`` in the domain: f is onto."""
    lets = _bound("g", g)
    inner = {a: as_int(v) for a, (v, _) in zip(m.axes, lets, strict=True)}
    claim = conj(
        _inside((as_int(v) for v, _ in lets), m.extents),
        substitute(m.predicate, inner),
        *(eq0(ints(r, inner) - place(y)) for r, y in zip(m.results, ys, strict=True)),
    )
    return Goal("right_inverse", "f(g(y)) = y and g(y) in the domain", claim, TRUE, lets)


def injective(m: Map) -> Goal:
    """Return ``f(x) = f(z) => x = z``, for maps without an inverse in closed form."""
    twins = tuple(variable("axis", f"z{k}", e) for k, e in enumerate(m.extents))
    inner = {a: as_int(z) for a, z in zip(m.axes, twins, strict=True)}
    same = (eq0(r - ints(r, inner)) for r in m.results)
    premise = conj(m.predicate, substitute(m.predicate, inner), *same)
    claim = conj(
        *(
            eq0(as_int(a) - as_int(z))
            for a, z, e in zip(m.axes, twins, m.extents, strict=True)
            if e.const != 1
        )
    )
    return Goal("injective", "f(x) = f(z) implies x = z", claim, premise)


def equal(f: Map, g: Sequence[Int], name: str = "equal") -> Goal:
    """Return ``f(x) = g(x)`` for results over the same axes."""
    lets = _bound("f", f.results)
    claim = conj(*(eq0(as_int(v) - t) for (v, _), t in zip(lets, g, strict=True)))
    return Goal(name, "f(x) = g(x)", claim, f.predicate, lets)


def place(y: Var) -> Int:
    """Return the value of an output coordinate: 0 where its extent is 1."""
    return ZERO if y.extent is ONE else as_int(y)
