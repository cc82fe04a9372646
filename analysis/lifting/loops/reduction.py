"""A normal form for reductions, independent of the loops they came from.

- an axis of extent 1 or pinned by the guard is dropped; a guard on one axis shrinks its extent;
- axes that only occur as one mixed-radix number are fused; an axis that only occurs through its
  digits is split;
- a sum of one integer is a count;
- axes are renamed by nesting height and order, so alpha-equal terms are the same object.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from ...terms.condition_terms import conj, ite, parts
from ...terms.integer import floordiv
from ...terms.order import nonneg
from ...terms.quotient import is_div
from ...terms.reduction_terms import identity, reduce, split_guard
from ...terms.term import (
    ONE,
    ZERO,
    CallTerm,
    Fold,
    Int,
    Load,
    Reduce,
    Term,
    Var,
    as_int,
    fold,
    fresh,
    mul,
    raw_call,
    raw_reduce,
    variable,
)
from ...terms.traversal import free, rebuild, replace, substitute, subterms
from .counting_loops import closed_form
from .fold_window import windowed
from .prefix import drop_choice, unpeel


def canonical(term: Term) -> Term:
    """Return the term with all its reductions in normal form."""
    memo: dict[Term, Term] = {}
    if not reduces(term):
        return term

    def go(term: Term) -> Term:
        if not reduces(term):
            return term
        result = memo.get(term)
        if result is None:
            merged = drop_choice(term) if isinstance(term, CallTerm) and term.op == "ite" else None
            result = rebuild(term, go) if merged is None else go(merged)
            atom = result.atom if isinstance(result, Int) else result
            if isinstance(term, Reduce) and isinstance(atom, Reduce):
                result = normal(atom)
            elif isinstance(atom, Fold) and (shorter := windowed(atom)) is not None:
                result = as_int(shorter) if isinstance(result, Int) else shorter
            memo[term] = result
        return result

    return _rename(go(term))


def reduces(term: Term) -> bool:
    """Return whether a term contains a reduction or a fold."""
    result = term.memo.get("reduces")
    if result is None:
        result = term.memo["reduces"] = isinstance(term, (Reduce, Fold)) or any(
            map(reduces, term.children)
        )
    return result


def normal(reduction: Reduce) -> Term:
    """Return a reduction in normal form; its children already are."""
    for _ in range(16):  # bounded, in case two rules undo each other
        new = (
            closed_form(reduction)
            or _unit(reduction)
            or unpeel(reduction)
            or _shrink(reduction)
            or _fuse(reduction)
            or _split(reduction)
        )
        if new is None:
            return as_int(reduction) if isinstance(reduction.body, Int) else reduction
        atom = new.atom if isinstance(new, Int) else new
        if not isinstance(atom, Reduce):
            return new
        reduction = atom
    return as_int(reduction) if isinstance(reduction.body, Int) else reduction


def _unit(reduction: Reduce) -> Term | None:
    axes = tuple(a for a in reduction.axes if a.extent is not ONE)
    if len(axes) == len(reduction.axes):
        return None
    body = substitute(reduction.body, {a: ZERO for a in reduction.axes if a.extent is ONE})
    return reduce(reduction.op, axes, body, reduction.init, reduction.dtype)


def _shrink(reduction: Reduce) -> Term | None:
    """Turn ``a >= lo`` and ``a <= hi`` in the guard into the axis' domain."""
    unit = identity(reduction.op, reduction.dtype)
    if unit is None:
        return None
    guard, body = split_guard(reduction.body, unit)
    for term in parts(guard):
        if not (isinstance(term, CallTerm) and term.op == "ge0"):
            continue
        poly = as_int(term.args[0])
        bounded = [a for a in reduction.axes if a in free(poly)]
        if len(bounded) != 1 or len(free(poly) - {bounded[0]} - _sizes(poly)):
            continue
        var = bounded[0]
        coef = dict(poly.terms).get((var,))
        offset = poly - as_int(var) * (coef or 0)
        if coef not in (1, -1) or var in free(offset) or var.extent is None:
            continue
        others = conj(*(o for o in parts(guard) if o is not term))
        extent = offset + 1 if coef == -1 else var.extent + offset
        if not nonneg(extent - 1) or not nonneg(var.extent - extent):
            continue
        new = fresh(extent, "r")
        value = as_int(new) if coef == -1 else as_int(new) - offset
        full = substitute(ite(others, body, unit), {var: value})
        return reduce(
            reduction.op,
            tuple(new if x is var else x for x in reduction.axes),
            full,
            reduction.init,
            reduction.dtype,
        )
    return None


