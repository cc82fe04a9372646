"""Undo packed layouts: a comprehension over logical buffers instead of physical ones.

A buffer whose dimensions ``i`` and ``j`` are the digits of one logical coordinate,

    physical[…, P // E, …, P % E, …]  with E the extent of dimension j,

is read as a logical buffer with P in place of both. Since E divides the logical extent, the map is
a bijection, so a statement about the logical comprehension is one about the physical PrimFunc.
Which dimensions are digits is guessed from the accesses; a wrong guess only fails to be recognised.

    Before: out[n, co, h, w, ci] = Σ x[n, ro, h, w, ri] * w[co, ro, ri, ci]     (NCHW4c, OI4i4o)
    After:  out[n, c, h, w]      = Σ x[n, r, h, w] * w[c, r]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations

from .comprehension import Comprehension, Lifted
from .context import simplify, thorough
from .integer import floordiv
from .order import bounds
from .prove import prove
from .quotient import is_div
from .reduction import canonical
from .rewrite import free, map_loads, substitute, subterms
from .scalar import conj, disj, ge0, negate
from .term import (
    ONE,
    Call,
    Const,
    Int,
    Load,
    Reduce,
    Tensor,
    Term,
    Var,
    as_int,
    axis,
    fresh,
    integer,
    load,
    mul,
)


@dataclass(frozen=True)
class Digits:
    """Dimensions ``outer`` and ``inner`` of a physical buffer that are one logical coordinate."""

    outer: int
    inner: int
    extent: int


@dataclass(frozen=True)
class Relaid:
    """A logical comprehension; ``digits`` lists, by parameter, what was merged, in
    order; ``order`` the places of the output's logical axes in the merged buffer.

    The places in a later entry are those after the earlier merges.
    """

    lifted: Lifted
    digits: dict[int, tuple[Digits, ...]]
    order: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    def layout(self, position: int, logical: str) -> str:
        """The layout string of a parameter, from the one of its logical buffer."""
        letters = list(logical)
        if self.order and position == self.lifted.outputs[0].out.position:
            for place, d in enumerate(self.order):
                letters[d] = logical[place]
        for merged in reversed(self.digits.get(position, ())):
            place = merged.outer - (merged.inner < merged.outer)
            letters.insert(merged.inner, f"{merged.extent}{letters[place].lower()}")
        return "".join(letters)

    @property
    def readable(self) -> bool:
        """Whether each layout has a string: no dimension is merged twice."""
        for position, t in enumerate(self.lifted.params):
            if isinstance(t, Tensor):
                named = self.layout(position, "ABCDEFGHIJKLMNOP"[: len(t.shape)])
                digits = re.findall(r"\d+([a-z]|\d)", named)
                if len(set(digits)) < len(digits) or any(d.isdigit() for d in digits):
                    return False
        return True


def relay(lifted: Lifted) -> Relaid | None:
    """The comprehension with all packed dimensions merged, or None if none is packed."""
    if len(lifted.outputs) != 1:
        return None
    state = Relaid(lifted, {})
    for _ in range(8):
        new = _merge_output(state) or _merge_input(state) or _merge_pair(state)
        if new is None:
            break
        state = new
    state = _reordered(state)
    return state if (state.digits or state.order) and state.readable else None


def _noted(state: Relaid, t: Tensor, d: Digits, lifted: Lifted) -> Relaid:
    return replace(
        state,
        lifted=lifted,
        digits={**state.digits, t.position: (*state.digits.get(t.position, ()), d)},
    )


def _logical(t: Tensor, d: Digits) -> Tensor:
    shape = list(t.shape)
    shape[d.outer] = mul(shape[d.outer], t.shape[d.inner])
    del shape[d.inner]
    return Tensor(t.name, tuple(shape), t.dtype, t.position)


def _replaced(lifted: Lifted, old: Tensor, new: Tensor, c: Comprehension) -> Lifted:
    params = tuple(new if p is old else p for p in lifted.params)
    return replace(lifted, params=params, outputs=(replace(c, body=canonical(c.body)),))


# ---------------------------------------------------------------------------- the output


def _merge_output(state: Relaid) -> Relaid | None:
    """Output axes that occur as ``a * E + b`` somewhere."""
    (c,) = state.lifted.outputs
    ints = _integers(c.body)
    for i, j in permutations(range(len(c.axes)), 2):
        a, b, e = c.axes[i].atom, c.axes[j].atom, c.out.shape[j].const
        if a is None or b is None or e is None:
            continue
        if any(dict(p.terms).get((a,)) == e * dict(p.terms).get((b,), 0) != 0 for p in ints):
            d = Digits(i, j, e)
            out = _logical(c.out, d)
            whole = _over(c, out, d)
            new, note = _unpadded(whole, d)
            state = replace(state, notes=(*state.notes, *note))
            return _noted(state, c.out, d, _replaced(state.lifted, c.out, new.out, new))
    return None


def _unpadded(c: Comprehension, d: Digits) -> tuple[Comprehension, tuple[str, ...]]:
    """``pad if P >= B else value`` with B in the last block: the logical extent is B."""
    place = d.outer - (d.inner < d.outer)
    full, t = c.out.shape[place].const, c.body
    if full is None or not (isinstance(t, Call) and t.op == "ite"):
        return c, ()
    condition, pad, value = t.args
    whole = c.axes[place]
    for extent in range(full - 1, full - d.extent, -1):
        for pads, real, test in ((pad, value, condition), (value, pad, negate(condition))):
            beyond = ge0(whole - extent)
            same = conj(disj(negate(test), beyond), disj(test, negate(beyond)))
            if isinstance(pads, Const) and prove(same).proved:
                told = f"of the {full} elements of %{c.out.position} along its packed dimension"
                return _cut(c, place, extent, real), (f"{told} those from {extent} are {pads!r}",)
    return c, ()


def _cut(c: Comprehension, place: int, extent: int, body: Term) -> Comprehension:
    shape = (*c.out.shape[:place], integer(extent), *c.out.shape[place + 1 :])
    out = Tensor(c.out.name, shape, c.out.dtype, c.out.position)
    axes = tuple(axis(p, e) for p, e in enumerate(shape))
    moved = {a.atom: b for a, b in zip(c.axes, axes, strict=True) if isinstance(a.atom, Var)}
    return Comprehension(out, axes, simplify(substitute(body, moved), ask=thorough))


def _over(c: Comprehension, out: Tensor, d: Digits) -> Comprehension:
    """The comprehension over the merged output axis."""
    axes = tuple(axis(p, e) for p, e in enumerate(out.shape))
    old = list(axes)
    whole = old[d.outer - (d.inner < d.outer)]
    high = floordiv(whole, as_int(c.out.shape[d.inner]))
    del old[d.outer - (d.inner < d.outer)]
    old.insert(d.outer - (d.inner < d.outer), high)
    old.insert(d.inner, whole - mul(high, c.out.shape[d.inner]))
    temporary = {
        v.atom: as_int(fresh(e, "t"))
        for v, e in zip(c.axes, c.out.shape, strict=True)
        if isinstance(v.atom, Var)
    }
    body = substitute(c.body, temporary)
    back = {
        temporary[v.atom].atom: o
        for v, o in zip(c.axes, old, strict=True)
        if isinstance(v.atom, Var)
    }
    return Comprehension(out, axes, substitute(body, back))  # type: ignore[arg-type]


# ---------------------------------------------------------------------------- an input


def _merge_input(state: Relaid) -> Relaid | None:
    """Input dimensions read at ``P // E`` and ``P % E``."""
    (c,) = state.lifted.outputs
    for t, loads in _by_tensor(c.body):
        for i, j in permutations(range(len(t.shape)), 2):
            e = t.shape[j].const
            if e is None or e == 1:
                continue
            if all(_digits_of_one(x.indices[i], x.indices[j], t.shape[j]) for x in loads):
                return _merged(state, t, Digits(i, j, e))
    return None


