"""Padding of a packed dimension: a literal tail of an output, an unread tail of an input.

Before: out[n, c] = 0 if c >= 6 else exp(x[n, c])   over 8      After: exp(x[n, c])   over 6
"""

from __future__ import annotations

from dataclasses import replace

from ..lifting.effects.tensor_expression import OutputDefinition
from ..proofs.context import simplify, thorough
from ..terms.condition_terms import ge0
from ..terms.order import bounds
from ..terms.term import ONE, CallTerm, TensorVar, Term, Var, as_int, bare, integer
from ..terms.term.literals import is_literal
from .coordinate_change import crop
from .logical_state import LogicalState, apply_change, guarded_loads


def crop_padding(state: LogicalState) -> LogicalState:
    """Return the state without the padding of packed dimensions."""
    for crop_side in (_output, _input):  # in this order: the reads depend on the writes
        for position, param in enumerate(state.lifted.params):
            if not isinstance(param, TensorVar) or not _packed(state, position):
                continue
            for d in range(len(param.shape)):
                state = crop_side(state, position, d) or state
    return state


def _packed(state: LogicalState, position: int) -> bool:
    """Whether a buffer was merged, or has a dimension of extent 1 that may be the outer digit."""
    return bool(state.of(position)) or ONE in state.tensor(position).shape


def _output(state: LogicalState, position: int, d: int) -> LogicalState | None:
    definition = next((c for c in state.lifted.outputs if c.out.position == position), None)
    full = None if definition is None else definition.out.shape[d].const
    if definition is None or full is None or not isinstance(definition.axes[d].atom, Var):
        return None
    if not _chooses_literal(definition.body):
        return None
    low, high, literal = 1, full, None
    while low < high:  # the tail is a literal from `high` on
        middle = (low + high) // 2 if literal is not None else full - 1
        tail = simplify(definition.body, (ge0(definition.axes[d] - middle),), thorough)
        if is_literal(tail) and (literal is None or tail is literal):
            high, literal = middle, tail
        elif literal is None:
            return None
        else:
            low = middle + 1
    return None if literal is None else _without_tail(state, definition, d, high, literal)


def _chooses_literal(body: Term) -> bool:
    term = bare(body)
    return isinstance(term, CallTerm) and term.op == "ite" and any(map(is_literal, term.args[1:]))


def _without_tail(
    state: LogicalState, definition: OutputDefinition, d: int, extent: int, tail: Term
) -> LogicalState:
    out = definition.out
    subject = f"of the {out.shape[d]!r} elements of %{out.position} along its packed dimension"
    body = simplify(definition.body, (ge0(integer(extent - 1) - definition.axes[d]),), thorough)
    short = replace(definition, body=body)
    outputs = tuple(short if o is definition else o for o in state.lifted.outputs)
    state = replace(
        state,
        lifted=replace(state.lifted, outputs=outputs),
        notes=(*state.notes, f"{subject} those from {extent} are {tail!r}"),
    )
    return apply_change(state, definition.out.position, crop(definition.out, d, integer(extent)))


def _input(state: LogicalState, position: int, d: int) -> LogicalState | None:
    tensor = state.tensor(position)
    full, highest = tensor.shape[d].const, 0
    loads = [x for c in state.lifted.outputs for x in guarded_loads(c.body, tensor)]
    if full is None or not loads:
        return None
    for load, facts in loads:
        poly = load.indices[d]
        upper_bounds = [hi.const for hi in (bounds(poly)[1],) if hi is not None]
        upper_bounds += [(as_int(f.args[0]) + poly).const for f in facts
                 if isinstance(f, CallTerm) and f.op == "ge0"]  # fmt: skip
        limits = [k for k in upper_bounds if k is not None]
        if not limits:
            return None
        highest = max(highest, min(limits))
    if highest + 1 >= full:
        return None
    subject = f"of the {tensor.shape[d]!r} elements of %{position} along its packed dimension"
    note = f"{subject} only the first {highest + 1} are read"
    state = replace(state, notes=(*state.notes, note))
    return apply_change(state, position, crop(tensor, d, integer(highest + 1)))
