"""Softmax along one axis, with the maximum subtracted before the exponential.

softmax[y]     = exp(x[y] - m) / Σ_k exp(x[.., k, ..] - m)        m = max_k x[.., k, ..]
log_softmax[y] = x[y] - m - log(Σ_k exp(x[.., k, ..] - m))
"""

from __future__ import annotations

from collections.abc import Sequence

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import Load, Term
from ...terms.traversal import subterms
from .._forms.reduced_dimensions import args, load, reduction, swept, units

OPS = ("relax.nn.softmax", "relax.nn.log_softmax")

MATCHES = [
    Matches(op, (f"{dtype}[{shape}]",), {"axis": axis})
    for op in OPS
    for dtype in ("float32", "float16")
    for shape, axis in (("2, n, 5", 2), ("2, n, 5", 1), ("n, 12, 7, 7", 3), ("6", 0))
]

_BODY = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 6), "float32"), out: T.Buffer((4, 6), "float32")):
    m = T.alloc_buffer((4,))
    s = T.alloc_buffer((4,))
    for i, k in T.grid(4, {most}):
        with T.sblock("max"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                m[vi] = T.float32(-3.4028234663852886e+38)
            m[vi] = T.max(m[vi], x[vi, vk])
    for i, k in T.grid(4, {extent}):
        with T.sblock("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                s[vi] = T.float32(0)
            s[vi] = s[vi] + T.exp({term})
    for i, k in T.grid(4, 6):
        with T.sblock("out"):
            vi, vk = T.axis.remap("SS", [i, k])
            out[vi, vk] = {out}
"""
_SHIFTED = "x[vi, vk] - m[vi]"
_SOFTMAX = f"T.exp({_SHIFTED}) / s[vi]"

REFUSES = [
    Refuses(
        "no maximum is subtracted, so it overflows where softmax does not",
        _BODY.format(most=6, extent=6, term="x[vi, vk]", out="T.exp(x[vi, vk]) / s[vi]"),
    ),
    Refuses(
        "the sum leaves out the last element",
        _BODY.format(most=6, extent=5, term=_SHIFTED, out=_SOFTMAX),
    ),
    Refuses(
        "the maximum leaves out the last element",
        _BODY.format(most=5, extent=6, term=_SHIFTED, out=_SOFTMAX),
    ),
    Refuses(
        "a softmin",
        _BODY.format(
            most=6, extent=6, term="m[vi] - x[vi, vk]", out="T.exp(m[vi] - x[vi, vk]) / s[vi]"
        ),
    ),
    Refuses(
        "the logarithm is missing",
        _BODY.format(most=6, extent=6, term=_SHIFTED, out=f"{_SHIFTED} - s[vi]"),
    ),
]


@recogniser("softmax", precedence=430, ops=OPS)
def softmax(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match a softmax; its axis is the one that the sum of exponentials runs over."""
    if len(expression.outputs) != 1:
        return Refusal("softmax has one output")
    definition = expression.outputs[0]
    parts = _softmax(definition.body) or _log_softmax(definition.body)
    if parts is None:
        return Refusal("the compute is not an exponential divided by a sum of exponentials")
    name, data, divisor = parts
    if data.indices != definition.axes:
        return Refusal("the operand is not read at the output's own coordinates", repr(data))
    return [
        Proposal(name, (data.tensor.position,), {"axis": axis}) for axis in _axes(data, divisor)
    ]


def _softmax(term: Term) -> tuple[str, Load, Term] | None:
    parts = args(term, "div")
    top = None if parts is None else args(parts[0], "exp")
    shifted = None if top is None else args(top[0], "sub")
    data = None if shifted is None else load(shifted[0])
    return None if parts is None or data is None else (OPS[0], data, parts[1])


def _log_softmax(term: Term) -> tuple[str, Load, Term] | None:
    parts = args(term, "sub")
    shifted = None if parts is None else args(parts[0], "sub")
    log = None if parts is None else args(parts[1], "log")
    data = None if shifted is None else load(shifted[0])
    return None if log is None or data is None else (OPS[1], data, log[0])


def _axes(data: Load, divisor: Term) -> Sequence[int]:
    """The axis of the sum; without a sum, the last axis of extent 1."""
    total = reduction(divisor, "add")
    if total is None:
        return units(data.tensor)[-1:]
    inside = (s for s in subterms(total.body) if isinstance(s, Load) and s.tensor is data.tensor)
    return next((d for d in (swept(s, total.axes) for s in inside) if d and len(d) == 1), ())
