"""The accesses of a tensor expression, with distinct axes for each output and reduction."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..terms.term import (
    INT_DTYPES,
    CallTerm,
    Fold,
    Int,
    Load,
    Reduce,
    TensorVar,
    Term,
    Var,
    as_int,
    fold,
    fresh,
    polynomial,
)
from ..terms.term import raw_reduce as reduce
from ..terms.traversal import free, ints, rebuild, substitute, subterms
from .logical_state import LogicalState


@dataclass(frozen=True)
class Access:
    """A load, or the store of an output: the parameter and its indices."""

    position: int
    indices: tuple[Int, ...]


@dataclass(frozen=True)
class Accesses:
    """All accesses, and the integers in conditions and arithmetic besides them.

    Each output and each reduction has its own axes here.
    """

    all: tuple[Access, ...]
    conditions: tuple[Int, ...]
    numbers: tuple[Int, ...]
    outputs: frozenset[Var]

    def at(self, position: int) -> list[Access]:
        return self._by_position.get(position, [])

    @cached_property
    def _by_position(self) -> dict[int, list[Access]]:
        grouped: dict[int, list[Access]] = {}
        for access in self.all:
            grouped.setdefault(access.position, []).append(access)
        return grouped


def accesses(state: LogicalState) -> Accesses:
    """Return the accesses of all outputs of a state."""
    result: list[Access] = []
    conditions: dict[Int, None] = {}
    numbers: dict[Int, None] = {}
    outputs: set[Var] = set()
    for definition in state.lifted.outputs:
        renamed = {var: fresh(var.extent, "o") for a in definition.axes
               if isinstance(var := a.atom, Var) and var.extent is not None}  # fmt: skip
        outputs |= set(renamed.values())
        at = {v: as_int(o) for v, o in renamed.items()}
        result.append(Access(definition.out.position, tuple(ints(a, at) for a in definition.axes)))
        for term in subterms(with_fresh_axes(substitute(definition.body, at))):
            if isinstance(term, Load):
                result.append(Access(term.tensor.position, term.indices))
            elif isinstance(term, CallTerm) and term.dtype not in INT_DTYPES:
                terms = conditions if term.op in ("ge0", "eq0") else numbers
                terms.update(dict.fromkeys(a for a in term.args if isinstance(a, Int)))
    return Accesses(
        tuple(dict.fromkeys(result)), tuple(conditions), tuple(numbers), frozenset(outputs)
    )


def with_fresh_axes(term: Term) -> Term:
    """Return the term with fresh axes for every reduction, unlike in normal form."""
    memo: dict[Term, Term] = {}

    def go(term: Term) -> Term:
        result = memo.get(term)
        if result is None:
            if isinstance(term, Reduce):
                names = {a: fresh(a.extent, "q") for a in term.axes if a.extent is not None}
                body = go(substitute(term.body, {a: as_int(v) for a, v in names.items()}))
                result = reduce(term.op, tuple(names.values()), body, go(term.init), term.dtype)
            elif isinstance(term, Fold):
                result = _fold(term, go)
            else:
                result = rebuild(term, go)
            memo[term] = result
        return result

    return go(term)


def _fold(loop: Fold, go: object) -> Term:
    assert loop.axis.extent is not None and callable(go)
    axis = fresh(loop.axis.extent, "q")
    updates = tuple(go(substitute(u, {loop.axis: as_int(axis)})) for u in loop.updates)
    return fold(axis, loop.states, tuple(map(go, loop.inits)), updates)


# ---------------------------------------------------------------------------- which share an axis

Dim = tuple[int, int]


def classes(uses: Accesses, tensors: tuple[TensorVar, ...]) -> dict[Dim, int]:
    """Return a number for each dimension; dimensions indexed by a common axis share it."""
    parent: dict[object, object] = {}

    def root(node: object) -> object:
        parent.setdefault(node, node)
        while parent[node] != node:
            node = parent[node]
        return node

    for access in uses.all:
        for d, poly in enumerate(access.indices):
            for var in free(poly):
                if var.kind not in ("size", "scalar"):
                    parent[root((access.position, d))] = root(var)
    numbers: dict[object, int] = {}
    return {
        (tensor.position, d): numbers.setdefault(root((tensor.position, d)), len(numbers))
        for tensor in tensors
        for d in range(len(tensor.shape))
    }


def coefficient(poly: Int, var: Var) -> Int | None:
    """Return the factor of a variable in a polynomial; None if the polynomial is not linear."""
    terms = {}
    for mono, coef in poly.terms:
        if mono.count(var) > 1:
            return None
        if var in mono:
            factors = list(mono)
            factors.remove(var)
            terms[tuple(factors)] = coef
    return polynomial(terms)
