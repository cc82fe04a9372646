"""Operators up to rounding: elementwise formulas and norms that are equal in real arithmetic.

x / (1 + exp(-x)) is silu      max(x, x / 4) is leakyrelu      E[x²] - E[x]² is a variance
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

from ..lifting.effects.tensor_expression import TensorExpression
from ..proposal.proposal import Proposal
from ..real import real
from ..real.polynomial import operands
from ..results.op_info import Refusal
from ..terms.term import CallTerm, Const, Int, Load, Reduce, TensorVar, Term, const
from ..terms.traversal import free, rebuild, subterms
from . import activation, binary, recogniser, select, unary
from ._elementwise import Ops, proposals
from ._sweep import swept
from .layer_norm import LAYER, RMS
from .reduce import proposals as over

OPS = Ops(*activation.OPS, *unary.OPS, *select.OPS, *binary.ARITHMETIC)
GROUP, INSTANCE = "relax.nn.group_norm", "relax.nn.instance_norm"


@recogniser("elementwise_rounded", precedence=900, ops=(), rounded=True)
def elementwise(f: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match elementwise formulas in real arithmetic, with literals to five digits."""
    return proposals(f, OPS, _coarse)


def _coarse(t: Term) -> Term:
    """A common form for close literals: 1 / 1.41421 is 0.70711."""
    memo: dict[Term, Term] = {}

    def go(s: Term) -> Term:
        if s not in memo:
            memo[s] = _rounded_literal(s) if isinstance(s, Const) else rebuild(s, go)
        return memo[s]

    return real(go(real(t)))


def _rounded_literal(c: Const) -> Const:
    if "float" not in c.dtype or not isinstance(c.value, (int, float)):
        return c
    return const(float(f"{c.value:.4e}"), c.dtype)


@recogniser("norm_rounded", precedence=910, ops=(), rounded=True)
def norms(f: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match norms by the root they divide by: the dimensions summed over and the literal added."""
    if len(f.outputs) != 1:
        return Refusal("a norm has one output")
    c = f.outputs[0]
    body = real(c.body)
    roots = [s for s in subterms(body) if isinstance(s, CallTerm) and s.op == "rsqrt"]
    loads = {s.tensor: s for s in subterms(body) if isinstance(s, Load)}
    out = []
    for root in roots:
        epsilons = [float(x.value) for x in operands("add", root.args[0]) if isinstance(x, Const)]
        sums = [s for s in subterms(root) if isinstance(s, Reduce) and s.op == "add"]
        for x in (t for t in loads if t.shape == c.out.shape):
            weights = [t for t in loads if t is not x]
            for r in sums[:1] if epsilons else ():
                out += list(_norms(x, r, weights, epsilons[0]))
    return out or Refusal("nothing is divided by the root of a sum")


def _norms(x: TensorVar, r: Reduce, weights: list[TensorVar], eps: float) -> Iterator[Proposal]:
    read = next((s for s in subterms(r.body) if isinstance(s, Load) and s.tensor is x), None)
    if read is None:
        return
    dims = swept(read, r.axes)
    if dims is not None and len(weights) == 1:
        yield Proposal(RMS, (x.position, weights[0].position), {"axes": list(dims), "epsilon": eps})
    if len(weights) != 2:
        return
    for gamma, beta in permutations(weights):
        where = (x.position, gamma.position, beta.position)
        if dims is not None and tuple(x.shape[d] for d in dims) == gamma.shape:
            yield Proposal(LAYER, where, {"axes": list(dims), "epsilon": eps, **UNSEEN})
        if len(gamma.shape) == 1:
            for attrs in _grouped(x, read, r, gamma):
                name = GROUP if "num_groups" in attrs else INSTANCE
                yield Proposal(name, where, {**attrs, "epsilon": eps, **UNSEEN})


UNSEEN = {"center": True, "scale": True}


def _grouped(x: TensorVar, read: Load, r: Reduce, gamma: TensorVar) -> Iterator[dict[str, object]]:
    """Channel axis, axes and groups; the channels are summed over in part or not at all."""
    for channel in (d for d, e in enumerate(x.shape) if e is gamma.shape[0]):
        here = [a for a in r.axes if a in free(read.indices[channel])]
        axes = [
            d for d, i in enumerate(read.indices) if d != channel and not free(i).isdisjoint(r.axes)
        ]
        attrs: dict[str, object] = {"channel_axis": channel, "axes": axes}
        if not here:
            yield attrs
        elif len(here) == 1:
            size, whole = _const(here[0].extent), _const(x.shape[channel])
            if size and whole and whole % size == 0:
                yield {"num_groups": whole // size, **attrs}


def _const(e: Int | None) -> int | None:
    return None if e is None else e.const


@recogniser("variance_rounded", precedence=920, ops=(), rounded=True)
def variances(f: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match averaged squares minus the squared average, by the dimensions summed over."""
    if len(f.outputs) != 1:
        return Refusal("a variance has one output")
    c = f.outputs[0]
    out: list[Proposal] = []
    for r in (s for s in subterms(real(c.body)) if isinstance(s, Reduce) and s.op == "add"):
        x: Term = r.body
        if not isinstance(x, Load):
            continue
        dims = swept(x, r.axes)
        for name in ("relax.variance", "relax.std") if dims is not None else ():
            out += list(over(name, x.tensor, dims or (), c.out))
    return out or Refusal("nothing is summed")
