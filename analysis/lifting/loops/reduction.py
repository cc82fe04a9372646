"""A normal form for reductions, independent of the loops they came from.

- an axis of extent 1 or pinned by the guard is dropped; a guard on one axis shrinks its extent;
- axes that only occur as one mixed-radix number are fused; an axis that only occurs through its
  digits is split;
- a sum of one integer is a count;
- axes are renamed by nesting height and order, so alpha-equal terms are the same object.
"""

from __future__ import annotations

from itertools import permutations

from ...terms.integer import floordiv
from ...terms.order import nonneg
from ...terms.quotient import is_div
from ...terms.scalar import conj, identity, ite, parts, reduce, split_guard
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
from .prefix import drop_choice, unpeel


def canonical(t: Term) -> Term:
    """Return the term with all its reductions in normal form."""
    memo: dict[Term, Term] = {}
    if not reduces(t):
        return t

    def go(s: Term) -> Term:
        if not reduces(s):
            return s
        result = memo.get(s)
        if result is None:
            merged = drop_choice(s) if isinstance(s, CallTerm) and s.op == "ite" else None
            result = rebuild(s, go) if merged is None else go(merged)
            atom = result.atom if isinstance(result, Int) else result
            if isinstance(s, Reduce) and isinstance(atom, Reduce):
                result = normal(atom)
            memo[s] = result
        return result

    return _rename(go(t))


def reduces(t: Term) -> bool:
    """Return whether a term contains a reduction or a fold."""
    result = t.memo.get("reduces")
    if result is None:
        result = t.memo["reduces"] = isinstance(t, (Reduce, Fold)) or any(map(reduces, t.children))
    return result


def normal(r: Reduce) -> Term:
    """Return a reduction in normal form; its children already are."""
    for _ in range(16):
        new = closed_form(r) or _unit(r) or unpeel(r) or _shrink(r) or _fuse(r) or _split(r)
        if new is None:
            return as_int(r) if isinstance(r.body, Int) else r
        atom = new.atom if isinstance(new, Int) else new
        if not isinstance(atom, Reduce):
            return new
        r = atom
    return as_int(r) if isinstance(r.body, Int) else r


def _unit(r: Reduce) -> Term | None:
    axes = tuple(a for a in r.axes if a.extent is not ONE)
    if len(axes) == len(r.axes):
        return None
    body = substitute(r.body, {a: ZERO for a in r.axes if a.extent is ONE})
    return reduce(r.op, axes, body, r.init, r.dtype)


def _shrink(r: Reduce) -> Term | None:
    """Turn ``a >= lo`` and ``a <= hi`` in the guard into the axis' domain."""
    unit = identity(r.op, r.dtype)
    if unit is None:
        return None
    guard, body = split_guard(r.body, unit)
    for c in parts(guard):
        if not (isinstance(c, CallTerm) and c.op == "ge0"):
            continue
        p = as_int(c.args[0])
        bounded = [a for a in r.axes if a in free(p)]
        if len(bounded) != 1 or len(free(p) - {bounded[0]} - _sizes(p)):
            continue
        a = bounded[0]
        coef = dict(p.terms).get((a,))
        rest = p - as_int(a) * (coef or 0)
        if coef not in (1, -1) or a in free(rest) or a.extent is None:
            continue
        others = conj(*(o for o in parts(guard) if o is not c))
        extent = rest + 1 if coef == -1 else a.extent + rest
        if not nonneg(extent - 1) or not nonneg(a.extent - extent):
            continue
        new = fresh(extent, "r")
        value = as_int(new) if coef == -1 else as_int(new) - rest
        full = substitute(ite(others, body, unit), {a: value})
        return reduce(r.op, tuple(new if x is a else x for x in r.axes), full, r.init, r.dtype)
    return None


def _sizes(p: Int) -> frozenset[Var]:
    return frozenset(v for v in free(p) if v.kind == "size")


def _index_ints(t: Term) -> list[Int]:
    """Integers of which indices, guards and divisions consist."""
    out: list[Int] = []
    for s in subterms(t):
        if isinstance(s, Load):
            out.extend(s.indices)
        elif isinstance(s, CallTerm):
            out.extend(a for a in s.args if isinstance(a, Int))
    return out


