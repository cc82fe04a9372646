"""Attention of language models: grouped heads, capped scores, a softmax in another dtype.

`analysis.composites.attention` defines the operator; only the tensors and literals are read here.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...composites.attention import GROUPED
from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import CallTerm, Load, Reduce, Term
from ...terms.traversal import subterms
from .._forms.access_functions import literal
from .._forms.reduced_dimensions import args, load, reduction
from .._forms.sums_of_products import bare, uncast
from .attention import is_scores, scale_of


def _case(kind: str, length: str, groups: int, bias: str = "", **attrs: object) -> Matches:
    query, memory = f"{kind}[2, 4, 6, 8]", f"{kind}[2, {length}, {groups}, 8]"
    operands = (query, memory, memory, *((f"{kind}[{bias}]",) if bias else ()))
    return Matches(GROUPED, operands, {"scale": 0.25, **attrs})


MATCHES = [
    _case("float32", "5", 2),
    _case("float32", "n", 6, softcap=50.0),
    _case("float32", "n", 3, bias="2, 1, 4, n", softcap=30.0),
    _case("float16", "5", 6, softmax_dtype="float32"),
    _case("float16", "n", 2, bias="2, 1, 4, n", softmax_dtype="float32"),
    _case("float16", "n", 2, bias="2, 1, 4, n", softcap=50.0, softmax_dtype="float32"),
]

_BODY = """
@T.prim_func(s_tir=True)
def main(q: T.Buffer((1, 4, 4, 8), "float32"), k: T.Buffer((1, 5, 2, 8), "float32"),
         v: T.Buffer((1, 5, 2, 8), "float32"), out: T.Buffer((1, 4, 4, 8), "float32")):
    s = T.alloc_buffer((4, 4, 5))
    m = T.alloc_buffer((4, 4))
    z = T.alloc_buffer((4, 4))
    for h, i, j, d in T.grid(4, 4, 5, 8):
        with T.sblock("scores"):
            vh, vi, vj, vd = T.axis.remap("SSSR", [h, i, j, d])
            with T.init():
                s[vh, vi, vj] = T.float32(0)
            s[vh, vi, vj] = s[vh, vi, vj] + q[0, vi, vh, vd] * k[0, vj, {key}, vd]
    for h, i, j in T.grid(4, 4, 5):
        with T.sblock("max"):
            vh, vi, vj = T.axis.remap("SSR", [h, i, j])
            with T.init():
                m[vh, vi] = T.float32(-3.4028234663852886e+38)
            m[vh, vi] = T.max(m[vh, vi], {score})
    for h, i, j in T.grid(4, 4, 5):
        with T.sblock("sum"):
            vh, vi, vj = T.axis.remap("SSR", [h, i, j])
            with T.init():
                z[vh, vi] = T.float32(0)
            z[vh, vi] = z[vh, vi] + T.exp({score} - m[vh, vi])
    for i, h, d, j in T.grid(4, 4, 8, 5):
        with T.sblock("out"):
            vi, vh, vd, vj = T.axis.remap("SSSR", [i, h, d, j])
            with T.init():
                out[0, vi, vh, vd] = T.float32(0)
            out[0, vi, vh, vd] = out[0, vi, vh, vd] + (
                T.exp({score} - m[vh, vi]) / z[vh, vi]) * v[0, vj, {value}, vd]
"""
_SCALED = "s[vh, vi, vj] * T.float32(0.25)"
_CAPPED = f"T.tanh({_SCALED} / T.float32(50)) * T.float32({{cap}})"


def _program(key: str = "vh // 2", value: str = "vh // 2", score: str = _SCALED) -> str:
    return _BODY.format(key=key, value=value, score=score)


REFUSES = [
    Refuses("heads are interleaved", _program(key="vh % 2", value="vh % 2")),
    Refuses("values are of another group", _program(value="1 - vh // 2")),
    Refuses("keys are of the first group", _program(key="0")),
    Refuses("two caps", _program(score=_CAPPED.format(cap=30))),
    Refuses("the cap comes before the scale",
            _program(score="T.tanh(s[vh, vi, vj] / T.float32(50)) * T.float32(50) "
                           "* T.float32(0.25)")),
]  # fmt: skip


@recogniser("grouped_attention", precedence=482, ops=(GROUPED,))
def grouped_attention(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match values weighted by a quotient of exponentials, and read the literals of the scores."""
    out = expression.outputs[0]
    one_output = len(expression.outputs) == 1 and len(out.axes) == 4
    total = reduction(out.body, "add") if one_output else None
    factors = None if total is None else args(total.body, "mul")
    if total is None or factors is None or len(factors) != 2:
        return Refusal("the compute is not a sum of weighted values")
    for weights, value in (factors, factors[::-1]):
        quotient, values = uncast(weights), load(value)
        if isinstance(quotient, CallTerm) and quotient.op == "div" and values is not None:
            return _proposal(out.out.dtype, quotient, values)
    return Refusal("the weights are not a quotient")


def _proposal(dtype: str, quotient: CallTerm, values: Load) -> Sequence[Proposal] | Refusal:
    exponential = quotient.args[0]
    scores = next((s for s in subterms(exponential) if is_scores(s)), None)
    if not isinstance(scores, Reduce):
        return Refusal("the weights contain no contraction of two tensors")
    pair = [x for x in map(load, args(scores.body, "mul") or ()) if x is not None]
    scale = scale_of(exponential, scores)
    if scale is None or len(pair) != 2:
        return Refusal("the scores are not multiplied by a literal")
    positions = {x.tensor.position for x in (*pair, values)}
    masks = sorted({
        term.tensor.position for term in subterms(exponential)
        if isinstance(term, Load) and term.tensor.position not in positions
    })  # fmt: skip
    if len(masks) > 1:
        return Refusal("the weights read more than queries, keys and a mask")
    attrs = {
        "scale": scale,
        "softcap": _cap(exponential),
        "softmax_dtype": None if quotient.dtype == dtype else quotient.dtype,
    }
    return [
        Proposal(GROUPED, (q, k, values.tensor.position, *masks), attrs)
        for q, k in (tuple(x.tensor.position for x in pair),
                     tuple(x.tensor.position for x in pair[::-1]))
    ]  # fmt: skip


def _cap(exponential: Term) -> float:
    """The literal by which the argument of a hyperbolic tangent is divided; 0 without one."""
    for term in subterms(exponential):
        if isinstance(term, CallTerm) and term.op == "tanh":
            quotient = args(bare(term.args[0]), "div")
            cap = None if quotient is None else literal(quotient[1])
            return 0.0 if cap is None else float(cap)
    return 0.0