def _digits_of_one(high: Int, low: Int, extent: Int) -> bool:
    whole = mul(high, extent) + low
    return _divisions(whole) < _divisions(high) + _divisions(low)


def _merged(state: Relaid, t: Tensor, d: Digits) -> Relaid:
    (c,) = state.lifted.outputs
    new = _cropped(_logical(t, d), t, d, c.body)

    def read(_: Tensor, index: tuple[Int, ...]) -> Term:
        whole = list(index)
        whole[d.outer] = mul(index[d.outer], t.shape[d.inner]) + index[d.inner]
        del whole[d.inner]
        return load(new, tuple(whole))

    body = map_loads(c.body, frozenset({t}), read)
    plain = _logical(t, d)
    if new.shape != plain.shape:
        place = d.outer - (d.inner < d.outer)
        told = f"of the {plain.shape[place]!r} elements of %{t.position} along its packed dimension"
        note = f"{told} only the first {new.shape[place]!r} are read"
        state = replace(state, notes=(*state.notes, note))
    return _noted(state, t, d, _replaced(state.lifted, t, new, replace(c, body=body)))


def _cropped(new: Tensor, t: Tensor, d: Digits, body: Term) -> Tensor:
    """Without the part of the last block that no access reaches: it is padding."""
    place = d.outer - (d.inner < d.outer)
    highest = 0
    for x in (s for s in subterms(body) if isinstance(s, Load) and s.tensor is t):
        _, hi = bounds(mul(x.indices[d.outer], t.shape[d.inner]) + x.indices[d.inner])
        if hi is None or hi.const is None:
            return new
        highest = max(highest, hi.const)
    full = new.shape[place].const
    if full is None or highest + 1 <= full - d.extent or highest + 1 >= full:
        return new
    shape = (*new.shape[:place], integer(highest + 1), *new.shape[place + 1 :])
    return Tensor(new.name, shape, new.dtype, new.position)


