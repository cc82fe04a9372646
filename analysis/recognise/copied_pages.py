"""Reads and copies in the pages of a cache, of a page or layer that a scalar parameter names.

out[y] = pages[source, y[1:]] if y[0] == target and y[-2] < length else pages[y]
keys[y] = pages[pos[y[1]] // size, 0, y[2], pos[y[1]] % size, y[3]] if y[0] == layer else old[y]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..composites.page_copies import COPY, READ
from ..lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ..proposal.proposal import Proposal
from ..results.op_info import Refusal
from ..terms.term import CallTerm, Load, TensorVar, Term, Var
from ..terms.traversal import free, subterms
from . import Matches, recogniser

MATCHES = [
    Matches(COPY, ("float16[n, 2, 3, 16, 8]", *["int64[]"] * 3)),
    Matches(COPY, ("float32[4, p, 8]", *["int32[]"] * 3)),
    Matches(READ, ("float16[n, 2, 3, 16, 8]", "int32[k]", *["float16[4, k, 3, 8]"] * 2, "int64[]")),
]


@recogniser("copy_page", precedence=433, ops=(COPY,))
def copy_page(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match a choice between a tensor and one of its pages, over three scalars."""
    if len(expression.outputs) != 1:
        return Refusal("a copied page has one result")
    definition = expression.outputs[0]
    loads = [s for s in subterms(definition.body) if isinstance(s, Load)]
    sources = {v for x in loads if x.indices and (v := _scalar(x.indices[0])) is not None}
    compared = _compared(definition)
    targets = {v for v, first in compared if first} - sources
    lengths = {v for v, first in compared if not first} - sources
    if len({x.tensor for x in loads}) != 1 or not len(sources) == len(targets) == len(lengths) == 1:
        return Refusal("the compute is not a choice between pages of a tensor, by three scalars")
    places = {p: k for k, p in enumerate(expression.params) if isinstance(p, Var)}
    numbers = [next(iter(x)) for x in (sources, targets, lengths)]
    if any(v not in places for v in numbers):
        return Refusal("a page is not a scalar parameter")
    return [Proposal(COPY, (loads[0].tensor.position, *(places[v] for v in numbers)))]


@recogniser("read_from_pages", precedence=434, ops=(READ,))
def read_from_pages(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match two results with a layer each that is read from one tensor at positions."""
    if len(expression.outputs) != 2:
        return Refusal("keys and values are two results")
    layers = {v for c in expression.outputs for v, first in _compared(c) if first}
    positions, pages, old = set[TensorVar](), set[TensorVar](), list[TensorVar]()
    for definition in expression.outputs:
        for term in subterms(definition.body):
            if not isinstance(term, Load):
                continue
            places = {s.tensor for i in term.indices for s in subterms(i) if isinstance(s, Load)}
            positions |= places
            if places:
                pages.add(term.tensor)
            elif term.indices == definition.axes:
                old.append(term.tensor)
    if not len(layers) == len(positions) == len(pages) == 1 or len(old) != 2:
        return Refusal("the compute is not a layer of keys and values from pages")
    layer = next((k for k, p in enumerate(expression.params) if p in layers), None)
    if layer is None:
        return Refusal("the layer is not a scalar parameter")
    tensors = (pages.pop(), positions.pop(), *old)
    return [Proposal(READ, (*(t.position for t in tensors), layer))]


def _compared(definition: OutputDefinition) -> list[tuple[Var, bool]]:
    """The scalars that a coordinate is compared with, and whether it is the first one."""
    return list(_comparisons(definition))


def _comparisons(definition: OutputDefinition) -> Iterator[tuple[Var, bool]]:
    axes = {e.atom for e in definition.axes}
    for term in subterms(definition.body):
        if isinstance(term, CallTerm) and term.op in ("eq0", "ge0"):
            variables = free(term)
            for var in variables - axes:
                if isinstance(var, Var) and var.dtype != "int" and variables & axes:
                    yield var, term.op == "eq0" and definition.axes[0].atom in variables


def _scalar(index: Term) -> Var | None:
    """The scalar parameter that an index is."""
    atom = getattr(index, "atom", None)
    return atom if isinstance(atom, Var) and atom.dtype != "int" else None
