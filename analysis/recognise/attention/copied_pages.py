"""Reads and copies in the pages of a cache, of a page or layer that a scalar names.

out[y] = pages[source, y[1:]] if y[0] == target and y[-2] < length else pages[y]
keys[y] = pages[pos[y[1]] // size, 0, y[2], pos[y[1]] % size, y[3]] if y[0] == layer else old[y]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...composites.page_copies import COPY, READ
from ...lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import CallTerm, Int, Load, TensorVar, Term, Var, load
from ...terms.traversal import subterms

MATCHES = [
    Matches(COPY, ("float16[n, 2, 3, 16, 8]", *["int64[]"] * 3)),
    Matches(COPY, ("float32[4, p, 8]", *["int32[]"] * 3)),
    Matches(READ, ("float16[n, 2, 3, 16, 8]", "int32[k]", *["float16[4, k, 3, 8]"] * 2, "int64[]")),
]

_COPY = """
@T.prim_func(s_tir=True)
def main(pages: T.Buffer((5, 4, 6), "float32"), a: T.Buffer((), "int32"),
         b: T.Buffer((), "int32"), n: T.Buffer((), "int32"), out: T.Buffer((5, 4, 6), "float32")):
    for i, j, k in T.grid(5, 4, 6):
        out[i, j, k] = T.if_then_else({page} and {slot}, pages[{read}, k], pages[i, j, k])
"""
_RIGHT = {"page": "i == b[()]", "slot": "j < n[()]", "read": "a[()], j"}

REFUSES = [
    Refuses(reason, _COPY.format(**_RIGHT | change))
    for reason, change in (
        ("one token more", {"slot": "j <= n[()]"}),
        ("the last tokens", {"slot": "j >= n[()]"}),
        ("the page before the target", {"page": "i == b[()] - 1"}),
        ("all pages but the target", {"page": "i != b[()]"}),
        ("the page behind the source", {"read": "(a[()] + 1) % 5, j"}),
        ("the tokens in reverse", {"read": "a[()], 3 - j"}),
        ("the next token", {"read": "a[()], (j + 1) % 4"}),
    )
]


@recogniser("copy_page", precedence=433, ops=(COPY,))
def copy_page(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match a choice between a tensor and one of its pages, over three scalars."""
    (definition,) = expression.outputs[:1]
    if len(expression.outputs) != 1 or not definition.axes:
        return Refusal("a copied page has one result")
    scalars = _scalars(expression)
    loads = [s for s in subterms(definition.body) if isinstance(s, Load) and s.indices]
    sources = {scalars[x] for read in loads if (x := read.indices[0].atom) in scalars}
    compared = set(_compared(definition, scalars))
    targets = {k for k, first in compared if first} - sources
    lengths = {k for k, first in compared if not first} - sources
    if len({x.tensor for x in loads}) != 1 or not len(sources) == len(targets) == len(lengths) == 1:
        return Refusal("the compute is not a choice between pages of a tensor, by three scalars")
    return [Proposal(COPY, (loads[0].tensor.position, *sources, *targets, *lengths))]


@recogniser("read_from_pages", precedence=434, ops=(READ,))
def read_from_pages(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match two results with a layer each that is read from one tensor at positions."""
    if len(expression.outputs) != 2:
        return Refusal("keys and values are two results")
    scalars = _scalars(expression)
    layers = {k for c in expression.outputs for k, first in _compared(c, scalars) if first}
    positions, pages, old = set[TensorVar](), set[TensorVar](), list[TensorVar]()
    for definition in expression.outputs:
        for term in subterms(definition.body):
            if not isinstance(term, Load) or not term.indices:
                continue
            places = {s.tensor for i in term.indices for s in subterms(i) if isinstance(s, Load)}
            positions |= places
            if places:
                pages.add(term.tensor)
            elif term.indices == definition.axes:
                old.append(term.tensor)
    if not len(layers) == len(positions) == len(pages) == 1 or len(old) != 2:
        return Refusal("the compute is not a layer of keys and values from pages")
    tensors = (pages.pop(), positions.pop(), *old)
    return [Proposal(READ, (*(t.position for t in tensors), *layers))]


def _scalars(expression: TensorExpression) -> dict[Term, int]:
    """The integers without dimensions, and their positions among the parameters."""
    out: dict[Term, int] = {}
    for position, param in enumerate(expression.params):
        if isinstance(param, Var):
            out[param] = position
        elif not param.shape and "int" in param.dtype:
            element = load(param, ())
            out[element.atom if isinstance(element, Int) and element.atom else element] = position
    return out


def _compared(
    definition: OutputDefinition, scalars: Mapping[Term, int]
) -> Iterator[tuple[int, bool]]:
    """Yield the scalars with which coordinates are compared, and whether it is the first one."""
    axes = {e.atom for e in definition.axes}
    for term in subterms(definition.body):
        if isinstance(term, CallTerm) and term.op in ("eq0", "ge0"):
            inside = set(subterms(term))
            for scalar in inside & scalars.keys() if inside & axes else ():
                yield scalars[scalar], term.op == "eq0" and definition.axes[0].atom in inside
