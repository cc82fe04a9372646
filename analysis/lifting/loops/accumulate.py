"""A reduction: every iteration of a loop combines a value into the same element.

    for i in range(n): state = state ⊕ f(i)        state = seed ⊕ ⊕_i f(i)

A reset in the first iteration is the seed. A selection that does not depend on the state is a guard
of f. An unrolled loop is rerolled.
"""

from __future__ import annotations

from ...proofs.prove import prove
from ...terms.integer import floordiv
from ...terms.scalar import call as scalar_call
from ...terms.scalar import conj, extreme, ge0, identity, ite, negate, parts, reduce, split_guard
from ...terms.term import (
    ZERO,
    CallTerm,
    Int,
    Reduce,
    TensorVar,
    Term,
    Var,
    as_int,
    fresh,
    integer,
    polynomial,
)
from ...terms.traversal import free, rebuild, substitute, subterms, tensors
from ..effects.effects import Write
from ..tir.from_tir import Unliftable


class NoReduction(Unliftable):
    """An update of an element is not a commutative reduction: its order matters."""


def runs(i: Var) -> Term:
    """Return whether the loop has an iteration."""
    assert i.extent is not None
    return ge0(i.extent - 1)


def accumulate(i: Var, tensor: TensorVar, w: Write, state: Term) -> Write:
    """Return the write for ``state = op(state, f(i))`` over i, possibly reset in iteration 0."""
    varies = [c for c in parts(w.guard) if i in free(c) or occurs(state, c)]
    inside, outside = conj(*varies), conj(*(c for c in parts(w.guard) if c not in varies))
    same = as_int(state) if isinstance(w.value, Int) else state
    value = ite(inside, w.value, same)
    return Write(w.vars, outside, w.index, state_after_loop(i, tensor, value, state))


def state_after_loop(i: Var, tensor: TensorVar, value: Term, state: Term) -> Term:
    """Return the state after the loop; a selection independent of it is handled by branch."""
    assert i.extent is not None
    if not occurs(state, value):
        before = as_int(state) if isinstance(value, Int) else state
        return ite(runs(i), substitute(value, {i: i.extent - 1}), before)
    t = value.atom if isinstance(value, Int) else value
    if isinstance(t, CallTerm) and t.op == "ite" and not occurs(state, t.args[0]):
        if i not in free(t.args[0]) and not occurs(state, t.args[1]):
            yes, no = (state_after_loop(i, tensor, v, state) for v in t.args[1:])
            return ite(t.args[0], yes, no)
    op = combiner(value, state)
    if op is None:
        raise NoReduction("an update of an element is not a known reduction", tensor.name)
    seed, terms = _peel(value, op, state, i)
    if seed is None or not terms or any(occurs(state, t) for t in terms):
        raise NoReduction("an update of an element is not a known reduction", tensor.name)
    rolled = _rolled(i, terms)
    if rolled is not None:
        return reduce(op, rolled[0], rolled[1], seed, tensor.dtype)
    body = terms[0]
    for t in terms[1:]:
        body = _combine(op, body, t)
    return reduce(op, (i,), body, seed, tensor.dtype)


def _rolled(i: Var, terms: list[Term]) -> tuple[tuple[Var], Term] | None:
    """An unrolled loop, ``f(u*i), f(u*i + 1), …, f(u*i + u-1)``, as one loop over f."""
    count = len(terms)
    if count == 1 or i.extent is None:
        return None
    k = fresh(i.extent * count)
    high = floordiv(as_int(k), integer(count))
    for first in terms:
        whole = substitute(first, {i: high})
        # ``u * (k // u)`` appears where k should, so replacing it by k gives f
        body = _replaced(whole, high * count, as_int(k))
        unrolled = [substitute(body, {k: as_int(i) * count + j}) for j in range(count)]
        if sorted(t.uid for t in unrolled) == sorted(t.uid for t in terms):
            return (k,), body
    return None