def _sizes(poly: Int) -> frozenset[Var]:
    return frozenset(v for v in free(poly) if v.kind == "size")


def _index_ints(term: Term) -> list[Int]:
    """The integers in indices, guards and divisions."""
    out: list[Int] = []
    for subterm in subterms(term):
        if isinstance(subterm, Load):
            out.extend(subterm.indices)
        elif isinstance(subterm, CallTerm):
            out.extend(a for a in subterm.args if isinstance(a, Int))
    return out


def _fuse(reduction: Reduce) -> Term | None:
    """Fuse axes that only occur as ``a * E_b + b`` into one of extent ``E_a * E_b``."""
    ints = _index_ints(reduction.body)
    for a, b in permutations(reduction.axes, 2):
        assert a.extent is not None and b.extent is not None
        uses = [dict(p.terms) for p in ints if a in free(p) or b in free(p)]
        if not uses or not all(_is_fused(p, a, b) for p in uses):
            continue
        fused = fresh(mul(a.extent, b.extent), "r")
        body = _fused(reduction, a, b, fused)
        if _divisions(body, fused) == 0:
            return _with_axis(reduction, a, b, fused, body)
    return None


def _fused(reduction: Reduce, a: Var, b: Var, fused: Var) -> Term:
    """The body with two axes as the digits of one."""
    assert b.extent is not None
    high = floordiv(as_int(fused), b.extent)
    return substitute(reduction.body, {a: high, b: as_int(fused) - mul(high, b.extent)})


def _with_axis(reduction: Reduce, a: Var, b: Var, fused: Var, body: Term) -> Term:
    axes = tuple(fused if x is a else x for x in reduction.axes if x is not b)
    return reduce(reduction.op, axes, body, reduction.init, reduction.dtype)


def with_fused_axes(reduction: Reduce) -> Iterator[Term]:
    """Yield the reduction with two axes as one, where an element is read at ``a * E_b + b``.

    The normal form keeps them apart if the fused axis is divided, as that of a group of values is.
    """
    places = {i for s in subterms(reduction.body) if isinstance(s, Load) for i in s.indices}
    for a, b in permutations(reduction.axes, 2):
        if a.extent is not None and b.extent is not None and b.extent.const is not None:
            if mul(as_int(a), b.extent) + as_int(b) in places:
                fused = fresh(mul(a.extent, b.extent), "r")
                body = _fused(reduction, a, b, fused)
                yield _with_axis(reduction, a, b, fused, body)


def _is_fused(terms: dict[tuple[Term, ...], int], a: Var, b: Var) -> bool:
    """Whether linear occurrences of a come with as many of b."""
    of_a = [(m, c) for m, c in terms.items() if a in m]
    of_b = [(m, c) for m, c in terms.items() if b in m]
    return bool(of_a or of_b or any(is_div(x) for m in terms for x in m)) and len(of_a) == len(of_b)


def _divisions(term: Term, var: Var) -> int:
    return sum(1 for s in subterms(term) if is_div(s) and var in free(s))


def _split(reduction: Reduce) -> Term | None:
    """Split an axis that only occurs through ``a // c`` and ``a % c`` into two."""
    for var in reduction.axes:
        dens = {
            term.args[1]
            for term in subterms(reduction.body)
            if isinstance(term, CallTerm) and is_div(term) and term.args[0] is as_int(var)
        }
        for den in sorted((d for d in dens if isinstance(d, Int)), key=lambda poly: poly.uid):
            assert var.extent is not None
            high_extent = floordiv(var.extent, den)
            if mul(high_extent, den) is not var.extent:
                continue
            high, low = fresh(high_extent, "r"), fresh(den, "r")
            value = mul(as_int(high), den) + as_int(low)
            body = substitute(reduction.body, {var: value})
            if _divisions(body, high) + _divisions(body, low) < _divisions(reduction.body, var):
                axes = tuple(y for x in reduction.axes for y in ((high, low) if x is var else (x,)))
                return reduce(reduction.op, axes, body, reduction.init, reduction.dtype)
    return None


def _rename(term: Term) -> Term:
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
