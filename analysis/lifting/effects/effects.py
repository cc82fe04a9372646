"""The effect of a statement on buffers: for each buffer, a list of quantified writes.

``Write((i, j), guard, index, value)`` means: for all ``i, j`` in their domains where ``guard``
holds, ``buffer[index] = value``. Loads inside it are from the state *before* the statement.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

from ...proofs.implication import follows_from
from ...solving.integer_equations import solve
from ...terms.condition_terms import conj, eq0, ge0, ite, parts
from ...terms.integer import floordiv
from ...terms.order import nonneg, ranges_over
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
    integer,
    load,
    variable,
)
from ...terms.traversal import free, ints, map_loads, substitute, tensors
from ..tir.unliftable import Unliftable


@dataclass(frozen=True, eq=False)
class Write:
    """A family of stores into one buffer.

    ``scattered`` says that data decided which stores of an inner loop reached which element. Of a
    ``distinct`` family, no two stores are assumed to be into one element.
    """

    vars: tuple[Var, ...]
    guard: Term
    index: tuple[Int, ...]
    value: Term
    scattered: bool = False
    settled: bool = False
    distinct: bool = False

    @cached_property
    def places(self) -> dict[Var, int]:
        """The dimension that each variable indexes alone; empty unless all variables do."""
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
        inverse = {v: p for v, p in solution.items() if ints(p, forward) is as_int(v)}
        return inverse | self._digits(inverse, forward)

    def _digits(self, inverse: dict[Var, Int], forward: dict[Var, Int]) -> dict[Var, Int]:
        """The inverse at ``c * v + k`` for ``0 < k < c`` as ``Y // c``, which all k share."""
        out: dict[Var, Int] = {}
        for y, coordinate in forward.items():
            linear = [(m, c) for m, c in coordinate.terms if m]
            shift = next((c for m, c in coordinate.terms if not m), 0)
            if len(linear) != 1 or len(linear[0][0]) != 1:
                continue
            if linear[0][0][0] in inverse and 0 < shift < linear[0][1]:
                digit = floordiv(as_int(y), integer(linear[0][1]))
                if ints(digit, forward) is as_int(linear[0][0][0]):
                    out[linear[0][0][0]] = digit
        return out

    @cached_property
    def with_fresh_variables(self) -> Write:
        """Return the same stores with fresh names for variables that the index does not determine.

        A variable that the guard pins, or that only occurs in one bound of it, is eliminated.
        """
        guard, index, value = self.guard, self.index, self.value
        kept = []
        for var in self.vars:
            if var in self.inverse:
                kept.append(var)
                continue
            fixed = _satisfying(guard, var, (*index, value))
            renamed = var if fixed is not None or var.extent is None else fresh(var.extent, "u")
            if fixed is None:
                kept.append(renamed)
            renaming = {var: as_int(renamed) if fixed is None else fixed}
            inside: Term = TRUE
            if fixed is not None and var.extent is not None:
                inside = conj(ge0(fixed), ge0(var.extent - 1 - fixed))
            guard, value = conj(substitute(guard, renaming), inside), substitute(value, renaming)
            index = tuple(ints(e, renaming) for e in index)
        return Write(tuple(kept), guard, index, value, self.scattered, settled=True)

    @property
    def _is_sole_at_index(self) -> bool:
        """Whether no other store of the family is into the element ``index``."""
        return self.distinct and set(self.vars) <= set().union(*map(free, self.index))

    def assigned(self, index: tuple[Int, ...]) -> dict[Var, Int]:
        """Return the variables that the index determines, at an element."""
        if self.places:
            return {v: index[d] for v, d in self.places.items()}
        values = dict(zip(coordinates(len(index)), index, strict=True))
        return {v: ints(p, values) for v, p in self.inverse.items()}

    def at(self, index: tuple[Int, ...], where: str) -> tuple[Term, Term]:
        """Return ``(condition, value)`` of this write at an element."""
        if index == self.index and (not self.vars or self._is_sole_at_index):
            return self.guard, self.value
        chosen = self.assigned(index)
        if len(chosen) != len(self.vars) and not self.settled:
            return self.with_fresh_variables.at(index, where)
        hits = [
            eq0(ints(coordinate, chosen) - target)
            for coordinate, target in zip(self.index, index, strict=True)
            if chosen.get(coordinate.atom) is not target  # type: ignore[call-overload]
            and not (coordinate is target and coordinate.const is not None)
        ]
        inside = [
            term
            for var, poly in chosen.items()
            if var.extent is not None and not ranges_over(poly, var.extent)
            for term in (ge0(poly), ge0(var.extent - 1 - poly))
        ]
        condition = conj(*hits, *inside, substitute(self.guard, chosen))
        if condition is FALSE:
            return FALSE, self.value
        value = substitute(self.value, chosen)
        if len(chosen) == len(self.vars):
            return condition, value
        loose = frozenset(self.vars) - chosen.keys()
        if loose & (free(condition) | free(value)):
            raise Unliftable("it is unknown which iteration writes an element", where)
        runs = (ge0(v.extent - 1) for v in loose if v.extent is not None)
        return conj(condition, *runs), value


