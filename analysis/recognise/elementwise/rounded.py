"""Operators up to rounding: elementwise formulas and norms that are equal in real arithmetic.

x / (1 + exp(-x)) is silu      max(x, x / 4) is leakyrelu      E[x²] - E[x]² is a variance
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...real import real
from ...real.sums.polynomial import operands
from ...registry import recogniser
from ...results.op_info import Refusal
from ...terms.term import CallTerm, Const, Int, Load, Reduce, TensorVar, Term, const
from ...terms.traversal import free, rebuild, subterms
from .._forms.reduced_dimensions import swept
from ..normalisation.layer_norm import LAYER, RMS
from ..reduction.reduce import proposals as over
from . import activation, binary, select, unary
from ._elementwise import Ops, proposals

OPS = Ops(*activation.OPS, *unary.OPS, *select.OPS, *binary.ARITHMETIC)
GROUP, INSTANCE = "relax.nn.group_norm", "relax.nn.instance_norm"


@recogniser("elementwise_rounded", precedence=900, ops=(), rounded=True)
def elementwise(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match elementwise formulas in real arithmetic, with literals to five digits."""
    return proposals(expression, OPS, _coarse)


def _coarse(term: Term) -> Term:
    """A common form for close literals: 1 / 1.41421 is 0.70711."""
    memo: dict[Term, Term] = {}

    def go(term: Term) -> Term:
        if term not in memo:
            memo[term] = _rounded_literal(term) if isinstance(term, Const) else rebuild(term, go)
        return memo[term]

    return real(go(real(term)))


def _rounded_literal(literal: Const) -> Const:
    if "float" not in literal.dtype or not isinstance(literal.value, (int, float)):
        return literal
    return const(float(f"{literal.value:.4e}"), literal.dtype)


@recogniser("norm_rounded", precedence=910, ops=(), rounded=True)
def norms(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match norms by the root they divide by: the dimensions summed over and the literal added."""
    if len(expression.outputs) != 1:
        return Refusal("a norm has one output")
    definition = expression.outputs[0]
    body = real(definition.body)
    roots = [s for s in subterms(body) if isinstance(s, CallTerm) and s.op == "rsqrt"]
    loads = {s.tensor: s for s in subterms(body) if isinstance(s, Load)}
    out = []
    for root in roots:
        epsilons = [float(x.value) for x in operands("add", root.args[0]) if isinstance(x, Const)]
        sums = [s for s in subterms(root) if isinstance(s, Reduce) and s.op == "add"]
        for tensor in (t for t in loads if t.shape == definition.out.shape):
            weights = [t for t in loads if t is not tensor]
            for reduction in sums[:1] if epsilons else ():
                out += list(_norms(tensor, reduction, weights, epsilons[0]))
    return out or Refusal("nothing is divided by the root of a sum")


def _norms(
    tensor: TensorVar, reduction: Reduce, weights: list[TensorVar], eps: float
) -> Iterator[Proposal]:
    read = next(
        (s for s in subterms(reduction.body) if isinstance(s, Load) and s.tensor is tensor), None
    )
    if read is None:
        return
    dims = swept(read, reduction.axes)
    if dims is not None and len(weights) == 1:
        yield Proposal(
            RMS, (tensor.position, weights[0].position), {"axes": list(dims), "epsilon": eps}
        )
    if len(weights) != 2:
        return
    for gamma, beta in permutations(weights):
        positions = (tensor.position, gamma.position, beta.position)
        if dims is not None and tuple(tensor.shape[d] for d in dims) == gamma.shape:
            yield Proposal(LAYER, positions, {"axes": list(dims), "epsilon": eps, **UNSEEN})
        if len(gamma.shape) == 1:
            for attrs in _grouped(tensor, read, reduction, gamma):
                name = GROUP if "num_groups" in attrs else INSTANCE
                yield Proposal(name, positions, {**attrs, "epsilon": eps, **UNSEEN})


UNSEEN = {"center": True, "scale": True}


def _grouped(
    tensor: TensorVar, read: Load, reduction: Reduce, gamma: TensorVar
) -> Iterator[dict[str, object]]:
    """Channel axis, axes and groups; the channels are summed over in part or not at all."""
    for channel in (d for d, e in enumerate(tensor.shape) if e is gamma.shape[0]):
        mixed = [a for a in reduction.axes if a in free(read.indices[channel])]
        axes = [
            d
            for d, poly in enumerate(read.indices)
            if d != channel and not free(poly).isdisjoint(reduction.axes)
        ]
        attrs: dict[str, object] = {"channel_axis": channel, "axes": axes}
        if not mixed:
            yield attrs
        elif len(mixed) == 1:
            size, channels = _const(mixed[0].extent), _const(tensor.shape[channel])
            if size and channels and channels % size == 0:
                yield {"num_groups": channels // size, **attrs}


def _const(poly: Int | None) -> int | None:
    return None if poly is None else poly.const


@recogniser("variance_rounded", precedence=920, ops=(), rounded=True)
def variances(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match averaged squares minus the squared average, by the dimensions summed over."""
    if len(expression.outputs) != 1:
        return Refusal("a variance has one output")
    definition = expression.outputs[0]
    out: list[Proposal] = []
    for reduction in (
        subterm
        for subterm in subterms(real(definition.body))
        if isinstance(subterm, Reduce) and subterm.op == "add"
    ):
        term: Term = reduction.body
        if not isinstance(term, Load):
            continue
        dims = swept(term, reduction.axes)
        for name in ("relax.variance", "relax.std") if dims is not None else ():
            out += list(over(name, term.tensor, dims or (), definition.out))
    return out or Refusal("nothing is summed")
