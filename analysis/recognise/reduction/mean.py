"""Averages over whole dimensions of one tensor.

mean[y]     = Σ_r x[y, r] / R
variance[y] = Σ_r (x[y, r] - mean[y])² / R        (biased: divided by R, not by R - 1)
std[y]      = sqrt(variance[y])
"""

from __future__ import annotations

from collections.abc import Sequence

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import Load
from .._forms.reduced_dimensions import args, average, deviation, load, swept
from .._forms.sums_of_products import Combined
from .reduce import proposals

OPS = ("relax.mean", "relax.variance", "relax.std")

MATCHES = [
    *(
        Matches(op, (f"{dtype}[2, n, 5]",), {"axis": [1], "keepdims": False})
        for op in OPS
        for dtype in ("float32", "float16")
    ),
    *(Matches(op, ("float32[n, 3, 4, 5]",), {"axis": [2, 3], "keepdims": True}) for op in OPS),
    *(Matches(op, ("float32[2, n]",), {}, {"axis": None, "keepdims": False}) for op in OPS),
    *(Matches(op, ("float32[n, 1, 4]",), {"axis": [1], "keepdims": True}) for op in OPS[1:]),
    *(Matches(op, ("float16[n, 1, 4]",), {"axis": [1], "keepdims": False}) for op in OPS[1:]),
    Matches("relax.mean", ("int32[2, 4]",), {"axis": [1], "keepdims": False}),
    Matches("relax.mean", ("float32[n, m, 3]",), {"axis": [0, 1], "keepdims": False}),
]

_MEAN = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 6), "float32"), out: T.Buffer((4,), "float32")):
    s = T.alloc_buffer((4,))
    for i, k in T.grid(4, {extent}):
        with T.sblock("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                s[vi] = T.float32(0)
            s[vi] = s[vi] + x[vi, vk]
    for i in range(4):
        with T.sblock("divide"):
            vi = T.axis.spatial(4, i)
            out[vi] = s[vi] / T.float32({count})
"""
_VARIANCE = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 6), "float32"), out: T.Buffer((4,), "float32")):
    s = T.alloc_buffer((4,))
    q = T.alloc_buffer((4,))
    for i, k in T.grid(4, 6):
        with T.sblock("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                s[vi] = T.float32(0)
            s[vi] = s[vi] + x[vi, vk]
    for i, k in T.grid(4, 6):
        with T.sblock("squares"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                q[vi] = T.float32(0)
            q[vi] = q[vi] + {square}
    for i in range(4):
        with T.sblock("divide"):
            vi = T.axis.spatial(4, i)
            out[vi] = q[vi] / T.float32({count})
"""
_D = "(x[vi, vk] - s[vi] / T.float32({}))"

REFUSES = [
    Refuses("a mean divided by another count", _MEAN.format(extent=6, count=5)),
    Refuses("a mean over one element fewer", _MEAN.format(extent=5, count=6)),
    Refuses("a mean over part of the dimension", _MEAN.format(extent=5, count=5)),
    Refuses("the unbiased variance", _VARIANCE.format(count=5, square=f"{_D} * {_D}".format(6, 6))),
    Refuses(
        "deviations from something other than the mean",
        _VARIANCE.format(count=6, square=f"{_D} * {_D}".format(5, 5)),
    ),
    Refuses(
        "a product of two different deviations",
        _VARIANCE.format(count=6, square=f"{_D} * {_D}".format(5, 4)),
    ),
]


@recogniser("mean", precedence=410, ops=OPS)
def mean(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match a sum of loads or of squared deviations, divided by its count, or the root of that."""
    if len(expression.outputs) != 1:
        return Refusal("an average has one output")
    out, body = expression.outputs[0].out, expression.outputs[0].body
    root = args(body, "sqrt")
    total = average(root[0] if root else body)
    if total is None:
        return Refusal("the compute is not a sum divided by its count")
    data, square = _summand(total)
    if data is None or (root and not square):
        return Refusal("the average is not over one tensor", repr(total.body))
    dims = swept(data, total.axes)
    if dims is None:
        return Refusal("the average does not cover whole dimensions", repr(data))
    name = OPS[0] if not square else OPS[2] if root else OPS[1]
    return list(proposals(name, data.tensor, dims, out))


def _summand(total: Combined) -> tuple[Load | None, bool]:
    """The averaged load, and whether its squared deviation is averaged instead."""
    data = load(total.body)
    if data is not None:
        return data, False
    factors = args(total.body, "mul")
    if factors is None or len(factors) != 2 or factors[0] is not factors[1]:
        return None, False
    return deviation(factors[0]), True
