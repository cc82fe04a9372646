"""Scaled dot-product attention over ``[batch, length, heads, size]`` tensors.

    s[b, h, i, j] = Σ_d q[b, i, h, d] * k[b, j, h, d] * scale + bias[b, h, i, j]
    out[b, i, h]  = Σ_j softmax_j(s[b, h, i, j]) * v[b, j, h]

``scale`` is by default ``1 / sqrt(size)``. A causal mask lets i see ``j <= i`` (TopLeft) or
``j <= i + J - I`` (BottomRight).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...proposal.undetermined import among
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.reduction_terms import split_guard, zero_of
from ...terms.term import CallTerm, Const, Load, Reduce, Term, as_int
from ...terms.traversal import subterms
from .._forms.reduced_dimensions import args, load, reduction, with_load
from .._forms.sums_of_products import bare

OP = "relax.nn.attention"


def _case(kind: str, length: str, attrs: dict[str, object], bias: str = "") -> Matches:
    query, memory = f"{kind}[2, 4, 3, 8]", f"{kind}[2, {length}, 3, 8]"
    operands = (query, memory, memory, *((f"{kind}[{bias}]",) if bias else ()))
    all_attrs = {"scale": None, "causal_mask": None, "window_size": None, **attrs}
    return Matches(OP, operands, all_attrs)


MATCHES = [
    _case("float32", "5", {}),
    _case("float32", "4", {"scale": 0.125}),
    _case("float16", "5", {}),
    _case("float32", "5", {}, bias="2, 3, 4, 5"),
    _case("float32", "5", {}, bias="2, 1, 4, 5"),
    _case("float32", "4", {"causal_mask": "TopLeft"}),
    _case("float32", "6", {"causal_mask": "BottomRight"}),
    _case("float32", "6", {"causal_mask": "TopLeft", "scale": 0.5}, bias="2, 3, 4, 6"),
    Matches(
        OP,
        ("float32[n, 4, 3, 8]", "float32[n, 5, 3, 8]", "float32[n, 5, 3, 6]"),
        {"scale": None, "causal_mask": None, "window_size": None},
    ),
]

_BODY = """
@T.prim_func(s_tir=True)
def main(q: T.Buffer((1, 4, 2, 8), "float32"), k: T.Buffer((1, 5, 2, 8), "float32"),
         v: T.Buffer((1, 5, 2, 8), "float32"), out: T.Buffer((1, 4, 2, 8), "float32")):
    s = T.alloc_buffer((2, 4, 5))
    m = T.alloc_buffer((2, 4))
    z = T.alloc_buffer((2, 4))
    for h, i, j, d in T.grid(2, 4, 5, 8):
        with T.sblock("scores"):
            vh, vi, vj, vd = T.axis.remap("SSSR", [h, i, j, d])
            with T.init():
                s[vh, vi, vj] = T.float32(0)
            s[vh, vi, vj] = s[vh, vi, vj] + q[0, vi, vh, vd] * k[0, vj, vh, vd]
    for h, i, j in T.grid(2, 4, {most}):
        with T.sblock("max"):
            vh, vi, vj = T.axis.remap("SSR", [h, i, j])
            with T.init():
                m[vh, vi] = T.float32(-3.4028234663852886e+38)
            m[vh, vi] = T.max(m[vh, vi], s[vh, vi, vj] {scale})
    for h, i, j in T.grid(2, 4, 5):
        with T.sblock("sum"):
            vh, vi, vj = T.axis.remap("SSR", [h, i, j])
            with T.init():
                z[vh, vi] = T.float32(0)
            z[vh, vi] = z[vh, vi] + T.exp(s[vh, vi, vj] {scale} - m[vh, vi])
    for i, h, d, j in T.grid(4, 2, 8, 5):
        with T.sblock("out"):
            vi, vh, vd, vj = T.axis.remap("SSSR", [i, h, d, j])
            with T.init():
                out[0, vi, vh, vd] = T.float32(0)
            out[0, vi, vh, vd] = out[0, vi, vh, vd] + (
                T.exp(s[vh, vi, vj] {scale} - m[vh, vi]) / z[vh, vi]) * v[0, {row}, vh, vd]