# ---------------------------------------------------------------------------- reductions


def _merge_pair(state: Relaid) -> Relaid | None:
    """Two reduction axes that every load that has one reads bare, side by side."""
    (c,) = state.lifted.outputs
    for r in (s for s in subterms(c.body) if isinstance(s, Reduce)):
        for a, b in permutations(r.axes, 2):
            found = _bare_pairs(c.body, a, b)
            if found is None or b.extent is None or b.extent is ONE:
                continue
            for t, _, j in found:
                e = t.shape[j].const
                if e is None or t.shape[j] is not b.extent:
                    break
            else:
                for t, i, j in found:
                    state = _merged(state, t, Digits(i, j, t.shape[j].const or 1))
                return state
    return None


def _bare_pairs(body: Term, a: Var, b: Var) -> list[tuple[Tensor, int, int]] | None:
    """Where the axes stand side by side, if every load has them so or as ``a * E + b``."""
    assert b.extent is not None
    whole = mul(as_int(a), b.extent) + as_int(b)
    found: dict[Tensor, tuple[int, int]] = {}
    fused = False
    for x in (s for s in subterms(body) if isinstance(s, Load)):
        rest = [
            p - whole if dict(p.terms).get((a,)) is not None and p.atom is not a else p
            for p in x.indices
        ]
        fused |= rest != list(x.indices)
        places = [[d for d, p in enumerate(rest) if v in free(p)] for v in (a, b)]
        if not places[0] and not places[1]:
            continue
        if any(
            len(p) != 1 or rest[p[0]].atom is not v for p, v in zip(places, (a, b), strict=True)
        ):
            return None
        pair = (places[0][0], places[1][0])
        if found.setdefault(x.tensor, pair) != pair:
            return None
    return [(t, i, j) for t, (i, j) in found.items()] if len(found) + fused > 1 else None


# ---------------------------------------------------------------------------- order


def _reordered(state: Relaid) -> Relaid:
    """The output's axes in the order in which the operand that has most of them reads them.

    An axis that this operand lacks takes the place of a dimension that it has instead.
    """
    (c,) = state.lifted.outputs
    loads = [s for s in subterms(c.body) if isinstance(s, Load) and len(s.indices) == len(c.axes)]
    places = {d: a.atom for d, a in enumerate(c.axes) if isinstance(a.atom, Var)}
    best = max(loads, key=lambda x: len(_shared(x, places)), default=None)
    if best is None or not places:
        return state
    target = _shared(best, places)
    spare = [d for d in range(len(c.axes)) if d not in target.values()]
    order = [-1] * len(c.axes)
    for d in range(len(c.axes)):
        order[target[d] if d in target else spare.pop(0)] = d
    if order == list(range(len(order))):
        return state
    shape = tuple(c.out.shape[d] for d in order)
    out = Tensor(c.out.name, shape, c.out.dtype, c.out.position)
    axes = tuple(axis(p, e) for p, e in enumerate(shape))
    moved = {v: as_int(fresh(v.extent, "t")) for v in places.values() if v.extent is not None}
    back = {moved[v].atom: axes[order.index(d)] for d, v in places.items()}
    body = substitute(substitute(c.body, moved), back)  # type: ignore[arg-type]
    lifted = _replaced(state.lifted, c.out, out, Comprehension(out, axes, body))
    return replace(state, lifted=lifted, order=tuple(order))


def _shared(x: Load, places: dict[int, Var]) -> dict[int, int]:
    """Output dimension → dimension of x whose index has that axis, where there is just one."""
    found: dict[int, int] = {}
    for d, v in places.items():
        at = [k for k, p in enumerate(x.indices) if v in free(p)]
        if len(at) == 1 and at[0] not in found.values():
            found[d] = at[0]
    return found


# ---------------------------------------------------------------------------- helpers


def _by_tensor(body: Term) -> Iterator[tuple[Tensor, list[Load]]]:
    found: dict[Tensor, list[Load]] = {}
    for s in subterms(body):
        if isinstance(s, Load):
            found.setdefault(s.tensor, []).append(s)
    yield from sorted(found.items(), key=lambda item: item[0].position)


def _integers(body: Term) -> list[Int]:
    return [
        s
        for t in subterms(body)
        for s in getattr(t, "indices", ()) or getattr(t, "args", ())
        if isinstance(s, Int)
    ]


def _divisions(p: Int) -> int:
    return sum(1 for s in subterms(p) if is_div(s))
