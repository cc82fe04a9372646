"""Reductions as a guarded domain and factors, in which equal reductions correspond."""

from __future__ import annotations

from dataclasses import dataclass

from ..terms.condition_terms import conj, parts
from ..terms.reduction_terms import identity, split_guard
from ..terms.term import TRUE, CallTerm, Reduce, Term, Var, as_int, fresh, raw_call
from ..terms.term.literals import is_const
from ..terms.traversal import substitute
from .pairing import is_choice
from .proof import Proof


@dataclass(frozen=True)
class OpenReduction:
    """A reduction over fresh axes: of the product of ``factors`` where ``guard`` holds."""

    axes: tuple[Var, ...]
    guard: Term
    factors: list[Term]


def open_reduction(reduction: Reduce, proof: Proof) -> OpenReduction:
    """Return the reduction over fresh axes; the proof notes what that requires."""
    names = {v: fresh(v.extent, "q") for v in reduction.axes if v.extent is not None}
    body = substitute(reduction.body, {v: as_int(n) for v, n in names.items()})
    unit = identity(reduction.op, reduction.dtype)
    guard, body = (TRUE, body) if unit is None else split_guard(body, unit)
    factors = [body]
    if reduction.op == "add" and "float" in reduction.dtype:
        extra, factors = _hoisted(body, proof)
        guard = conj(guard, *extra)
    return OpenReduction(tuple(names.values()), guard, factors)


def _hoisted(term: Term, proof: Proof) -> tuple[list[Term], list[Term]]:
    """Return the guards and factors of a product: ``(x if c else 0) * y = x * y if c else 0``."""
    if is_choice(term) and isinstance(term, CallTerm) and is_const(term.args[2], 0.0):
        guards, factors = _hoisted(term.args[1], proof)
        return [*parts(term.args[0]), *guards], factors
    if isinstance(term, CallTerm) and term.op == "mul":
        out: tuple[list[Term], list[Term]] = ([], [])
        for factor in term.args:
            guards, factors = _hoisted(factor, proof)
            proof.finite |= bool(guards)
            out[0].extend(guards)
            out[1].extend(factors)
        return out
    if isinstance(term, CallTerm) and term.op == "cast" and "float" in term.args[0].dtype:
        guards, factors = _hoisted(term.args[0], proof)
        if len(factors) == 1:
            return guards, [raw_call("cast", (factors[0],), term.dtype)]
    return [], [term]
