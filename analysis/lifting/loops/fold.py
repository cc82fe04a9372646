"""Loops that carry values in an order that matters, such as argmax.

    for i in range(n): state0, state1, … = update0, update1, …        (simultaneously)

A loop whose iterations update elements from each other's previous values is a `Fold` over one axis,
run in order. Nested loops over the same states are one fold over the fused axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...proofs.context import simplify
from ...terms.condition_terms import conj, ge0, ite, parts
from ...terms.integer import floordiv
from ...terms.order import nonneg, ranges_over
from ...terms.quotient import is_div
from ...terms.term import (
    FOREVER,
    INT_DTYPES,
    SIZES,
    ZERO,
    CallTerm,
    Fold,
    Int,
    TensorVar,
    Term,
    Var,
    as_int,
    bare,
    fold,
    load,
    mul,
    raw_call,
    variable,
)
from ...terms.traversal import free, replace, substitute, subterms
from ..effects.effects import Write
from ..tir.unliftable import Unliftable

Terms = tuple[Term, ...]


def close_together(
    var: Var, tensor: TensorVar, group: Mapping[TensorVar, Write], places: Mapping[TensorVar, int]
) -> Write:
    """Return the effect of a loop on one tensor of a group that read each other's elements.

    Args:
        var: The loop variable.
        tensor: The tensor of the group whose write is returned.
        group: The only write of each tensor, `tensor` included.
        places: A number for each tensor of the group.
    """
    order = [tensor, *(member for member in group if member is not tensor)]
    writes = [group[member] for member in order]
    loads = [bare(load(member, w.index)) for member, w in zip(order, writes, strict=True)]
    inside, outside = zip(*(_guards(var, w, loads) for w in writes), strict=True)
    if any(o is not outside[0] for o in outside) or any(
        write.vars not in ((), writes[0].vars) or set(write.inverse) != set(write.vars)
        for write in writes
    ):
        raise Unliftable("elements that depend on each other are not updated together", tensor.name)
    updates = tuple(
        ite(condition, write.value, as_int(term) if isinstance(write.value, Int) else term)
        for condition, write, term in zip(inside, writes, loads, strict=True)
    )
    states = tuple(
        raw_call(
            f"state {var.name}.{places[member]}",
            (),
            "int" if term.dtype in INT_DTYPES else term.dtype,
        )
        for member, term in zip(order, loads, strict=True)
    )
    inits, updates = _started(var, loads, states, updates)
    return Write(
        writes[0].vars, outside[0], writes[0].index, make_fold(var, states, inits, updates)
    )


def _guards(var: Var, write: Write, loads: Sequence[Term]) -> tuple[Term, Term]:
    """The parts of a guard that are decided in each iteration, and before the loop."""
    varies = [
        condition
        for condition in parts(write.guard)
        if var in free(condition) or not set(loads).isdisjoint(subterms(condition))
    ]
    return conj(*varies), conj(
        *(condition for condition in parts(write.guard) if condition not in varies)
    )


def _started(
    var: Var, loads: Sequence[Term], states: tuple[CallTerm, ...], updates: Terms
) -> tuple[Terms, Terms]:
    """Initial values and updates over the states.

    If later iterations see an element where the first one sees a reset, the reset is the initial
    value, provided that the first iteration gives the same result.
    """
    placed = dict(zip(loads, states, strict=True))
    resets = _resets(var, loads, updates)
    inits = tuple(
        next((bare(substitute(s, {var: ZERO})) for s, y in resets.items() if y is term), term)
        for term in loads
    )
    seen = {**placed, **{s: placed[x] for s, x in resets.items()}}
    general = tuple(replace(u, seen) for u in updates)
    start, first = dict(zip(states, inits, strict=True)), {var: ZERO}
    for update, rewritten in zip(updates, general, strict=True):
        if bare(substitute(update, first)) is not bare(
            replace(substitute(rewritten, first), start)
        ):
            return tuple(loads), tuple(replace(u, placed) for u in updates)
    return inits, general


def _resets(var: Var, loads: Sequence[Term], updates: Terms) -> dict[Term, Term]:
    """Selections that equal an element in every iteration except the first."""
    later = (ge0(as_int(var) - 1),)
    resets: dict[Term, Term] = {}
    for term in (s for u in updates for s in subterms(u)):
        if isinstance(term, CallTerm) and term.op == "ite" and var in free(term.args[0]):
            seen = bare(simplify(term, later))
            if seen in loads:
                resets[term] = seen
    return resets


# ---------------------------------------------------------------------------- normal form


def make_fold(axis: Var, states: tuple[CallTerm, ...], inits: Terms, updates: Terms) -> Term:
    """Return the first state after the loop, without unneeded states, over one axis."""
    needed, stack = {states[0]}, [updates[0]]
    by_state = dict(zip(states, updates, strict=True))
    while stack:
        for term in subterms(stack.pop()):
            if term in by_state and term not in needed:
                needed.add(term)
                stack.append(by_state[term])
    rows = [r for r in zip(states, inits, updates, strict=True) if r[0] in needed]
    rows[1:] = sorted(rows[1:], key=lambda r: r[0].uid)
    states, inits, updates = zip(*rows, strict=True)
    return (
        _flattened(axis, states, inits, updates)
        or _strided(axis, states, inits, updates)
        or _trimmed(axis, states, inits, updates)
    )


def _flattened(
    axis: Var, states: tuple[CallTerm, ...], inits: Terms, updates: Terms
) -> Term | None:
    """Nested folds of the same states, where the inner one starts from the outer one's."""
    inner = bare(updates[0])
    if not isinstance(inner, Fold) or {*map(bare, inner.inits)} != set(states):
        return None
    if len(inner.states) != len(states) or inner.axis.extent is None or axis.extent is None:
        return None
    if (
        FOREVER in (axis.extent, inner.axis.extent)
        or axis in free(inner.axis.extent)
        or any(not set(states).isdisjoint(subterms(u)) for u in inner.updates)
    ):
        return None
    outer = {s: states.index(bare(x)) for s, x in zip(inner.states, inner.inits, strict=True)}
    for k, call in enumerate(inner.states):
        if bare(updates[outer[call]]) is not bare(_result(inner, k)):
            return None
    name = f"{axis.name}.{inner.axis.name}"
    fused = variable("loop", name, mul(axis.extent, inner.axis.extent))
    high = floordiv(as_int(fused), inner.axis.extent)
    mapping = {axis: high, inner.axis: as_int(fused) - mul(high, inner.axis.extent)}
    renamed = {s: states[k] for s, k in outer.items()}
    new = {outer[s]: u for s, u in zip(inner.states, inner.updates, strict=True)}
    ordered = tuple(replace(substitute(new[k], mapping), renamed) for k in sorted(new))
    return make_fold(fused, states, inits, ordered)


