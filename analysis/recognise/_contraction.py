"""Parts of terms for recognisers of windows and contractions: loads, guards, affine indices."""

from __future__ import annotations

from dataclasses import dataclass

from ..terms.scalar import is_const, parts, split_guard
from ..terms.term import TRUE, ZERO, CallTerm, Const, Int, Load, Reduce, Term, Var
from ..terms.traversal import free


@dataclass(frozen=True)
class Combined:
    """``init ⊕ ⊕_{axes} body``; without axes if the reduced dimensions have extent 1."""

    axes: tuple[Var, ...]
    body: Term
    init: Term


def combined(t: Term, op: str) -> Combined | None:
    """A term as a reduction, perhaps over dimensions of extent 1: ``init ⊕ body``."""
    t = uncast(t)
    if isinstance(t, Reduce):
        return Combined(t.axes, t.body, t.init) if t.op == op else None
    if isinstance(t, CallTerm) and t.op == op and len(t.args) == 2:
        for init, body in (t.args, t.args[::-1]):
            if isinstance(bare(init), Const) or (isinstance(init, Int) and init.const is not None):
                return Combined((), body, init)
    return None


@dataclass(frozen=True)
class Product:
    """``Σ_{axes} (Π loads if guard else 0)``: loads may be converted first."""

    reduce: Combined
    guards: tuple[Term, ...]
    loads: tuple[Load, ...]


def bare(t: Term) -> Term:
    """A term without the polynomial around a single atom."""
    return (t.atom or t) if isinstance(t, Int) else t


def uncast(t: Term) -> Term:
    """A term without conversions around it."""
    t = bare(t)
    while isinstance(t, CallTerm) and t.op == "cast":
        t = bare(t.args[0])
    return t


def product(t: Term) -> Product | None:
    """A term as a sum of products of loads, or None."""
    r = combined(t, "add")
    if r is None and "float" not in t.dtype:
        r = Combined((), t, ZERO)  # 0 + x is x
    if r is None or not is_const(r.init, 0):
        return None
    guards: list[Term] = []
    loads: list[Load] = []
    if not _factors(r.body, guards, loads):
        return None
    return Product(r, tuple(guards), tuple(loads))


def _factors(t: Term, guards: list[Term], loads: list[Load]) -> bool:
    t = uncast(t)
    if isinstance(t, Load):
        loads.append(t)
        return True
    if isinstance(t, Int) and len(t.terms) == 1 and t.terms[0][1] == 1:
        return all(_factors(a, guards, loads) for a in t.terms[0][0])
    if isinstance(t, CallTerm) and t.op == "mul":
        return all(_factors(a, guards, loads) for a in t.args)
    if isinstance(t, CallTerm) and t.op == "ite" and is_const(t.args[2], 0):
        guards.extend(parts(t.args[0]))
        return _factors(t.args[1], guards, loads)
    return False


def affine(p: Int) -> tuple[dict[Var, int], int] | None:
    """Coefficients and constant of an index that is linear in variables, or None."""
    coefs: dict[Var, int] = {}
    shift = 0
    for mono, c in p.terms:
        if not mono:
            shift = c
        elif len(mono) == 1 and isinstance(mono[0], Var):
            coefs[mono[0]] = c
        else:
            return None
    return coefs, shift


def only(p: Int) -> Var | None:
    """The variable if the index is exactly one variable."""
    return p.atom if isinstance(p.atom, Var) else None


def bound(p: Int, axes: tuple[Var, ...]) -> list[Var]:
    """Reduction axes that occur in an index, in their order."""
    here = free(p)
    return [a for a in axes if a in here]


__all__ = [
    "TRUE",
    "Product",
    "affine",
    "bare",
    "bound",
    "only",
    "product",
    "split_guard",
    "uncast",
]