def _replaced(t: Term, old: Int, new: Int) -> Term:
    """Replace a scaled atom in the integers of a term: ``c * old + e`` becomes ``c * new + e``."""
    (mono, scale), *_ = old.terms

    def go(s: Term) -> Term:
        if isinstance(s, Int):
            coef = dict(s.terms).get(mono)
            if coef is not None and coef % scale == 0:
                return s + (new - old) * (coef // scale)
        return rebuild(s, go)

    return go(t)


def occurs(state: Term, t: Term) -> bool:
    """Return whether the state, an element of a tensor or a symbol, occurs in a term."""
    return tensors(state) <= tensors(t) and any(s is state for s in subterms(t))


def combiner(value: Term, state: Term) -> str | None:
    """Return the operation that combines a value into ``state``."""
    for t in (value.atom,) if isinstance(value, Int) and value.atom else (value,):
        if isinstance(t, Reduce) and occurs(state, t.init):
            return t.op
        if isinstance(t, CallTerm):
            if t.op in ("add", "mul", "max", "min", "and", "or"):
                return t.op
            if t.op == "ite":
                return combiner(t.args[1], state) or combiner(t.args[2], state)
    if isinstance(value, Int) and _factor(value, state) is not None:
        return "mul"
    return "add" if isinstance(value, Int) and len(value.terms) > 1 else None


def _factor(v: Int, state: Term) -> tuple[Term, Int] | None:
    """The factors of ``v = atom * e`` where only the atom contains the state."""
    factors, atoms = {}, set()
    for mono, coef in v.terms:
        holds = [a for a in mono if occurs(state, a)]
        atoms.update(holds)
        if len(holds) != 1:
            return None
        factors[tuple(a for a in mono if a is not holds[0])] = coef
    return (atoms.pop(), polynomial(factors)) if len(atoms) == 1 else None


def _combine(op: str, a: Term, b: Term) -> Term:
    if isinstance(a, Int) and isinstance(b, Int):
        return a + b if op == "add" else a * b if op == "mul" else extreme(op, a, b)
    return scalar_call(op, (a, b), a.dtype)


def _peel(v: Term, op: str, state: Term, i: Var) -> tuple[Term | None, list[Term]]:
    """The parts of ``v = seed ⊕ terms[0] ⊕ …``; the seed is the state before, or a reset."""
    t = v.atom if isinstance(v, Int) else v
    if t is state:
        return v, []
    if isinstance(v, Int) and t is None:
        return _peel_sum(v, op, state, i) if op == "add" else _peel_product(v, op, state, i)
    if isinstance(t, Reduce) and t.op == op:
        seed, terms = _peel(t.init, op, state, i)
        unit = identity(op, t.dtype)
        if unit is None:
            return None, []
        return seed, [*terms, reduce(op, t.axes, t.body, unit, t.dtype)]
    if not isinstance(t, CallTerm):
        return None, []
    if t.op == "ite":
        return _peel_ite(t, op, state, i)
    if t.op == op:
        holds = [a for a in t.args if occurs(state, a)]
        others = [a for a in t.args if not occurs(state, a)]
        if len(holds) == 1 and others:
            seed, terms = _peel(holds[0], op, state, i)
            return seed, [*terms, *others]
    return None, []


def _peel_sum(v: Int, op: str, state: Term, i: Var) -> tuple[Term | None, list[Term]]:
    holds = [(m, c) for m, c in v.terms if any(occurs(state, a) for a in m)]
    if len(holds) != 1 or holds[0][1] != 1 or len(holds[0][0]) != 1:
        return None, []
    part = as_int(holds[0][0][0])
    seed, terms = _peel(part, op, state, i)
    return seed, [*terms, v - part]


def _peel_product(v: Int, op: str, state: Term, i: Var) -> tuple[Term | None, list[Term]]:
    factored = _factor(v, state) if op == "mul" else None
    if factored is None:
        return None, []
    seed, terms = _peel(as_int(factored[0]), op, state, i)
    return seed, [*terms, factored[1]]


def _peel_ite(t: CallTerm, op: str, state: Term, i: Var) -> tuple[Term | None, list[Term]]:
    condition, yes, no = t.args
    if occurs(state, condition):
        return None, []
    if not occurs(state, no):
        condition, yes, no = negate(condition), no, yes
    if not occurs(state, yes):  # a reset: only the first iteration may take it
        seed, terms = _peel(no, op, state, i)
        if seed is None or not _only_first(condition, i):
            return None, []
        start = conj(runs(i), substitute(condition, {i: ZERO}))
        first = substitute(yes, {i: ZERO})
        if not terms:
            return ite(start, first, seed), []
        return None, []
    guard, inner = split_guard(t, no)
    seed, terms = _peel(inner, op, state, i)
    plain, none = _peel(no, op, state, i)
    unit = identity(op, t.dtype)
    if seed is None or plain is None or none or unit is None:
        return None, []
    if seed is not plain:
        start = conj(runs(i), substitute(guard, {i: ZERO}))
        seed = seed if prove(start).proved else ite(start, seed, plain)
    return seed, [ite(guard, f, unit) for f in terms]


def _only_first(condition: Term, i: Var) -> bool:
    """Whether the condition is false in every iteration after the first."""
    assert i.extent is not None
    later = fresh(i.extent - 1) if i.extent.const != 1 else None
    if later is None:
        return True
    return prove(negate(substitute(condition, {i: as_int(later) + 1}))).proved
