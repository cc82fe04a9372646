"""Rotary position embeddings with tables of cosines and sines.

    out[.., d] = cos[.., d] * x[.., d] + sin[.., d] * (-x[.., e] or x[.., e])

A model that computes the tables once, for all its layers, has this in each layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...composites.positions.rotary import TABLES
from ...lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import CallTerm, Load, TensorVar, Term, integer
from ...terms.traversal import subterms
from .._forms.reduced_dimensions import args
from .._forms.sums_of_products import uncast
from ._rotary_cases import REFUSED_TABLES, matched_tables

MATCHES: list[Matches] = matched_tables(TABLES)
REFUSES: list[Refuses] = REFUSED_TABLES


@recogniser("apply_rotary_embedding", precedence=162, ops=(TABLES,))
def apply_rotary_embedding(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match the sum of two products with tables, one of them with two elements of the data."""
    (definition,) = expression.outputs[:1]
    if len(expression.outputs) != 1 or not definition.axes:
        return Refusal("a rotary embedding has one result")
    sums = (t for t in subterms(definition.body) if isinstance(t, CallTerm) and t.op == "add")
    out = [p for total in sums for p in _proposals(definition, total)]
    return out or Refusal("the compute is not a sum of products with two tables")


def _proposals(definition: OutputDefinition, total: CallTerm) -> Iterator[Proposal]:
    for first, second in (total.args, total.args[::-1]):
        straight, turned = args(first, "mul"), args(second, "mul")
        if straight is None or turned is None or len(straight) != 2 or len(turned) != 2:
            continue
        for data, cos in _ordered(straight):
            for partners, sin in _ordered(turned):
                tables = [t.tensor for t in map(uncast, (cos, sin)) if isinstance(t, Load)]
                x = uncast(data)
                loads = [t for t in subterms(partners) if isinstance(t, Load)]
                if isinstance(x, Load) and len(tables) == 2 and _partners(x.tensor, loads):
                    yield from _styles(definition, x, tables, loads)


def _ordered(pair: tuple[Term, ...]) -> tuple[tuple[Term, Term], tuple[Term, Term]]:
    return (pair[0], pair[1]), (pair[1], pair[0])


def _partners(data: TensorVar, loads: Sequence[Load]) -> bool:
    """Whether the loads are the two partners of an element."""
    return len(loads) == 2 and all(t.tensor is data for t in loads)


def _styles(
    definition: OutputDefinition, data: Load, tables: Sequence[TensorVar], loads: Sequence[Load]
) -> Iterator[Proposal]:
    """Halves whose distance is known, and neighbours of as many features as the tables have."""
    operands = (data.tensor.position, *(t.position for t in tables))
    distances = {(t.indices[-1] - definition.axes[-1]).const for t in loads}
    half = max((abs(d) for d in distances if d is not None), default=0)
    widths = {t.shape[-1].const for t in tables if t.shape} - {1, None}
    if half and distances == {half, -half}:
        yield Proposal(TABLES, operands, {"rotary_dim": 2 * half, "style": "neox"})
    width = next(iter(widths), None)
    if distances != {half, -half} or half == 1:
        size = width or (data.tensor.shape[-1] or integer(0)).const
        if size is not None:
            yield Proposal(TABLES, operands, {"rotary_dim": size, "style": "gptj"})
