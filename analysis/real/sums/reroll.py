"""Reroll unrolled loops.

    x[0] + x[1] + x[2]                 = Σ_{k<3} x[k]
    Σ_{k<3} x[k] + Σ_{k<3} x[k + 3]    = Σ_{h<2, k<3} x[3h + k]
    x[0] + Σ_{k<5} x[k + 1]            = Σ_{k<6} x[k]

Terms that differ only by literals in the indices of loads are one reduction if the differences fill
a box, in multiples of a few vectors. Each may be selected where its loads are inside their tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...lifting.loops.bound_variables import reduces
from ...lifting.loops.reduction import canonical
from ...terms.condition_terms import ite
from ...terms.reduction_terms import identity, reduce
from ...terms.term import (
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
from ...terms.traversal import substitute, subterms, tensors
from .adjacent import join_adjacent
from .polynomial import Monomial, Poly, combine_all, ordered, plus, poly_of
from .skeleton import Vector, inside_tensors, open_loads, skeleton_of, with_loads

#: Terms of a sum that is rerolled before it is multiplied.
_LONG = 4


def reroll_sum(poly: Poly, dtype: str) -> Poly:
    """Return a polynomial with its unrolled sums as reductions."""
    poly = _rerolled(poly, dtype, closed=False)
    if not any(reduces(x) for mono in poly for x in mono):
        return poly
    return _joined_sums(_rerolled(poly, dtype, closed=True), dtype)


def _rerolled(poly: Poly, dtype: str, closed: bool) -> Poly:
    """The polynomial with its unrolled sums as reductions.

    With ``closed``, sums that are one number for all terms of another one are not moved.
    """
    groups: dict[tuple[Term, Term | None, Monomial, str], list[tuple[Vector, Monomial]]] = {}
    for mono, coef in poly.items():
        others = _closed_factors(mono) if closed else ()
        inside = [x for x in mono if all(x is not y for y in others)]
        parts = skeleton_of("add", combine_all("mul", inside, dtype), closed) if inside else None
        if parts is not None:
            key = (parts[0], parts[2], others, f"{coef:.13e}")
            groups.setdefault(key, []).append((parts[1], mono))
    out = dict(poly)
    for (skeleton, outside, others, _), members in groups.items():
        new = _loop("add", skeleton, [v for v, _ in members], dtype, outside, closed)
        if new is None:
            continue
        coef = poly[members[0][1]]
        for _, mono in members:
            del out[mono]
        out = plus(out, _scaled(poly_of(new, dtype), others), coef)
    return out


def _closed_factors(mono: Monomial) -> Monomial:
    """The sums among several factors."""
    return tuple(x for x in mono if isinstance(x, Reduce)) if len(mono) > 1 else ()


def _scaled(poly: Poly, factors: Monomial) -> Poly:
    return {ordered((*factors, *m)): c for m, c in poly.items()} if factors else poly


def rerolled_factor(poly: Poly, dtype: str) -> Poly:
    """Return a polynomial that is to be multiplied, with its long unrolled sums as reductions.

    Short sums stay: the products of their terms may cancel, as those of Winograd's transforms do.
    """
    sums = sum(any(isinstance(x, Reduce) for x in m) for m in poly)
    loads = {x for m in poly for x in m if isinstance(x, Load)}
    return reroll_sum(poly, dtype) if sums > 1 or len(loads) >= _LONG else poly


def _joined_sums(poly: Poly, dtype: str) -> Poly:
    """The polynomial with reductions of one coefficient and one rest joined where they touch."""
    while (shorter := _with_one_joined(poly, dtype)) is not None:
        poly = shorter
    return poly


def _with_one_joined(poly: Poly, dtype: str) -> Poly | None:
    groups: dict[tuple[Monomial, str], list[tuple[Monomial, Term]]] = {}
    for mono, coef in poly.items():
        for whole, others in _parts(mono, dtype):
            groups.setdefault((others, f"{coef:.13e}"), []).append((mono, whole))
    for (others, _), members in groups.items():
        if len(members) < 2 or not any(isinstance(x, Reduce) for _, x in members):
            continue
        joined = join_adjacent("add", [x for _, x in members], _same)
        if len(joined) < len(members):
            gone = {m for m, _ in members}
            out = {m: c for m, c in poly.items() if m not in gone}
            for term in joined:
                out = plus(out, _scaled(poly_of(term, dtype), others), poly[members[0][0]])
            return out
    return None


def _parts(mono: Monomial, dtype: str) -> Iterator[tuple[Term, Monomial]]:
    """Each sum of a monomial and its other factors; the whole where it has none."""
    sums = dict.fromkeys(x for x in mono if isinstance(x, Reduce) and x.op == "add")
    for x in sums:
        rest = list(mono)
        rest.remove(x)
        yield x, tuple(rest)
    if not sums:
        yield combine_all("mul", mono, dtype), ()


def _same(a: Term, b: Term) -> bool:
    """Whether two terms are equal but for the order of factors."""
    if isinstance(a, Reduce) and isinstance(b, Reduce):
        if (a.op, a.axes, a.init, a.dtype) == (b.op, b.axes, b.init, b.dtype):
            a, b = a.body, b.body
    return a is b or (a.dtype == b.dtype and poly_of(a, a.dtype) == poly_of(b, b.dtype))


def reroll_product(mono: Monomial, dtype: str) -> Monomial:
    """Return factors with products over parts of a range as one."""
    if sum(isinstance(x, Reduce) and x.op == "mul" for x in mono) < 2:
        return mono
    return ordered(reroll_operands("mul", mono, dtype))


def reroll_operands(op: str, terms: Sequence[Term], dtype: str) -> list[Term]:
    """Return operands of a minimum or maximum, with unrolled ones as a reduction."""
    groups: dict[tuple[Term, Term | None], list[tuple[Vector, Term]]] = {}
    for term in terms:
        parts = skeleton_of(op, term)
        if parts is not None:
            groups.setdefault((parts[0], parts[2]), []).append((parts[1], term))
    out = list(terms)
    for (skeleton, outside), members in groups.items():
        new = _loop(op, skeleton, [v for v, _ in members], dtype, outside)
        if new is not None:
            out = [t for t in out if all(t is not m for _, m in members)] + [new]
    return join_adjacent(op, out, _same)


def _loop(
    op: str,
    skeleton: Term,
    vectors: Sequence[Vector],
    dtype: str,
    outside: Term | None,
    closed: bool = False,
) -> Term | None:
    """``⊕`` of the skeleton at all vectors, as a reduction over axes."""
    base = min(vectors)
    steps = _grid({tuple(a - b for a, b in zip(v, base, strict=True)) for v in vectors})
    if steps is None or len(vectors) != len(set(vectors)) or len(vectors) < 2:
        return None
    axes = [(fresh(integer(n), "r"), step) for n, step in steps]
    starts, place = {}, 0
    for access in open_loads(skeleton, closed):
        starts[access.tensor] = place
        place += len(access.indices)

    def read(tensor: TensorVar, index: tuple[Int, ...]) -> Term:
        moved = []
        for d, poly in enumerate(index, starts[tensor]):
            moved.append(poly + base[d] + sum((as_int(a) * s[d] for a, s in axes), integer(0)))
        return load(tensor, tuple(moved))

    body = with_loads(skeleton, read, closed)
    unit = identity(op, dtype)
    assert unit is not None
    if outside is not None:
        body = ite(inside_tensors(body), body, outside)
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
