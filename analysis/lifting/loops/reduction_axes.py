"""Fuse and split axes of reductions, by the divisions that this removes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from ...terms.integer import floordiv
from ...terms.order import nonneg
from ...terms.quotient import is_div
from ...terms.reduction_terms import reduce
from ...terms.term import CallTerm, Int, Load, Reduce, Term, Var, as_int, fresh, mul
from ...terms.traversal import free, substitute, subterms


def _index_ints(term: Term) -> list[Int]:
    """The integers in indices, guards and divisions."""
    out: list[Int] = []
    for subterm in subterms(term):
        if isinstance(subterm, Load):
            out.extend(subterm.indices)
        elif isinstance(subterm, CallTerm):
            out.extend(a for a in subterm.args if isinstance(a, Int))
    return out


def fuse_axes(reduction: Reduce) -> Term | None:
    """Fuse axes that only occur as ``a * E_b + b`` into one of extent ``E_a * E_b``."""
    ints = _index_ints(reduction.body)
    for a, b in permutations(reduction.axes, 2):
        assert a.extent is not None and b.extent is not None
        if not (is_count(a.extent) or is_count(b.extent)):
            continue  # two negative extents have no iteration, their product has some
        uses = [dict(p.terms) for p in ints if a in free(p) or b in free(p)]
        if not uses or not all(_is_fused(p, a, b) for p in uses):
            continue
        fused = fresh(mul(a.extent, b.extent), "r")
        body = _fused(reduction, a, b, fused)
        if _divisions(body, fused, b.extent) == 0:
            return _with_axis(reduction, a, b, fused, body)
    return None


def is_count(extent: Int) -> bool:
    """Return whether an extent is not negative: how often its loop runs."""
    least = extent.atom
    if isinstance(least, CallTerm) and least.op == "min":
        return all(nonneg(as_int(arg)) for arg in least.args)
    return nonneg(extent)


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
    if any(is_div(x) and {a, b} <= free(x) for m in terms for x in m):
        return True
    return bool(of_a or of_b or any(is_div(x) for m in terms for x in m)) and len(of_a) == len(of_b)


def _divisions(term: Term, var: Var, by: Int | None = None) -> int:
    """The divisions that a variable is in, or those of the variable alone by a number."""
    divided = [s for s in subterms(term) if is_div(s) and var in free(s)]
    if by is not None:
        alone = (s.args for s in divided if isinstance(s, CallTerm))
        return sum(args[0] is as_int(var) and args[1] is by for args in alone)
    return len(divided)


def split_axis(reduction: Reduce) -> Term | None:
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
