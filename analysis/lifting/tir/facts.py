"""Divisions that simplify where a condition holds.

Before: ``(64*c + 8*(y + r - 1) + x) // 64`` where ``0 <= y + r - 1 < 8``; after: ``c``.

A sum with a known range is replaced by a variable with that domain, the normal form simplifies the
division, and the sum is substituted back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...proofs.implication import follows_from
from ...terms.condition_terms import conj, ge0, ite, negate, parts
from ...terms.order import bounds, nonneg
from ...terms.quotient import is_div
from ...terms.term import (
    ONE,
    SIZES,
    TRUE,
    ZERO,
    CallTerm,
    Int,
    Load,
    Term,
    Var,
    as_int,
    fresh,
    load,
    polynomial,
)
from ...terms.traversal import free, ints, rebuild, subterms

Index = tuple[Int, ...]


def simplify_index(facts: Sequence[Term], index: Index) -> Index:
    """Return the same coordinates wherever the facts hold, with fewer divisions if possible."""
    before = _divisions(index)
    if not before or not facts:
        return index
    current, back, replaced = index, list[tuple[Var, Int]](), list[tuple[Var, Int]]()
    for total, low, high in _ranges(facts):
        for var, value in replaced:
            total = ints(total, {var: value})
        step = _replaced(total, low, high)
        if step is None or not any(step[0] in free(p) for p in current):
            continue
        var, value, sum_var, summand = step
        current = tuple(ints(p, {var: value}) for p in current)
        replaced.append((var, value))
        back.append((sum_var, summand))
    for sum_var, summand in reversed(back):
        current = tuple(ints(p, {sum_var: summand}) for p in current)
    return current if _divisions(current) < before else index


def _divisions(index: Index) -> int:
    return len({t for p in index for t in subterms(p) if is_div(t)})


def _ranges(facts: Sequence[Term]) -> Iterator[tuple[Int, Int, Int]]:
    """``low <= total <= high`` with bounds over sizes."""
    lows, highs = dict[Int, Int](), dict[Int, Int]()
    for term in facts:
        if not (isinstance(term, CallTerm) and term.op in ("ge0", "eq0")):
            continue
        poly = as_int(term.args[0])
        total, offset = _split(poly)
        if term.op == "eq0":
            lows[total] = highs[total] = -offset
        elif total.terms and total.terms[0][1] > 0:
            lows[total] = -offset
        else:
            highs[-total] = offset
    for total in {**lows, **highs}:
        lo, hi = bounds(total)
        low, high = lows.get(total, lo), highs.get(total, hi)
        if total is not ZERO and low is not None and high is not None:
            yield total, low, high


def _split(poly: Int) -> tuple[Int, Int]:
    """The part of an integer that varies, and the part over sizes."""
    varies = {m: c for m, c in poly.terms if any(v.kind not in SIZES for a in m for v in free(a))}
    total = polynomial(varies)
    return total, poly - total


def _replaced(total: Int, low: Int, high: Int) -> tuple[Var, Int, Var, Int] | None:
    """A summand over a variable for the sum, and that variable over the summands."""
    for mono, coef in reversed(total.terms):
        if len(mono) != 1 or coef not in (1, -1):
            continue
        (term,) = mono
        if not isinstance(term, Var) or term.kind in SIZES:
            continue
        others = total - as_int(term) * coef
        if term in free(others):
            continue
        extent = high - low + 1
        if not nonneg(extent - 1):
            return None
        var = fresh(extent, "u")
        inside = ZERO if extent is ONE else as_int(var)
        return term, (inside + low - others) * coef, var, total - low
    return None


def _simplified(condition: Term, facts: tuple[Term, ...]) -> Term:
    """Return a conjunction with simpler divisions, without what its other parts imply."""
    todo = sorted(parts(condition), key=lambda part: not any(map(is_div, subterms(part))))
    for k, part in enumerate(todo):
        others = [p for p in (*facts, *todo[:k], *todo[k + 1 :]) if p is not TRUE]
        if isinstance(part, CallTerm) and part.op == "ge0":
            part = ge0(simplify_index(others, (as_int(part.args[0]),))[0])
        todo[k] = TRUE if follows_from(part, others) else part
    return conj(*todo)


def simplify_coordinates(term: Term, facts: tuple[Term, ...] = ()) -> Term:
    """Return the term with simplified coordinates; those in a selection use its condition."""
    if not any(is_div(s) for s in subterms(term)):
        return term
    memo = dict[Term, Term]()

    def go(term: Term) -> Term:
        result = memo.get(term)
        if result is None:
            if isinstance(term, CallTerm) and term.op == "ite":
                condition, yes, no = term.args
                condition = _simplified(condition, facts)
                result = ite(
                    condition,
                    simplify_coordinates(yes, (*facts, *parts(condition))),
                    simplify_coordinates(no, (*facts, *parts(negate(condition)))),
                )
            elif isinstance(term, Load):
                result = load(
                    term.tensor, simplify_index(facts, tuple(as_int(go(i)) for i in term.indices))
                )
            else:
                result = rebuild(term, go)
            memo[term] = result
        return result

    return go(term)
