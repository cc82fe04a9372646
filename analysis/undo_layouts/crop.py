"""Padding of a packed dimension: a literal tail of an output, an unread tail of an input.

Before: out[n, c] = 0 if c >= 6 else exp(x[n, c])   over 8      After: exp(x[n, c])   over 6
"""

from __future__ import annotations

from dataclasses import replace

from ..lifting.effects.tensor_expression import Comprehension
from ..proofs.context import simplify, thorough
from ..terms.order import bounds
from ..terms.scalar import ge0
from ..terms.term import ONE, CallTerm, Const, Int, TensorVar, Term, Var, as_int, integer
from .move import LogicalState, apply_change, crop, guarded_loads
from .tensor_access import bare


def crop_padding(state: LogicalState) -> LogicalState:
    """Return the state without the padding of packed dimensions."""
    for crop_side in (_output, _input):  # in this order: the reads depend on the writes
        for position, t in enumerate(state.lifted.params):
            if not isinstance(t, TensorVar) or not _packed(state, position):
                continue
            for d in range(len(t.shape)):
                state = crop_side(state, position, d) or state
    return state


def _packed(state: LogicalState, position: int) -> bool:
    """Whether a buffer was merged, or has a dimension of extent 1 that may be the outer digit."""
    return bool(state.of(position)) or ONE in state.tensor(position).shape


def _output(state: LogicalState, position: int, d: int) -> LogicalState | None:
    c = next((c for c in state.lifted.outputs if c.out.position == position), None)
    full = None if c is None else c.out.shape[d].const
    if c is None or full is None or not isinstance(c.axes[d].atom, Var):
        return None
    if not _chooses_literal(c.body):
        return None
    low, high, literal = 1, full, None
    while low < high:  # the tail is a literal from `high` on
        middle = (low + high) // 2 if literal is not None else full - 1
        tail = simplify(c.body, (ge0(c.axes[d] - middle),), thorough)
        if _literal(tail) and (literal is None or tail is literal):
            high, literal = middle, tail
        elif literal is None:
            return None
        else:
            low = middle + 1
    return None if literal is None else _without_tail(state, c, d, high, literal)


def _chooses_literal(body: Term) -> bool:
    t = bare(body)
    return isinstance(t, CallTerm) and t.op == "ite" and any(map(_literal, t.args[1:]))


def _literal(t: Term) -> bool:
    return isinstance(t, Const) or (isinstance(t, Int) and t.const is not None)


def _without_tail(
    state: LogicalState, c: Comprehension, d: int, extent: int, tail: Term
) -> LogicalState:
    subject = f"of the {c.out.shape[d]!r} elements of %{c.out.position} along its packed dimension"
    body = simplify(c.body, (ge0(integer(extent - 1) - c.axes[d]),), thorough)
    short = replace(c, body=body)
    outputs = tuple(short if o is c else o for o in state.lifted.outputs)
    state = replace(
        state,
        lifted=replace(state.lifted, outputs=outputs),
        notes=(*state.notes, f"{subject} those from {extent} are {tail!r}"),
    )
    return apply_change(state, c.out.position, crop(c.out, d, integer(extent)))


def _input(state: LogicalState, position: int, d: int) -> LogicalState | None:
    t = state.tensor(position)
    full, highest = t.shape[d].const, 0
    loads = [x for c in state.lifted.outputs for x in guarded_loads(c.body, t)]
    if full is None or not loads:
        return None
    for x, facts in loads:
        p = x.indices[d]
        tops = [hi.const for hi in (bounds(p)[1],) if hi is not None]
        tops += [(as_int(f.args[0]) + p).const for f in facts
                 if isinstance(f, CallTerm) and f.op == "ge0"]  # fmt: skip
        known = [k for k in tops if k is not None]
        if not known:
            return None
        highest = max(highest, min(known))
    if highest + 1 >= full:
        return None
    subject = f"of the {t.shape[d]!r} elements of %{position} along its packed dimension"
    note = f"{subject} only the first {highest + 1} are read"
    state = replace(state, notes=(*state.notes, note))
    return apply_change(state, position, crop(t, d, integer(highest + 1)))
