"""The effect of a statement on buffers: for each buffer, a list of quantified writes.

``Write((i, j), guard, index, value)`` means: for all ``i, j`` in their domains where ``guard``
holds, ``buffer[index] = value``. Loads inside it are from the state *before* the statement.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

from ...proofs.implication import follows_from
from ...solving.integer_equations import solve
from ...terms.order import bounds, nonneg, ranges_over
from ...terms.scalar import conj, eq0, ge0, ite, parts
from ...terms.term import (
    FALSE,
    TRUE,
    ZERO,
    CallTerm,
    Int,
    TensorVar,
    Term,
    Var,
    as_int,
    fresh,
    load,
    variable,
)
from ...terms.traversal import free, ints, map_loads, substitute, tensors
from ..tir.from_tir import Unliftable


@dataclass(frozen=True, eq=False)
class Write:
    """A family of stores into one buffer.

    ``scattered`` says that data decided which stores of an inner loop reached which element.
    """

    vars: tuple[Var, ...]
    guard: Term
    index: tuple[Int, ...]
    value: Term
    scattered: bool = False
    settled: bool = False

    @cached_property
    def places(self) -> dict[Var, int]:
        """The dimension of which each variable is the whole index, if all are; else empty."""
        whole_indices = {e.atom: d for d, e in enumerate(self.index)}
        return (
            {v: whole_indices[v] for v in self.vars}
            if whole_indices.keys() >= set(self.vars)
            else {}
        )

    @cached_property
    def inverse(self) -> dict[Var, Int]:
        """Each variable that the index determines, as a term over the coordinates ``Y0, Y1, …``.

        Only returned if ``inverse(index(vars)) = vars`` holds in normal form: then at most one
        assignment of these variables writes an element.
        """
        ys = coordinates(len(self.index))
        if self.places:
            return {v: as_int(ys[d]) for v, d in self.places.items()}
        solution = solve(self.vars, list(zip(self.index, map(as_int, ys), strict=True)))
        forward = dict(zip(ys, self.index, strict=True))
        return {v: p for v, p in solution.items() if ints(p, forward) is as_int(v)}

    @cached_property
    def with_fresh_variables(self) -> Write:
        """Return the same stores with fresh names for variables that the index does not determine.

        A variable that the guard pins, or that only occurs in one bound of it, is eliminated.
        """
        guard, index, value = self.guard, self.index, self.value
        kept = []
        for v in self.vars:
            if v in self.inverse:
                kept.append(v)
                continue
            at = _satisfying(guard, v, (*index, value))
            u = v if at is not None else fresh(v.extent, "u") if v.extent is not None else v
            if at is None:
                kept.append(u)
            named = {v: as_int(u) if at is None else at}
            inside: Term = TRUE
            if at is not None and v.extent is not None:
                inside = conj(ge0(at), ge0(v.extent - 1 - at))
            guard, value = conj(substitute(guard, named), inside), substitute(value, named)
            index = tuple(ints(e, named) for e in index)
        return Write(tuple(kept), guard, index, value, self.scattered, settled=True)

    def assigned(self, index: tuple[Int, ...]) -> dict[Var, Int]:
        """Return the variables that the index determines, at an element."""
        if self.places:
            return {v: index[d] for v, d in self.places.items()}
        values = dict(zip(coordinates(len(index)), index, strict=True))
        return {v: ints(p, values) for v, p in self.inverse.items()}

    def at(self, index: tuple[Int, ...], where: str) -> tuple[Term, Term]:
        """Return ``(condition, value)`` of this write at an element."""
        if index == self.index and not self.vars:
            return self.guard, self.value
        chosen = self.assigned(index)
        if len(chosen) != len(self.vars) and not self.settled:
            return self.with_fresh_variables.at(index, where)
        hits = [
            eq0(ints(e, chosen) - i)
            for e, i in zip(self.index, index, strict=True)
            if chosen.get(e.atom) is not i and not (e is i and e.const is not None)  # type: ignore[call-overload]
        ]
        inside = [
            c
            for v, p in chosen.items()
            if v.extent is not None and not ranges_over(p, v.extent)
            for c in (ge0(p), ge0(v.extent - 1 - p))
        ]
        condition = conj(*hits, *inside, substitute(self.guard, chosen))
        if condition is FALSE:
            return FALSE, self.value
        value = substitute(self.value, chosen)
        if len(chosen) == len(self.vars):
            return condition, value
        loose = frozenset(self.vars) - chosen.keys()
        if loose & (free(condition) | free(value)):
            raise Unliftable("cannot tell which iteration writes an element", where)
        runs = (ge0(v.extent - 1) for v in loose if v.extent is not None)
        return conj(condition, *runs), value


def _satisfying(guard: Term, v: Var, remaining: tuple[Term, ...]) -> Int | None:
    """The only value of a variable that satisfies a guard, or an extreme one if only bounded."""
    if v.extent is None or v not in free(guard):
        return None
    only = pinned_value(guard, v)
    if only is not None:
        return only
    bound = [c for c in parts(guard) if v in free(c)]
    if any(v in free(t) for t in remaining) or len(bound) != 1 or v.extent is None:
        return None
    (c,) = bound
    if not (isinstance(c, CallTerm) and c.op == "ge0"):
        return None
    p = as_int(c.args[0])
    coef = dict(p.terms).get((v,), 0)
    if coef == 0 or v in free(p - as_int(v) * coef):
        return None
    return ZERO if coef < 0 else v.extent - 1


@cache
def coordinates(rank: int) -> tuple[Var, ...]:
    return tuple(variable("free", f"Y{d}") for d in range(rank))


class Effects:
    """Writes in program order, by buffer."""

    def __init__(self) -> None:
        self.writes: dict[TensorVar, list[Write]] = {}
        self.outer: set[TensorVar] = set()  # read by values that were bound outside

    def read(self, tensor: TensorVar, index: tuple[Int, ...]) -> Term:
        """Return the element after these effects."""
        pending: list[tuple[Term, Term]] = []
        value: Term | None = None
        inside = _inside(tensor, index)
        for w in reversed(self.writes.get(tensor, ())):
            condition, element = w.at(index, tensor.name)
            if inside:
                condition = conj(*(c for c in parts(condition) if not follows_from(c, inside)))
            if condition is TRUE:
                value = element
                break
            if condition is not FALSE:
                pending.append((condition, element))
        if value is None:
            value = load(tensor, index)
        for condition, element in reversed(pending):
            value = ite(condition, element, value)
        return value

    def store(self, tensor: TensorVar, w: Write) -> None:
        """Append a write whose loads are from the state before these effects."""
        before = self.writes.setdefault(tensor, [])
        if before and w.guard is TRUE:
            before[:] = [b for b in before if not self._covers(w, b, tensor)]
        before.append(w)

    @staticmethod
    def _covers(w: Write, b: Write, tensor: TensorVar) -> bool:
        try:
            return Write(w.vars, w.guard, w.index, TRUE).at(b.index, tensor.name)[0] is TRUE
        except Unliftable:
            return False

    def then(self, later: Effects, guard: Term = TRUE) -> None:
        """Append effects whose loads are from the state after these ones.

        The loads of ``guard`` are from the state before them.
        """
        if not self.writes and guard is TRUE:
            self.writes = {t: list(ws) for t, ws in later.writes.items()}
            return
        written = frozenset(self.writes)
        snapshot = Effects()
        snapshot.writes = {t: list(ws) for t, ws in self.writes.items()}

        def now(t: Term) -> Term:
            return map_loads(t, written, snapshot.read) if written else t

        for tensor, writes in later.writes.items():
            for w in writes:
                index = tuple(as_int(now(i)) for i in w.index)
                full = conj(guard, now(w.guard))
                if full is not FALSE:
                    self.store(tensor, Write(w.vars, full, index, now(w.value), w.scattered))


def _inside(tensor: TensorVar, index: tuple[Int, ...]) -> tuple[Term, ...]:
    """The facts that a load implies: its coordinates are inside the buffer."""
    return tuple(
        c
        for i, e in zip(index, tensor.shape, strict=True)
        if tensors(i)
        for c in (ge0(i), ge0(e - 1 - i))
    )


def pinned_value(guard: Term, i: Var) -> Int | None:
    """Return the only value of ``i`` that the guard allows, or None."""
    assert i.extent is not None
    lo, hi = ZERO, i.extent - 1
    for c in () if guard is TRUE else parts(guard):
        if not (isinstance(c, CallTerm) and c.op in ("ge0", "eq0") and i in free(c)):
            continue
        p = as_int(c.args[0])
        coef = dict(p.terms).get((i,))
        bound = p - as_int(i) * (coef or 0)
        if coef not in (1, -1) or i in free(bound):
            continue
        if c.op == "eq0":
            return bound * -coef
        if coef == 1 and nonneg(-bound - lo):
            lo = -bound
        if coef == -1 and nonneg(hi - bound):
            hi = bound
    return lo if lo is hi else None


def same_or_later(w: Write, i: Var, index: tuple[Int, ...], where: str) -> bool:
    """Return whether ``w``, repeated over loop ``i``, writes ``index`` in no iteration before i.

    ``index`` may depend on i; it is the element that iteration i accesses.
    """
    if index == w.index:
        if not any(i in free(e) for e in index):
            return False
        if any(e.atom is i for e in index):
            return True
    every = Write((*w.vars, i), TRUE, w.index, TRUE)
    values = dict(zip(coordinates(len(index)), index, strict=True))
    inverse = every.inverse.get(i)
    if inverse is not None:
        lo, _ = bounds(ints(inverse, values) - as_int(i))
        if lo is not None and nonneg(lo):
            return True
    try:
        return every.at(index, where)[0] is FALSE
    except Unliftable:
        return False
