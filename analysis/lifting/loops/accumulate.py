"""A reduction: every iteration of a loop combines a value into the same element.

    for i in range(n): state = state ⊕ f(i)        state = seed ⊕ ⊕_i f(i)

A reset in the first iteration is the seed. A selection that does not depend on the state is a guard
of f. An unrolled loop is rerolled.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...proofs.prove import prove
from ...terms.condition_terms import conj, ge0, ite, negate, parts
from ...terms.integer import floordiv
from ...terms.reduction_terms import identity, reduce, split_guard
from ...terms.scalar import call as scalar_call
from ...terms.scalar import extreme
from ...terms.term import (
    ZERO,
    CallTerm,
    Int,
    Reduce,
    TensorVar,
    Term,
    Var,
    as_int,
    bare,
    fresh,
    integer,
    polynomial,
)
from ...terms.traversal import free, rebuild, substitute, subterms, tensors
from ..effects.effects import Write
from ..tir.unliftable import Unliftable

#: Longer bodies of unrolled loops stay as they are.
_MOST_UNROLLED = 64


class NoReduction(Unliftable):
    """An update of an element is not a commutative reduction: its order matters."""


def runs(var: Var) -> Term:
    """Return whether the loop has an iteration."""
    assert var.extent is not None
    return ge0(var.extent - 1)


def accumulate(var: Var, tensor: TensorVar, write: Write, state: Term) -> Write:
    """Return the write for ``state = op(state, f(i))`` over i, possibly reset in iteration 0."""
    varies = [c for c in parts(write.guard) if var in free(c) or occurs(state, c)]
    inside, outside = conj(*varies), conj(*(c for c in parts(write.guard) if c not in varies))
    same = as_int(state) if isinstance(write.value, Int) else state
    value = ite(inside, write.value, same)
    return Write(write.vars, outside, write.index, state_after_loop(var, tensor, value, state))


def state_after_loop(var: Var, tensor: TensorVar, value: Term, state: Term) -> Term:
    """Return the state after the loop; a selection independent of it is handled by branch."""
    assert var.extent is not None
    if not occurs(state, value):
        before = as_int(state) if isinstance(value, Int) else state
        return ite(runs(var), substitute(value, {var: var.extent - 1}), before)
    term = value.atom if isinstance(value, Int) else value
    if isinstance(term, CallTerm) and term.op == "ite" and not occurs(state, term.args[0]):
        if var not in free(term.args[0]) and not occurs(state, term.args[1]):
            yes, no = (state_after_loop(var, tensor, v, state) for v in term.args[1:])
            return ite(term.args[0], yes, no)
    op = combiner(value, state)
    if op is None:
        raise NoReduction("unknown kind of reduction", tensor.name)
    seed, terms = _peel(value, op, state, var)
    if seed is None or not terms or any(occurs(state, t) for t in terms):
        raise NoReduction("unknown kind of reduction", tensor.name)
    rolled = _rolled(var, terms) or _rolled(var, _operands(op, terms))
    if rolled is not None:
        return reduce(op, rolled[0], rolled[1], seed, tensor.dtype)
    return reduce(op, (var,), _together(op, terms), seed, tensor.dtype)


def combined(value: Term, state: Term, var: Var) -> tuple[str, Term] | None:
    """Return the operation and f of an update ``state ⊕ f``; None for other updates."""
    op = combiner(value, state)
    if op is None:
        return None
    seed, terms = _peel(value, op, state, var)
    if seed is None or bare(seed) is not state or any(occurs(state, t) for t in terms):
        return None
    return (op, _together(op, terms)) if terms else None


def _together(op: str, terms: list[Term]) -> Term:
    body = terms[0]
    for term in terms[1:]:
        body = _combine(op, body, term)
    return body


def _operands(op: str, terms: Iterable[Term]) -> list[Term]:
    """The terms, with each that is a combination itself by its operands."""
    out: list[Term] = []
    for term in terms:
        inner = term.atom if isinstance(term, Int) else term
        if isinstance(inner, CallTerm) and inner.op == op:
            out += _operands(op, inner.args)
        elif isinstance(term, Int) and op == "add":
            out += [polynomial({mono: coef}) for mono, coef in term.terms]
        else:
            out.append(term)
    return out


def _rolled(var: Var, terms: list[Term]) -> tuple[tuple[Var], Term] | None:
    """An unrolled loop, ``f(u*i), f(u*i + 1), …, f(u*i + u-1)``, as one loop over f."""
    count = len(terms)
    if not 1 < count <= _MOST_UNROLLED or var.extent is None:
        return None
    axis = fresh(var.extent * count)
    high = floordiv(as_int(axis), integer(count))
    for first in terms:
        substituted = substitute(first, {var: high})
        # ``u * (axis // u)`` appears where the axis should, so replacing it by the axis gives f
        body = _replaced(substituted, high * count, as_int(axis))
        unrolled = [substitute(body, {axis: as_int(var) * count + j}) for j in range(count)]
        if sorted(t.uid for t in unrolled) == sorted(t.uid for t in terms):
            return (axis,), body
    return None


def _replaced(term: Term, old: Int, new: Int) -> Term:
    """Replace a scaled atom in the integers of a term: ``c * old + e`` becomes ``c * new + e``."""
    (mono, scale), *_ = old.terms

    def go(term: Term) -> Term:
        if isinstance(term, Int):
            coef = dict(term.terms).get(mono)
            if coef is not None and coef % scale == 0:
                return term + (new - old) * (coef // scale)
        return rebuild(term, go)

    return go(term)


def occurs(state: Term, term: Term) -> bool:
    """Return whether the state, an element of a tensor or a symbol, occurs in a term."""
    return tensors(state) <= tensors(term) and any(s is state for s in subterms(term))


def combiner(value: Term, state: Term) -> str | None:
    """Return the operation that combines a value into ``state``."""
    for term in (value.atom,) if isinstance(value, Int) and value.atom else (value,):
        if isinstance(term, Reduce) and occurs(state, term.init):
            return term.op
        if isinstance(term, CallTerm):
            if term.op in ("add", "mul", "max", "min", "and", "or"):
                return term.op
            if term.op == "ite":
                return combiner(term.args[1], state) or combiner(term.args[2], state)
    if isinstance(value, Int) and _factor(value, state) is not None:
        return "mul"
    return "add" if isinstance(value, Int) and len(value.terms) > 1 else None


def _factor(poly: Int, state: Term) -> tuple[Term, Int] | None:
    """The factors of ``poly = atom * factor`` where only the atom contains the state."""
    factors, atoms = {}, set()
    for mono, coef in poly.terms:
        carriers = [a for a in mono if occurs(state, a)]
        atoms.update(carriers)
        if len(carriers) != 1:
            return None
        factors[tuple(a for a in mono if a is not carriers[0])] = coef
    return (atoms.pop(), polynomial(factors)) if len(atoms) == 1 else None


def _combine(op: str, a: Term, b: Term) -> Term:
    if isinstance(a, Int) and isinstance(b, Int):
        return a + b if op == "add" else a * b if op == "mul" else extreme(op, a, b)
    return scalar_call(op, (a, b), a.dtype)


def _peel(value: Term, op: str, state: Term, var: Var) -> tuple[Term | None, list[Term]]:
    """The parts of ``value = seed ⊕ terms[0] ⊕ …``; the seed is the state before, or a reset."""
    term = value.atom if isinstance(value, Int) else value
    if term is state:
        return value, []
    if isinstance(value, Int) and term is None:
        return (
            _peel_sum(value, op, state, var)
            if op == "add"
            else _peel_product(value, op, state, var)
        )
    if isinstance(term, Reduce) and term.op == op:
        seed, terms = _peel(term.init, op, state, var)
        unit = identity(op, term.dtype)
        if unit is None:
            return None, []
        return seed, [*terms, reduce(op, term.axes, term.body, unit, term.dtype)]
    if not isinstance(term, CallTerm):
        return None, []
    if term.op == "ite":
        return _peel_ite(term, op, state, var)
    if term.op == op:
        carriers = [a for a in term.args if occurs(state, a)]
        others = [a for a in term.args if not occurs(state, a)]
        if len(carriers) == 1 and others:
            seed, terms = _peel(carriers[0], op, state, var)
            return seed, [*terms, *others]
    return None, []


def _peel_sum(poly: Int, op: str, state: Term, var: Var) -> tuple[Term | None, list[Term]]:
    carriers = [(m, c) for m, c in poly.terms if any(occurs(state, a) for a in m)]
    if len(carriers) != 1 or carriers[0][1] != 1 or len(carriers[0][0]) != 1:
        return None, []
    part = as_int(carriers[0][0][0])
    seed, terms = _peel(part, op, state, var)
    return seed, [*terms, poly - part]


def _peel_product(poly: Int, op: str, state: Term, var: Var) -> tuple[Term | None, list[Term]]:
    factored = _factor(poly, state) if op == "mul" else None
    if factored is None:
        return None, []
    seed, terms = _peel(as_int(factored[0]), op, state, var)
    return seed, [*terms, factored[1]]


def _peel_ite(call: CallTerm, op: str, state: Term, var: Var) -> tuple[Term | None, list[Term]]:
    condition, yes, no = call.args
    if occurs(state, condition):
        return None, []
    if not occurs(state, no):
        condition, yes, no = negate(condition), no, yes
    if not occurs(state, yes):  # a reset: only the first iteration may take it
        seed, terms = _peel(no, op, state, var)
        if seed is None or not _only_first(condition, var):
            return None, []
        start = conj(runs(var), substitute(condition, {var: ZERO}))
        first = substitute(yes, {var: ZERO})
        if not terms:
            return ite(start, first, seed), []
        return None, []
    guard, inner = split_guard(call, no)
    seed, terms = _peel(inner, op, state, var)
    plain, none = _peel(no, op, state, var)
    unit = identity(op, call.dtype)
    if seed is None or plain is None or unit is None or terms[: len(none)] != none:
        return None, []
    terms = terms[len(none) :]
    if seed is not plain:
        start = conj(runs(var), substitute(guard, {var: ZERO}))
        seed = seed if prove(start).proved else ite(start, seed, plain)
    return seed, [*none, *(ite(guard, f, unit) for f in terms)]


def _only_first(condition: Term, var: Var) -> bool:
    """Whether the condition is false in every iteration after the first."""
    assert var.extent is not None
    later = fresh(var.extent - 1) if var.extent.const != 1 else None
    if later is None:
        return True
    return prove(negate(substitute(condition, {var: as_int(later) + 1}))).proved
