"""Pair the parts of two terms: candidates, not proofs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import permutations

import numpy as np

from ..solving.integer_equations import solve
from ..terms.scalar import is_const
from ..terms.term import CallTerm, Const, Int, Load, Term, Var, as_int
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
    for v in missing:
        same = next((w for w in spare if w.extent is v.extent), None)
        if same is None:
            return None
        spare.remove(same)
        values[v] = as_int(same)
    return values


def accesses(a: Term, b: Term) -> list[tuple[Int, Int]]:
    """Return pairs of indices of corresponding loads in two terms of the same form."""
    xs = _loads(a)
    ys = _loads(b)
    if [x.tensor for x in xs] != [y.tensor for y in ys]:
        raise Different("reductions read different tensors")
    return [p for x, y in zip(xs, ys, strict=True) for p in zip(x.indices, y.indices, strict=True)]


def _loads(t: Term) -> list[Load]:
    """Loads in traversal order, except those in inner reductions."""
    out: list[Load] = []

    def go(s: Term) -> None:
        if isinstance(s, Load):
            out.append(s)
        elif isinstance(s, CallTerm):
            for x in s.args[1:] if s.op == "ite" else s.args:
                go(x)
        elif isinstance(s, Int):
            for m, _ in s.terms:
                for x in m:
                    go(x)

    go(t)
    return sorted(out, key=lambda s: s.tensor.position)


def flatten(op: str, t: Term) -> list[Term]:
    if isinstance(t, CallTerm) and t.op == op:
        return [x for a in t.args for x in flatten(op, a)]
    return [t]


def without_zeros(t: Term) -> Term:
    """Return ``x`` for ``0 + x``, which is the same up to the sign of zero."""
    if not (isinstance(t, CallTerm) and t.op == "add" and "float" in t.dtype):
        return t
    remaining = [x for x in t.args if not is_const(x, 0)]
    return remaining[0] if len(remaining) == 1 else t


def clamp(t: Term) -> tuple[Term, float, float] | None:
    """Return ``(v, low, high)`` of a floating-point ``max(min(v, high), low)``, or of its dual.

    Both forms are equal for literals ``low <= high``, unless v is NaN or a zero.
    """
    outer = _bounded(t)
    inner = None if outer is None else _bounded(outer[1])
    if outer is None or inner is None or {outer[0], inner[0]} != {"min", "max"}:
        return None
    low, high = sorted(((outer[0], outer[2]), (inner[0], inner[2])))
    return (inner[1], low[1], high[1]) if low[1] <= high[1] else None


def _bounded(t: Term) -> tuple[str, Term, float] | None:
    """``op(v, literal)`` as ``(op, v, literal)``."""
    if not (isinstance(t, CallTerm) and t.op in ("min", "max") and "float" in t.dtype):
        return None
    literals = [a for a in t.args if isinstance(a, Const)]
    others = [a for a in t.args if not isinstance(a, Const)]
    if len(literals) != 1 or len(others) != 1:
        return None
    return t.op, others[0], float(literals[0].value)


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


def head(t: Term) -> str:
    if isinstance(t, Load):
        return f"load of {t.tensor.name}#{t.tensor.position}"
    if isinstance(t, CallTerm):
        return t.op
    if isinstance(t, Const):
        rounded = _ROUND.get(t.dtype)
        return repr(t) if rounded is None else repr(float(rounded(t.value)))
    return type(t).__name__.lower()


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


def is_integral(t: Term) -> bool:
    """Return whether the value is an integer, or a truth value in place of one."""
    return isinstance(t, Int) or t.dtype.startswith(("int", "uint", "bool"))


def is_choice(t: Term) -> bool:
    return isinstance(t, CallTerm) and t.op == "ite"