def _fuse(r: Reduce) -> Term | None:
    """Fuse axes that only occur as ``a * E_b + b`` into one of extent ``E_a * E_b``."""
    ints = _index_ints(r.body)
    for a, b in permutations(r.axes, 2):
        assert a.extent is not None and b.extent is not None
        uses = [dict(p.terms) for p in ints if a in free(p) or b in free(p)]
        if not uses or not all(_is_fused(p, a, b, b.extent) for p in uses):
            continue
        f = fresh(mul(a.extent, b.extent), "r")
        high = floordiv(as_int(f), b.extent)
        low = as_int(f) - mul(high, b.extent)
        body = substitute(r.body, {a: high, b: low})
        if _divisions(body, f) == 0:
            axes = tuple(f if x is a else x for x in r.axes if x is not b)
            return reduce(r.op, axes, body, r.init, r.dtype)
    return None


def _is_fused(p: dict[tuple[Term, ...], int], a: Var, b: Var, extent: Int) -> bool:
    """Whether each linear occurrence of a comes with one of b, and ``extent`` times its factor."""
    of_a = [(m, c) for m, c in p.items() if a in m]
    of_b = [(m, c) for m, c in p.items() if b in m]
    return bool(of_a or of_b or any(is_div(x) for m in p for x in m)) and len(of_a) == len(of_b)


def _divisions(t: Term, v: Var) -> int:
    return sum(1 for s in subterms(t) if is_div(s) and v in free(s))


def _split(r: Reduce) -> Term | None:
    """Split an axis that only occurs through ``a // c`` and ``a % c`` into two."""
    for a in r.axes:
        dens = {
            s.args[1]
            for s in subterms(r.body)
            if isinstance(s, CallTerm) and is_div(s) and s.args[0] is as_int(a)
        }
        for den in sorted((d for d in dens if isinstance(d, Int)), key=lambda d: d.uid):
            assert a.extent is not None
            high_extent = floordiv(a.extent, den)
            if mul(high_extent, den) is not a.extent:
                continue
            high, low = fresh(high_extent, "r"), fresh(den, "r")
            value = mul(as_int(high), den) + as_int(low)
            body = substitute(r.body, {a: value})
            if _divisions(body, high) + _divisions(body, low) < _divisions(r.body, a):
                axes = tuple(y for x in r.axes for y in ((high, low) if x is a else (x,)))
                return reduce(r.op, axes, body, r.init, r.dtype)
    return None


def _rename(t: Term) -> Term:
    """Rename bound variables by height: inner reductions get lower numbers."""
    memo: dict[Term, tuple[Term, int]] = {}

    def go(s: Term) -> tuple[Term, int]:
        if not reduces(s):
            return s, 0
        result = memo.get(s)
        if result is None:
            heights = [0]

            def child(c: Term) -> Term:
                new, h = go(c)
                heights.append(h)
                return new

            new = rebuild(s, child)
            height = max(heights)
            atom = new.atom if isinstance(new, Int) else new
            if isinstance(s, Reduce) and isinstance(atom, Reduce):
                new, height = _named(atom, height), height + 1
            elif isinstance(s, Fold) and isinstance(atom, Fold):
                new, height = _named_fold(atom, height), height + 1
            result = memo[s] = new, height
        return result

    return go(t)[0]


def _named(r: Reduce, height: int) -> Term:
    names = {}
    axes = []
    for position, a in enumerate(_ordered(r)):
        new = variable("reduce", f"r{height}_{position}", a.extent)
        names[a] = as_int(new)
        axes.append(new)
    body = substitute(r.body, names)
    out = raw_reduce(r.op, tuple(axes), body, r.init, r.dtype)
    return as_int(out) if isinstance(body, Int) else out


def _named_fold(f: Fold, height: int) -> Term:
    axis = variable("reduce", f"r{height}_0", f.axis.extent)
    states = tuple(raw_call(f"state{height}_{k}", (), s.dtype) for k, s in enumerate(f.states))
    names = dict(zip(f.states, states, strict=True))
    at = {f.axis: as_int(axis)}
    updates = tuple(replace(substitute(u, at), names) for u in f.updates)
    return fold(axis, states, f.inits, updates)


def _ordered(r: Reduce) -> list[Var]:
    """Axes in the order of their first use in an access; ties keep their order."""
    place: dict[Var, tuple[int, ...]] = {}
    loads = sorted(
        (s for s in subterms(r.body) if isinstance(s, Load)),
        key=lambda s: s.tensor.position,
    )
    for n, s in enumerate(loads):
        for d, i in enumerate(s.indices):
            for v in free(i):
                place.setdefault(v, (n, d))
    return sorted(r.axes, key=lambda a: place.get(a, (len(loads), 0)))
