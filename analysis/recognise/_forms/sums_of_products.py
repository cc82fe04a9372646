"""Parts of terms for recognisers of windows and contractions: loads, guards, affine indices."""

from __future__ import annotations

from dataclasses import dataclass

from ...terms.condition_terms import parts
from ...terms.reduction_terms import split_guard
from ...terms.term import TRUE, ZERO, CallTerm, Const, Int, Load, Reduce, Term, Var, bare, only
from ...terms.term.literals import is_const


@dataclass(frozen=True)
class Combined:
    """``init ⊕ ⊕_{axes} body``; without axes if the reduced dimensions have extent 1."""

    axes: tuple[Var, ...]
    body: Term
    init: Term


def combined(term: Term, op: str) -> Combined | None:
    """A term as a reduction, perhaps over dimensions of extent 1: ``init ⊕ body``."""
    term = uncast(term)
    if isinstance(term, Reduce):
        return Combined(term.axes, term.body, term.init) if term.op == op else None
    if isinstance(term, CallTerm) and term.op == op and len(term.args) == 2:
        for init, body in (term.args, term.args[::-1]):
            if isinstance(bare(init), Const) or (isinstance(init, Int) and init.const is not None):
                return Combined((), body, init)
    return None


@dataclass(frozen=True)
class Product:
    """``Σ_{axes} (Π loads if guard else 0)``: loads may be converted first."""

    reduce: Combined
    guards: tuple[Term, ...]
    loads: tuple[Load, ...]


def uncast(term: Term) -> Term:
    """A term without conversions around it."""
    term = bare(term)
    while isinstance(term, CallTerm) and term.op == "cast":
        term = bare(term.args[0])
    return term


def product(term: Term) -> Product | None:
    """A term as a sum of products of loads, or None."""
    reduction = combined(term, "add")
    if reduction is None and "float" not in term.dtype:
        reduction = Combined((), term, ZERO)  # 0 + x is x
    if reduction is None or not is_const(reduction.init, 0):
        return None
    guards: list[Term] = []
    loads: list[Load] = []
    if not _factors(reduction.body, guards, loads):
        return None
    return Product(reduction, tuple(guards), tuple(loads))


def _factors(term: Term, guards: list[Term], loads: list[Load]) -> bool:
    term = uncast(term)
    if isinstance(term, Load):
        loads.append(term)
        return True
    if isinstance(term, Int) and len(term.terms) == 1 and term.terms[0][1] == 1:
        return all(_factors(a, guards, loads) for a in term.terms[0][0])
    if isinstance(term, CallTerm) and term.op == "mul":
        return all(_factors(a, guards, loads) for a in term.args)
    if isinstance(term, CallTerm) and term.op == "ite" and is_const(term.args[2], 0):
        guards.extend(parts(term.args[0]))
        return _factors(term.args[1], guards, loads)
    return False


def affine(poly: Int) -> tuple[dict[Var, int], int] | None:
    """Coefficients and constant of an index that is linear in variables, or None."""
    coefs: dict[Var, int] = {}
    shift = 0
    for mono, coef in poly.terms:
        if not mono:
            shift = coef
        elif len(mono) == 1 and isinstance(mono[0], Var):
            coefs[mono[0]] = coef
        else:
            return None
    return coefs, shift


__all__ = [
    "TRUE",
    "Product",
    "affine",
    "bare",
    "only",
    "product",
    "split_guard",
    "uncast",
]
