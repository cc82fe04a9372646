"""The outputs of a lifted function: one closed term over the parameters for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..proofs.clamp import remove_clamps
from ..proofs.context import has_choice, simplify, thorough
from ..solving.coordinate_remainders import by_coordinate
from ..terms.casts import floored
from ..terms.condition_terms import ite
from ..terms.quotient import is_div
from ..terms.term import CallTerm, Int, TensorVar, Term, Var, as_int, axis
from ..terms.traversal import free, rebuild, substitute, subterms, tensors
from .effects.effects import pinned_value
from .effects.tensor_expression import OutputDefinition
from .idle_choices import without_idle_choices
from .loops.reduction import canonical
from .state import ExecutionState
from .tir.facts import simplify_coordinates
from .tir.unliftable import Unliftable


class WritesInPlace(Unliftable):
    """A parameter is updated: it is read before it is written, or an input follows it."""


def check_outputs(state: ExecutionState, values: Sequence[TensorVar | Var]) -> None:
    """Check that the written buffers are the last parameters, as callers assume."""
    buffers = (t for t in values if isinstance(t, TensorVar) and not t.scalar)
    written = [t in state.effects.writes for t in buffers]
    if True in written and not all(written[written.index(True) :]):
        raise WritesInPlace("a buffer after the first output is not written")


def updates(
    state: ExecutionState, values: Sequence[TensorVar | Var]
) -> tuple[tuple[OutputDefinition, ...], tuple[int, ...]]:
    """Return the outputs of a function that may update parameters.

    An updated parameter is an input, its old content, and an output, a tensor of its own.

    Returns:
        The outputs; and for each of them the position of the parameter that it updates, or -1.
    """
    written = [t for t in values if isinstance(t, TensorVar) and t in state.effects.writes]
    buffers = [t for t in values if isinstance(t, TensorVar) and not t.scalar]
    last = max((k for k, t in enumerate(buffers) if t not in written), default=-1)
    definitions = [output(state, t, frozenset(written)) for t in written]
    read = frozenset[TensorVar]().union(*(tensors(c.body) for c in definitions))
    indices = [values.index(t) if t in read or buffers.index(t) < last else -1 for t in written]
    outputs: list[OutputDefinition] = []
    for definition, index in zip(definitions, indices, strict=True):
        if index >= 0:
            old, position = definition.out, len(values) + len(outputs)
            new = TensorVar(old.name, old.shape, old.dtype, position)
            definition = replace(definition, out=new)
        outputs.append(definition)
    return tuple(outputs), tuple(indices)


def output(
    state: ExecutionState, tensor: TensorVar, updated: frozenset[TensorVar] = frozenset()
) -> OutputDefinition:
    """Return the tensor expression of an output; the old content of ``updated`` is an input."""
    axes = tuple(axis(d, e) for d, e in enumerate(tensor.shape))
    body = state.effects.read(tensor, axes)
    if state.views.values() or divides_by_size(body):
        body = simplify_coordinates(body)
    unwritten = _unwritten(state, body, tensor, updated)
    if unwritten is not None or hard_choices(body):
        body = simplify(body, ask=thorough)
        unwritten = _unwritten(state, body, tensor, updated)
    if unwritten is tensor:
        raise WritesInPlace("an output is read, or some element is not written", tensor.name)
    if unwritten in state.lost:
        raise Unliftable("a buffer local to a thread is read after the kernel", tensor.name)
    if unwritten is not None:
        raise Unliftable("an element is read before it is written", unwritten.name)
    body = _whole_indices(body)
    body = without_idle_choices(by_coordinate(_at_its_place(body, axes)))
    return OutputDefinition(tensor, axes, canonical(remove_clamps(body)))


def _whole_indices(body: Term) -> Term:
    """Return the body with floors of scaled indices as quotients, if it is moved data alone.

    Where an index is a number as well, as a weight of an interpolation, both stay.
    """
    if not any(isinstance(s, CallTerm) and s.op == "floor" for s in subterms(body)):
        return body

    def go(term: Term) -> Term:
        atom = term.atom if isinstance(term, Int) else term
        if isinstance(atom, CallTerm) and atom.op == "cast" and atom.dtype == "int":
            whole = floored(atom.args[0])
            if whole is not None:
                return whole
        return rebuild(term, go)

    new = go(body)
    numbers = (s for s in subterms(new) if isinstance(s, CallTerm) and s.op == "cast")
    return body if any(isinstance(s.args[0], Int) for s in numbers) else new


def _at_its_place(body: Term, axes: tuple[Int, ...]) -> Term:
    """Return the body with a coordinate as a number where a selection allows one value of it."""
    term = body.atom if isinstance(body, Int) else body
    if not (isinstance(term, CallTerm) and term.op == "ite"):
        return body
    condition, yes, no = term.args
    for var in (a.atom for a in axes):
        if isinstance(var, Var) and var in free(condition) and var in free(yes):
            value = pinned_value(condition, var)
            if value is not None and value.const is not None:
                yes = substitute(yes, {var: value})
    return ite(condition, _at_its_place(yes, axes), _at_its_place(no, axes))


def _unwritten(
    state: ExecutionState, body: Term, out: TensorVar, updated: frozenset[TensorVar]
) -> TensorVar | None:
    """A tensor that the body reads although its content before the function is not an input."""
    reads = sorted(tensors(body) - updated, key=lambda tensor: (tensor.position, tensor.name))
    return next((t for t in reads if t is out or t not in state.inputs), None)


def divides_by_size(body: Term) -> bool:
    """Return whether a selection has a division by a size, which bounds around it may decide."""
    return has_choice(body) and any(
        isinstance(s, CallTerm) and is_div(s) and as_int(s.args[1]).const is None
        for s in subterms(body)
    )


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
