"""The outputs of a lifted function: one closed term over the parameters for each."""

from __future__ import annotations

from collections.abc import Sequence

from ..proofs.clamp import remove_clamps
from ..proofs.context import has_choice, simplify, thorough
from ..terms.quotient import is_div
from ..terms.term import CallTerm, TensorVar, Term, Var, axis
from ..terms.traversal import subterms, tensors
from .effects.tensor_expression import OutputDefinition
from .loops.reduction import canonical
from .state import ExecutionState
from .tir.facts import simplify_coordinates
from .tir.from_tir import Unliftable


def check_outputs(state: ExecutionState, values: Sequence[TensorVar | Var]) -> None:
    """Check that the written buffers are the last parameters, as callers assume."""
    buffers = (t for t in values if isinstance(t, TensorVar) and not t.scalar)
    written = [t in state.effects.writes for t in buffers]
    if True in written and not all(written[written.index(True) :]):
        raise Unliftable("a buffer after the first output is not written")


def output(state: ExecutionState, tensor: TensorVar) -> OutputDefinition:
    """Return the tensor expression of an output."""
    axes = tuple(axis(d, e) for d, e in enumerate(tensor.shape))
    body = state.effects.read(tensor, axes)
    if state.views.values():
        body = simplify_coordinates(body)
    unwritten = _unwritten(state, body, tensor)
    if unwritten is not None or hard_choices(body):
        body = simplify(body, ask=thorough)
        unwritten = _unwritten(state, body, tensor)
    if unwritten is tensor:
        raise Unliftable("an output is read, or some element is not written", tensor.name)
    if unwritten in state.lost:
        raise Unliftable("a buffer local to a thread is read after the kernel", tensor.name)
    if unwritten is not None:
        raise Unliftable("an element is read before it is written", unwritten.name)
    return OutputDefinition(tensor, axes, canonical(remove_clamps(body)))


def _unwritten(state: ExecutionState, body: Term, out: TensorVar) -> TensorVar | None:
    """A tensor that the body reads although its content before the function is not an input."""
    reads = sorted(tensors(body), key=lambda tensor: (tensor.position, tensor.name))
    return next((t for t in reads if t is out or t not in state.inputs), None)


def hard_choices(body: Term) -> bool:
    """Return whether a selection depends on a division and another condition."""
    return has_choice(body) and any(
        isinstance(condition, CallTerm)
        and condition.op == "and"
        and any(is_div(s) for s in subterms(condition))
        for term in subterms(body)
        if isinstance(term, CallTerm) and term.op == "ite"
        for condition in term.args[:1]
    )