"""
_SCALE = "/ T.sqrt(T.float32(8))"

REFUSES = [
    Refuses("unscaled scores", _BODY.format(most=5, scale="", row="vj")),
    Refuses("scores scaled by the place of the key",
            _BODY.format(most=5, scale='* T.Cast("float32", vj + 1)', row="vj")),
    Refuses("the values are read in reverse", _BODY.format(most=5, scale=_SCALE, row="4 - vj")),
    Refuses("the maximum leaves out the last score", _BODY.format(most=4, scale=_SCALE, row="vj")),
]  # fmt: skip


CORNERS = ("TopLeft", "BottomRight")


@recogniser("attention", precedence=480, ops=(OP,))
def attention(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match values weighted by a quotient of exponentials of a contraction of two tensors."""
    out = expression.outputs[0]
    one_output = len(expression.outputs) == 1 and len(out.axes) == 4
    outer = args(out.body, "div")  # the weighted values are divided at once
    total = reduction(out.body if outer is None else outer[0], "add") if one_output else None
    inside, weighted = None, None
    if total is not None and len(total.axes) == 1:
        inside, each = split_guard(total.body, zero_of(total.body))
        weighted = with_load(each, "mul")
    quotient = None
    if weighted is not None:
        quotient = args(weighted[0], "div") if outer is None else (weighted[0], outer[1])
    if total is None or weighted is None or quotient is None:
        return Refusal("the compute is not a sum of values weighted by a quotient")
    scores = next((s for s in subterms(quotient[0]) if is_scores(s)), None)
    if not isinstance(scores, Reduce):
        return Refusal("the weights contain no contraction of two tensors")
    factors = [load(x) for x in args(scores.body, "mul") or ()]
    query_and_key = sorted(
        (x for x in factors if x is not None), key=lambda x: total.axes[0] in subterms(x)
    )
    query, key, value = *(x.tensor.position for x in query_and_key), weighted[1].tensor.position
    bias_loads = [
        term for term in subterms(quotient[0])
        if isinstance(term, Load) and term.tensor.position not in (query, key)
    ]  # fmt: skip
    bias = sorted({s.tensor.position for s in bias_loads})
    if len(bias) > 1:
        return Refusal("the weights read more than a query, a key and a bias")
    mask = _mask(quotient[0]) or (None if inside is None else _mask(inside))
    square = query_and_key[0].tensor.shape[1] is query_and_key[1].tensor.shape[1]
    scale, size = scale_of(quotient[0], scores), query_and_key[0].tensor.shape[-1].const
    usual = scale and size and math.isclose(scale * scale * size, 1.0, rel_tol=1e-6)
    scales = [None, scale] if usual else [scale]
    attrs = {"causal_mask": mask, "window_size": None}
    notes = among("causal_mask", CORNERS if mask and square else (), "the scores are square")
    operands = (query, key, value, *bias)
    return [Proposal(OP, operands, {"scale": s, **attrs}, undetermined=notes) for s in scales]


def is_scores(term: Term) -> bool:
    """Whether a term is ``Σ_d a[..] * b[..]``."""
    factors = args(term.body, "mul") if isinstance(term, Reduce) and term.op == "add" else None
    return factors is not None and len(factors) == 2 and None not in map(load, factors)


def scale_of(weights: Term, scores: Term) -> float | None:
    """The literal factor of the scores; None if they are divided by a root."""
    for term in subterms(weights):
        factors = args(term, "mul") or ()
        if any(reduction(x, "add") is scores for x in factors):
            return next((float(c.value) for c in map(bare, factors) if isinstance(c, Const)), None)
    return None


def _mask(weights: Term) -> str | None:
    """The corner from which a causal mask ``i - j + offset >= 0`` starts, or None."""
    for term in subterms(weights):
        if isinstance(term, CallTerm) and term.op == "ge0":
            linear = [m for m, _ in as_int(term.args[0]).terms]
            return "TopLeft" if len(linear) == 2 and () not in linear else "BottomRight"
    return None
