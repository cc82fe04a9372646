"""Make the definitions of a program whole: substitute partial ones, drop unused ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

from ..proofs.context import simplify, thorough
from ..terms.term import TensorVar, Term, Var
from ..terms.traversal import map_loads, tensors
from .tensor_program import TensorDefinition, body_at


def written_in_place(
    params: Sequence[TensorVar | Var],
    written: Sequence[TensorVar],
    definitions: Iterable[TensorDefinition],
) -> frozenset[TensorVar]:
    """The parameters that are written in place: an old element is read, or an input follows."""
    read = frozenset[TensorVar]().union(
        *(d.order if d.body is None else tensors(d.body) for d in definitions)
    )
    buffers = [p for p in params if isinstance(p, TensorVar) and not p.scalar]
    last = max((k for k, t in enumerate(buffers) if t not in written), default=-1)
    return frozenset(t for t in written if t in read or buffers.index(t) < last)


def substitute_partial(
    definitions: list[TensorDefinition], defined: Set[TensorVar]
) -> list[TensorDefinition]:
    """Definitions of whole buffers: a partial one is substituted into those that read it.

    ``defined`` are the inputs and the tensors with a definition. Any other tensor is the content of
    a buffer before it is written, or the private copy of a thread.
    """
    partial: dict[TensorVar, tuple[TensorDefinition, Term]] = {}
    out = []
    for definition in definitions:
        body = definition.body
        if body is not None:
            used = frozenset(partial) & tensors(body)
            if used:
                body = map_loads(
                    body, used, lambda tensor, index: body_at(partial[tensor][1], tensor, index)
                )
                more = (partial[t][0].statements for t in used)
                definition = replace(definition, statements=definition.statements.union(*more))
            if not tensors(body) <= defined:
                body = simplify(body, ask=thorough)
        if body is not None and not tensors(body) <= defined:
            partial[definition.tensor] = definition, body
            problem = "an element is read before it is written"
            definition = replace(definition, body=None, problem=problem)
        out.append(
            definition
            if body is definition.body or definition.problem
            else replace(definition, body=body)
        )
    return out


def readers_of(definitions: tuple[TensorDefinition, ...]) -> dict[TensorVar, frozenset[TensorVar]]:
    """Return the tensors whose definitions read each tensor."""
    out: dict[TensorVar, set[TensorVar]] = {d.tensor: set() for d in definitions}
    for definition in definitions:
        for tensor in definition.order if definition.body is None else tensors(definition.body):
            out.setdefault(tensor, set()).add(definition.tensor)
    return {t: frozenset(r) for t, r in out.items()}


def live_definitions(
    definitions: list[TensorDefinition], outputs: tuple[TensorVar, ...]
) -> list[TensorDefinition]:
    """The definitions that an output depends on, and those of opaque statements.

    An opaque statement may not end, or store outside its buffers, so its function is not understood
    as a whole.
    """
    needed = set(outputs)
    out = []
    for definition in reversed(definitions):
        if definition.tensor in needed or definition.opaque:
            out.append(definition)
            needed |= (
                tensors(definition.body) if definition.body is not None else set(definition.order)
            )
    return out[::-1]