def _satisfying(guard: Term, var: Var, remaining: tuple[Term, ...]) -> Int | None:
    """The only value of a variable that satisfies a guard, or an extreme one if only bounded."""
    if var.extent is None or var not in free(guard):
        return None
    only = pinned_value(guard, var)
    if only is not None:
        return only
    bound = [c for c in parts(guard) if var in free(c)]
    if any(var in free(t) for t in remaining) or len(bound) != 1 or var.extent is None:
        return None
    (term,) = bound
    if not (isinstance(term, CallTerm) and term.op == "ge0"):
        return None
    poly = as_int(term.args[0])
    coef = dict(poly.terms).get((var,), 0)
    if coef == 0 or var in free(poly - as_int(var) * coef):
        return None
    return ZERO if coef < 0 else var.extent - 1


@cache
def coordinates(rank: int) -> tuple[Var, ...]:
    return tuple(variable("free", f"Y{d}") for d in range(rank))


class Effects:
    """Writes in program order, by buffer."""

    def __init__(self) -> None:
        self.writes: dict[TensorVar, list[Write]] = {}
        self.outer: set[TensorVar] = set()  # read by values that were bound outside

    def read(self, tensor: TensorVar, index: tuple[Int, ...], facts: tuple[Term, ...] = ()) -> Term:
        """Return the element after these effects, where the facts hold."""
        pending: list[tuple[Term, Term]] = []
        value: Term | None = None
        inside = (*_load_facts(tensor, index), *facts)
        for write in reversed(self.writes.get(tensor, ())):
            condition, element = write.at(index, tensor.name)
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

    def store(self, tensor: TensorVar, write: Write) -> None:
        """Append a write whose loads are from the state before these effects."""
        before = self.writes.setdefault(tensor, [])
        if before and write.guard is TRUE:
            before[:] = [b for b in before if not self._covers(write, b, tensor)]
        elif before and _same_element(before[-1], write):
            value = ite(write.guard, write.value, before[-1].value)
            before[-1] = replace(before[-1], value=value)
            return
        before.append(write)

    @staticmethod
    def _covers(write: Write, earlier: Write, tensor: TensorVar) -> bool:
        try:
            place = replace(write, value=TRUE)
            return place.at(earlier.index, tensor.name)[0] is TRUE
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

        def now(term: Term, guard: Term = TRUE) -> Term:
            facts = () if guard is TRUE else parts(guard)
            read = snapshot.read if not facts else partial(snapshot.read, facts=facts)
            return map_loads(term, written, read) if written else term

        for tensor, writes in later.writes.items():
            for write in writes:
                index = tuple(as_int(now(i)) for i in write.index)
                full = conj(guard, now(write.guard))
                if full is not FALSE:
                    value = now(write.value, full)  # it is stored only where the guard holds
                    self.store(
                        tensor,
                        replace(write, guard=full, index=index, value=value, settled=False),
                    )


def _same_element(first: Write, second: Write) -> bool:
    """Whether two stores are into one element, and the first is unconditional."""
    if first.guard is not TRUE or first.index != second.index:
        return False
    return not any(w.vars or w.scattered or w.distinct for w in (first, second))


def _load_facts(tensor: TensorVar, index: tuple[Int, ...]) -> tuple[Term, ...]:
    """The facts that a load implies: its coordinates are inside the buffer."""
    return tuple(
        term
        for coordinate, extent in zip(index, tensor.shape, strict=True)
        if tensors(coordinate)
        for term in (ge0(coordinate), ge0(extent - 1 - coordinate))
    )


def pinned_value(guard: Term, var: Var) -> Int | None:
    """Return the only value of ``var`` that the guard allows, or None."""
    assert var.extent is not None
    lo, hi = ZERO, var.extent - 1
    for term in () if guard is TRUE else parts(guard):
        if not (isinstance(term, CallTerm) and term.op in ("ge0", "eq0") and var in free(term)):
            continue
        poly = as_int(term.args[0])
        coef = dict(poly.terms).get((var,))
        bound = poly - as_int(var) * (coef or 0)
        if coef not in (1, -1) or var in free(bound):
            continue
        if term.op == "eq0":
            return bound * -coef
        if coef == 1 and nonneg(-bound - lo):
            lo = -bound
        if coef == -1 and nonneg(hi - bound):
            hi = bound
    return lo if lo is hi else None
