"""RMS norm of a sum that is a result too, as the residual of a later layer.

    s[y] = data[y] + residual[y]
    out[y] = s[y] * rsqrt(Σ_r s[y, r]² / R + eps) * weight

Sums of squares are in float32 for float16 operands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...composites.norms import ADD_RMS_NORM
from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import CallTerm, Const, Term
from ...terms.traversal import subterms
from .._forms.reduced_dimensions import args, load
from .._forms.sums_of_products import uncast


def _case(shape: str, weight: str, dtype: str, axes: list[int], epsilon: float = 1e-5) -> Matches:
    x = f"{dtype}[{shape}]"
    attrs: dict[str, Any] = {"axes": axes, "epsilon": epsilon}
    return Matches(ADD_RMS_NORM, (x, x, f"{dtype}[{weight}]"), attrs)


MATCHES = [
    _case("n, 1, 64", "64", "float16", [2]),
    _case("1, n, 24", "24", "float16", [2], 1e-6),
    _case("n, 5", "5", "float32", [1]),
    _case("2, n, 4, 5", "4, 5", "float32", [2, 3], 1e-3),
    _case("n, 8", "8", "bfloat16", [1]),
]

_SCRIPT = """
@T.prim_func(s_tir=True)
def main(a: T.Buffer((4, 8), "float32"), b: T.Buffer((4, 8), "float32"),
         w: T.Buffer((8,), "float32"), out: T.Buffer((4, 8), "float32"),
         total: T.Buffer((4, 8), "float32")):
    q = T.alloc_buffer((4,))
    for i, k in T.grid(4, 8):
        with T.sblock("sum"):
            vi, vk = T.axis.remap("SS", [i, k])
            total[vi, vk] = {sum}
    for i, k in T.grid(4, 8):
        with T.sblock("squares"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                q[vi] = T.float32(0)
            q[vi] = q[vi] + {square}
    for i, k in T.grid(4, 8):
        with T.sblock("out"):
            vi, vk = T.axis.remap("SS", [i, k])
            out[vi, vk] = {scaled} * T.rsqrt(q[vi] * T.float32({inverse}) + T.float32(1e-5)) * {w}
"""
_TOTAL = "(a[vi, vk] + b[vi, vk])"
_RIGHT = {"sum": _TOTAL, "square": f"{_TOTAL} * {_TOTAL}", "scaled": _TOTAL, "inverse": 0.125,
          "w": "w[vk]"}  # fmt: skip


def _refused(why: str, **change: Any) -> Refuses:
    return Refuses(why, _SCRIPT.format(**_RIGHT | change))


REFUSES = [
    _refused("the result is a difference", sum="a[vi, vk] - b[vi, vk]"),
    _refused("the result is one of the operands", sum="a[vi, vk]"),
    _refused("the residual is not normalised", scaled="a[vi, vk]"),
    _refused("squares of one operand only", square="a[vi, vk] * a[vi, vk]"),
    _refused("products instead of squares", square=f"{_TOTAL} * a[vi, vk]"),
    _refused("another count", inverse=0.25),
    _refused("the sum of another row", scaled="(a[3 - vi, vk] + b[3 - vi, vk])"),
    _refused("the residual of another feature", sum="a[vi, vk] + b[vi, 7 - vk]"),
    _refused("the weight is read in reverse", w="w[7 - vk]"),
    _refused("the weight is a factor twice", w="w[vk] * w[vk]"),
]


@recogniser("add_rms_norm", precedence=452, ops=(ADD_RMS_NORM,))
def add_rms_norm(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match a product with a root, whose other result is a sum of two tensors."""
    if len(expression.outputs) != 2:
        return Refusal("a norm of a sum has two results")
    norm, total = (d.body for d in expression.outputs)
    sums = [x for t in args(total, "add") or () if (x := load(t)) is not None]
    roots = [t for t in subterms(norm) if isinstance(t, CallTerm) and t.op == "rsqrt"]
    added = {x.tensor for x in sums}
    if len(sums) != 2 or len(added) != 2 or not roots:
        return Refusal("the compute does not divide by a root and add two tensors")
    weights = [x for f in _factors(norm) if (x := load(f)) is not None and x.tensor not in added]
    if len(weights) != 1:
        return Refusal("the compute has no weight")
    rank, count = len(expression.outputs[0].axes), len(weights[0].tensor.shape)
    parts = args(roots[0].args[0], "add") or ()
    epsilon = next((float(t.value) for p in parts if isinstance(t := uncast(p), Const)), 0.0)
    attrs = {"axes": list(range(rank - count, rank)), "epsilon": epsilon}
    weight = weights[0].tensor.position
    first, second = sorted(t.position for t in added)  # a sum does not say which came first
    return [Proposal(ADD_RMS_NORM, (first, second, weight), attrs)]


def _factors(term: Term) -> Iterator[Term]:
    """The factors of a product of products."""
    parts = args(term, "mul")
    if parts is None:
        yield term
    else:
        for part in parts:
            yield from _factors(part)
