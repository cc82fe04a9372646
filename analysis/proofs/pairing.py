"""Pair the parts of two terms: candidates, not proofs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import permutations

import numpy as np

from ..solving.integer_equations import solve
from ..terms.term import CallTerm, Const, Int, Load, Term, Var, as_int
from ..terms.term.literals import is_const
from ..terms.traversal import subterms

PERMUTATIONS = 24


class Different(Exception):
    """Two terms are not proved equal; ``args[0]`` has the place."""


def bijection(
    unknown: tuple[Var, ...], equations: list[tuple[Int, Int]], axes: tuple[Var, ...]
) -> dict[Var, Int] | None:
    """Return values of the unknown axes; axes that no access determines are paired by extent."""
    values = solve(unknown, equations)
    missing = [v for v in unknown if v not in values]
    if not missing:
        return values
    used = frozenset().union(*(frozenset(subterms(p)) for p in values.values())) if values else ()
    spare = [v for v in axes if v not in used]
    for var in missing:
        same = next((w for w in spare if w.extent is var.extent), None)
        if same is None:
            return None
        spare.remove(same)
        values[var] = as_int(same)
    return values


def accesses(a: Term, b: Term) -> list[tuple[Int, Int]]:
    """Return pairs of indices of corresponding loads in two terms of the same form."""
    xs = _loads(a)
    ys = _loads(b)
    if [x.tensor for x in xs] != [y.tensor for y in ys]:
        raise Different("reductions read different tensors")
    return [p for x, y in zip(xs, ys, strict=True) for p in zip(x.indices, y.indices, strict=True)]


def _loads(term: Term) -> list[Load]:
    """Loads in traversal order, except those in inner reductions."""
    out: list[Load] = []

    def go(term: Term) -> None:
        if isinstance(term, Load):
            out.append(term)
        elif isinstance(term, CallTerm):
            for child in term.args[1:] if term.op == "ite" else term.args:
                go(child)
        elif isinstance(term, Int):
            for terms, _ in term.terms:
                for child in terms:
                    go(child)

    go(term)
    return sorted(out, key=lambda load: load.tensor.position)


def flatten(op: str, term: Term) -> list[Term]:
    if isinstance(term, CallTerm) and term.op == op:
        return [x for a in term.args for x in flatten(op, a)]
    return [term]


def without_zeros(term: Term) -> Term:
    """Return ``x`` for ``0 + x``, which is the same up to the sign of zero."""
    if not (isinstance(term, CallTerm) and term.op == "add" and "float" in term.dtype):
        return term
    remaining = [x for x in term.args if not is_const(x, 0)]
    return remaining[0] if len(remaining) == 1 else term


def clamp(term: Term) -> tuple[Term, float, float] | None:
    """Return ``(v, low, high)`` of a floating-point ``max(min(v, high), low)``, or of its dual.

    Both forms are equal for literals ``low <= high``, unless v is NaN or a zero.
    """
    outer = _bounded(term)
    inner = None if outer is None else _bounded(outer[1])
    if outer is None or inner is None or {outer[0], inner[0]} != {"min", "max"}:
        return None
    low, high = sorted(((outer[0], outer[2]), (inner[0], inner[2])))
    return (inner[1], low[1], high[1]) if low[1] <= high[1] else None


def _bounded(term: Term) -> tuple[str, Term, float] | None:
    """``op(v, literal)`` as ``(op, v, literal)``."""
    if not (isinstance(term, CallTerm) and term.op in ("min", "max") and "float" in term.dtype):
        return None
    literals = [a for a in term.args if isinstance(a, Const)]
    others = [a for a in term.args if not isinstance(a, Const)]
    if len(literals) != 1 or len(others) != 1:
        return None
    return term.op, others[0], float(literals[0].value)


def pairings(xs: list[Term], ys: list[Term]) -> Iterator[list[tuple[Term, Term]]]:
    """Yield pairings of operands of the same form, at most a handful."""
    if len(xs) != len(ys):
        raise Different(f"{len(xs)} operands and {len(ys)}")
    if sorted(map(head, xs)) != sorted(map(head, ys)):
        loose = any(is_choice(t) for t in (*xs, *ys))
        if not loose:
            raise Different(f"operands {sorted(map(head, xs))} and {sorted(map(head, ys))}")
    tried = 0
    for order in permutations(ys):
        pairs = list(zip(xs, order, strict=True))
        if all(head(x) == head(y) or is_choice(x) or is_choice(y) for x, y in pairs):
            yield pairs
            tried += 1
            if tried >= PERMUTATIONS:
                return


def head(term: Term) -> str:
    """Return the outermost operation of a term, without its operands."""
    if isinstance(term, Load):
        return f"load of {term.tensor.name}#{term.tensor.position}"
    if isinstance(term, CallTerm):
        return term.op
    if isinstance(term, Const):
        rounded = _ROUND.get(term.dtype)
        return repr(term) if rounded is None else repr(float(rounded(term.value)))
    return type(term).__name__.lower()


_ROUND: dict[str, type[np.floating]] = {"float32": np.float32, "float16": np.float16}


def same_number(a: Term, b: Term) -> bool:
    """Return whether two literals are one number of their type: TVM does not round literals."""
    rounded = _ROUND.get(a.dtype)
    if rounded is None or not (isinstance(a, Const) and isinstance(b, Const)):
        return False
    return bool(rounded(a.value).tobytes() == rounded(b.value).tobytes())


#: The relative difference up to which two literals are equal but for rounding.
_NEAR = {"float32": 5e-7, "float64": 1e-15}


def nearly_equal(a: Term, b: Term) -> bool:
    """Return whether two literals differ by units in the last place."""
    if not (isinstance(a, Const) and isinstance(b, Const)) or a.dtype not in _NEAR:
        return False
    return math.isclose(float(a.value), float(b.value), rel_tol=_NEAR[a.dtype])


def is_integral(term: Term) -> bool:
    """Return whether the value is an integer, or a truth value in place of one."""
    return isinstance(term, Int) or term.dtype.startswith(("int", "uint", "bool"))


def is_choice(term: Term) -> bool:
    return isinstance(term, CallTerm) and term.op == "ite"


def first_success(attempts: Iterable[Callable[[], None]], otherwise: str) -> None:
    """Try proofs until one succeeds; raise `Different` with why the last one failed."""
    error = Different(otherwise)
    for attempt in attempts:
        try:
            return attempt()
        except Different as failure:
            error = failure
    raise error
