"""Reroll unrolled loops.

    x[0] + x[1] + x[2]                 = Σ_{k<3} x[k]
    Σ_{k<3} x[k] + Σ_{k<3} x[k + 3]    = Σ_{h<2, k<3} x[3h + k]
    x[0] + Σ_{k<5} x[k + 1]            = Σ_{k<6} x[k]

Terms that differ only by literals in the indices of loads are one reduction if the differences fill
a box, in multiples of a few vectors. Each may be selected where its loads are inside their tensors.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..lifting.loops.reduction import canonical
from ..terms.condition_terms import conj, ge0, ite
from ..terms.reduction_terms import identity, reduce
from ..terms.term import (
    TRUE,
    CallTerm,
    Const,
    Int,
    Load,
    Reduce,
    TensorVar,
    Term,
    Var,
    as_int,
    fresh,
    integer,
    load,
)
from ..terms.traversal import map_loads, substitute, subterms, tensors
from .polynomial import Monomial, Poly, combine_all, plus, poly_of

Vector = tuple[int, ...]


def reroll_sum(poly: Poly, dtype: str) -> Poly:
    """Return a polynomial with its unrolled sums as reductions."""
    groups: dict[tuple[Term, Term | None, str], list[tuple[Vector, Monomial]]] = {}
    for mono, coef in poly.items():
        parts = _skeleton("add", combine_all("mul", mono, dtype)) if mono else None
        if parts is not None:
            key = (parts[0], parts[2], f"{coef:.13e}")
            groups.setdefault(key, []).append((parts[1], mono))
    out = dict(poly)
    for (skeleton, outside, _), members in groups.items():
        new = _loop("add", skeleton, [v for v, _ in members], dtype, outside)
        if new is None:
            continue
        coef = poly[members[0][1]]
        for _, mono in members:
            del out[mono]
        out = plus(out, poly_of(new, dtype), coef)
    return out


def reroll_operands(op: str, terms: Sequence[Term], dtype: str) -> list[Term]:
    """Return operands of a minimum or maximum, with unrolled ones as a reduction."""
    groups: dict[tuple[Term, Term | None], list[tuple[Vector, Term]]] = {}
    for term in terms:
        parts = _skeleton(op, term)
        if parts is not None:
            groups.setdefault((parts[0], parts[2]), []).append((parts[1], term))
    out = list(terms)
    for (skeleton, outside), members in groups.items():
        new = _loop(op, skeleton, [v for v, _ in members], dtype, outside)
        if new is not None:
            out = [t for t in out if all(t is not m for _, m in members)] + [new]
    return out


def _skeleton(op: str, term: Term) -> tuple[Term, Vector, Term | None] | None:
    """The term without the literals in its loads' indices, if each tensor has one load.

    A selection of what is inside its tensors, and a literal outside, is taken without its
    condition; the last value is the literal, which is to be put back with it. What is always inside
    is a selection with the identity of the operation.
    """
    choice = isinstance(term, CallTerm) and term.op == "ite" and isinstance(term.args[2], Const)
    guard, value = (term.args[0], term.args[1]) if choice else (TRUE, term)  # type: ignore[attr-defined]
    outside: Term | None = None
    if guard is _inside(value):
        outside = term.args[2] if choice else identity(op, term.dtype)  # type: ignore[attr-defined]
        term = value
    loads = [s for s in subterms(term) if isinstance(s, Load)]
    if not loads or len({x.tensor for x in loads}) < len(loads):
        return None
    loads.sort(key=lambda x: x.tensor.position)
    shift = {x.tensor: tuple(_literal(i) for i in x.indices) for x in loads}

    def read(tensor: TensorVar, index: tuple[Int, ...]) -> Term:
        moved = zip(index, shift[tensor], strict=True)
        return load(tensor, tuple(i - k for i, k in moved))

    vector = tuple(k for x in loads for k in shift[x.tensor])
    return map_loads(term, tensors(term), read), vector, outside


def _inside(term: Term) -> Term:
    """Whether all its loads are inside their tensors."""
    loads = [s for s in subterms(term) if isinstance(s, Load)]
    pairs = [p for x in loads for p in zip(x.indices, x.tensor.shape, strict=True)]
    return conj(*(c for i, e in pairs for c in (ge0(i), ge0(e - 1 - i))))


def _literal(poly: Int) -> int:
    return next((c for m, c in poly.terms if not m), 0)


def _loop(
    op: str, skeleton: Term, vectors: Sequence[Vector], dtype: str, outside: Term | None
) -> Term | None:
    """``⊕`` of the skeleton at all vectors, as a reduction over axes."""
    base = min(vectors)
    steps = _grid({tuple(a - b for a, b in zip(v, base, strict=True)) for v in vectors})
    if steps is None or len(vectors) != len(set(vectors)) or len(vectors) < 2:
        return None
    axes = [(fresh(integer(n), "r"), step) for n, step in steps]
    loads = sorted(
        (s for s in subterms(skeleton) if isinstance(s, Load)), key=lambda x: x.tensor.position
    )
    starts, place = {}, 0
    for access in loads:
        starts[access.tensor] = place
        place += len(access.indices)

    def read(tensor: TensorVar, index: tuple[Int, ...]) -> Term:
        moved = []
        for d, poly in enumerate(index, starts[tensor]):
            moved.append(poly + base[d] + sum((as_int(a) * s[d] for a, s in axes), integer(0)))
        return load(tensor, tuple(moved))

    body = map_loads(skeleton, tensors(skeleton), read)
    unit = identity(op, dtype)
    assert unit is not None
    if outside is not None:
        body = ite(_inside(body), body, outside)
    return canonical(forward(reduce(op, tuple(a for a, _ in axes), body, unit, dtype)))


def _grid(points: set[Vector]) -> list[tuple[int, Vector]] | None:
    """Steps and counts that generate the points, each once; None if the points are not a box."""
    steps: list[tuple[int, Vector]] = []
    while len(points) > 1:
        zero = min(points)
        step = min(point for point in points if point > zero)
        count = 1
        while tuple(z + count * s for z, s in zip(zero, step, strict=True)) in points:
            count += 1
        starts = {
            point
            for point in points
            if tuple(a - s for a, s in zip(point, step, strict=True)) not in points
        }
        box = {
            tuple(a + k * s for a, s in zip(point, step, strict=True))
            for point in starts
            for k in range(count)
        }
        if box != points or len(starts) * count != len(points):
            return None
        steps.append((count, step))
        points = starts
    return steps


def forward(term: Term) -> Term:
    """Return a reduction whose axes count upwards in the indices of loads."""
    if not isinstance(term, Reduce):
        return term
    indices = [i for s in subterms(term.body) if isinstance(s, Load) for i in s.indices]
    back = {}
    for var in term.axes:
        signs = {c < 0 for i in indices for m, c in i.terms if var in m}
        if signs == {True} and var.extent is not None:
            back[var] = var.extent - 1 - as_int(var)
    body = substitute(term.body, back) if back else term.body
    return reduce(term.op, term.axes, body, term.init, term.dtype) if back else term


def prolong(reduction: Reduce) -> Reduce:
    """Return a reduction whose initial value, if it is the body at -1, is one more iteration."""
    if len(reduction.axes) != 1 or not tensors(reduction.init):
        return reduction
    (var,) = reduction.axes
    if substitute(reduction.body, {var: integer(-1)}) is not reduction.init or var.extent is None:
        return reduction
    longer: Var = fresh(var.extent + 1, "r")
    body = substitute(reduction.body, {var: as_int(longer) - 1})
    unit = identity(reduction.op, reduction.dtype)
    assert unit is not None
    result = reduce(reduction.op, (longer,), body, unit, reduction.dtype)
    return result if isinstance(result, Reduce) else reduction