def _result(loop: Fold, k: int) -> Term:
    """Another state of the same loop."""
    order = [k, *(j for j in range(len(loop.states)) if j != k)]
    states, inits, updates = (
        tuple(terms[j] for j in order) for terms in (loop.states, loop.inits, loop.updates)
    )
    return make_fold(loop.axis, states, inits, updates)  # type: ignore[arg-type]


def _strided(axis: Var, states: tuple[CallTerm, ...], inits: Terms, updates: Terms) -> Term | None:
    """The loop over every n-th iteration, if all others are idle: ``axis % n == r``."""
    first, extent = bare(updates[0]), axis.extent
    assert extent is not None
    for term in parts(first.args[0]) if isinstance(first, CallTerm) and first.op == "ite" else ():
        if not (isinstance(term, CallTerm) and term.op == "eq0") or axis not in free(term):
            continue
        match = _remainder(as_int(term.args[0]), axis)
        if match is None or not all(idle(term, u, s) for u, s in zip(updates, states, strict=True)):
            continue
        divisor, remainder = match
        count = floordiv(extent, divisor)
        if mul(count, divisor) is not extent or not ranges_over(remainder, divisor):
            continue
        runs = variable("loop", f"{axis.name}/", count)
        mapping = {axis: mul(as_int(runs), divisor) + remainder}
        return make_fold(runs, states, inits, tuple(substitute(u, mapping) for u in updates))
    return None


def _remainder(poly: Int, axis: Var) -> tuple[Int, Int] | None:
    """(n, r) if the polynomial is ``axis - n * (axis // n) - r`` up to its sign."""
    sign = dict(poly.terms).get((axis,), 0)
    if sign not in (1, -1):
        return None
    rest = poly * sign - as_int(axis)
    for quotient in (s for s in subterms(rest) if isinstance(s, CallTerm) and is_div(s)):
        if quotient.args[0] is not as_int(axis):
            continue
        divisor = as_int(quotient.args[1])
        remainder = -(rest + mul(divisor, as_int(quotient)))
        if axis not in free(remainder):
            return divisor, remainder
    return None


def _trimmed(axis: Var, states: tuple[CallTerm, ...], inits: Terms, updates: Terms) -> Term:
    """The loop without final iterations that a guard ``axis < extent`` makes idle."""
    first = bare(updates[0])
    assert axis.extent is not None
    for term in parts(first.args[0]) if isinstance(first, CallTerm) and first.op == "ite" else ():
        if not (isinstance(term, CallTerm) and term.op == "ge0"):
            continue
        extent = as_int(term.args[0]) + as_int(axis) + 1
        if any(v.kind not in SIZES for v in free(extent)) or not nonneg(extent - 1):
            continue
        are_idle = (idle(term, u, s) for u, s in zip(updates, states, strict=True))
        if nonneg(axis.extent - extent) and all(are_idle):
            short = variable("loop", f"{axis.name}'", extent)
            mapping = {axis: as_int(short)}
            return make_fold(short, states, inits, tuple(substitute(u, mapping) for u in updates))
    return fold(axis, states, inits, updates)


def idle(condition: Term, update: Term, state: Term) -> bool:
    """Return whether an update keeps the state wherever the condition does not hold."""
    term = bare(update)
    if not (isinstance(term, CallTerm) and term.op == "ite" and condition in parts(term.args[0])):
        return False
    return bare(term.args[2]) is state
