"""Norms over dimensions of one tensor, trailing or not, with weights of their shape.

    layer_norm[y] = (x[y] - mean) * rsqrt(var + eps) * gamma + beta
    rms_norm[y]   = x[y] * rsqrt(Σ_r x[y, r]² / R + eps) * weight

``mean`` and ``var`` are over ``axes``; sums are in float32 for float16 operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...proposal.undetermined import flags
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import ZERO, Load, Term
from .._forms.reduced_dimensions import (
    DIVISIONS,
    affine_product,
    args,
    deviation,
    epsilon,
    load,
    swept,
    with_load,
    with_units,
)
from .._forms.sums_of_products import Combined, combined

LAYER, RMS = "relax.nn.layer_norm", "relax.nn.rms_norm"
#: Attributes that the compute of a norm does not show, at the constructor's defaults.
UNSEEN = {"center": True, "scale": True}
LOOSE = flags(UNSEEN, "TVM scales and shifts whatever they are")
_W = ("float32[5]",) * 2


def _layer(axes: list[int], eps: float = 1e-5) -> dict[str, Any]:
    return {"axes": axes, "epsilon": eps, **UNSEEN}


MATCHES = [
    Matches(LAYER, ("float32[2, n, 5]", *_W), _layer([2])),
    Matches(LAYER, ("float32[5]", *_W), _layer([0], 1e-12)),
    Matches(LAYER, ("float32[n, 4, 5]", *("float32[4, 5]",) * 2), _layer([1, 2], 1e-3)),
    Matches(LAYER, ("float32[2, 1, 5]", *("float32[1, 5]",) * 2), _layer([1, 2])),
    Matches(LAYER, ("float32[2, n]", *("float32[n]",) * 2), _layer([1])),
    Matches(LAYER, ("float16[2, n, 5]", *("float16[5]",) * 2), _layer([2])),
    Matches(LAYER, ("float32[n, 1]", *("float32[1]",) * 2), _layer([1], 0.0)),
    Matches(LAYER, ("float32[1, 1, 6]", *("float32[1, 6]",) * 2), _layer([1, 2], 1e-3)),
    Matches(RMS, ("float32[4, 1]", "float32[1]"), {"axes": [1], "epsilon": 0.0}),
    Matches(RMS, ("float32[1, 1, 6]", "float32[1, 6]"), {"axes": [1, 2], "epsilon": 1e-3}),
    Matches(RMS, ("float32[2, n, 5]", "float32[5]"), {"axes": [2], "epsilon": 1e-6}),
    Matches(RMS, ("float16[2, n, 5]", "float16[5]"), {"axes": [2], "epsilon": 1e-5}),
    Matches(RMS, ("float32[n, 4, 5]", "float32[4, 5]"), {"axes": [1, 2], "epsilon": 1e-5}),
]

_RMS = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 6), "float32"), w: T.Buffer((6,), "float32"),
         out: T.Buffer((4, 6), "float32")):
    q = T.alloc_buffer((4,))
    for i, k in T.grid(4, {extent}):
        with T.sblock("squares"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                q[vi] = T.float32(0)
            q[vi] = q[vi] + x[vi, vk] * x[vi, vk]
    for i, k in T.grid(4, 6):
        with T.sblock("out"):
            vi, vk = T.axis.remap("SS", [i, k])
            out[vi, vk] = x[vi, vk] * {root} * w[{weight}]
"""
_ROOT = "T.rsqrt(q[vi] / T.float32(6) + T.float32(1e-5))"

REFUSES = [
    Refuses(
        "epsilon outside the root",
        _RMS.format(
            extent=6, weight="vk", root="(T.rsqrt(q[vi] / T.float32(6)) + T.float32(1e-5))"
        ),
    ),
    Refuses(
        "divided by another count",
        _RMS.format(extent=6, weight="vk", root="T.rsqrt(q[vi] / T.float32(5) + T.float32(1e-5))"),
    ),
    Refuses(
        "a square too many of one element",
        _RMS.format(extent=1, weight="vk", root="T.rsqrt(q[vi] * q[vi])").replace("6", "1"),
    ),
    Refuses("one element fewer", _RMS.format(extent=5, weight="vk", root=_ROOT)),
    Refuses("the weight is read in reverse", _RMS.format(extent=6, weight="5 - vk", root=_ROOT)),
]


@recogniser("layer_norm", precedence=440, ops=(LAYER,))
def layer_norm(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match a deviation divided by the root of its averaged square, scaled and shifted."""
    affine = affine_product(expression)
    if affine is None:
        return Refusal("the compute does not scale and shift")
    factors, gamma, beta = affine
    for term, root in (factors, factors[::-1]):
        data, eps = deviation(term), epsilon(root, "rsqrt")
        axes = None if data is None or eps is None else _averaged(eps[1], data, gamma)
        if data is not None and eps is not None and axes is not None:
            operands = (data.tensor.position, gamma.tensor.position, beta.tensor.position)
            attrs = {"axes": list(axes), "epsilon": eps[0], **UNSEEN}
            return [Proposal(LAYER, operands, attrs, undetermined=LOOSE)]
    return Refusal("the compute is not a deviation divided by its root mean square")


@recogniser("rms_norm", precedence=450, ops=(RMS,))
def rms_norm(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match a load divided by the root of its averaged square, times a weight."""
    factors = with_load(expression.outputs[0].body, "mul") if len(expression.outputs) == 1 else None
    scaled = None if factors is None else with_load(factors[0], "mul")
    if factors is None or scaled is None:
        return Refusal("the compute does not scale a load twice")
    weight, (root, data) = factors[1], scaled
    eps = epsilon(root, "rsqrt")
    axes = None if eps is None else _averaged(eps[1], data, weight)
    if eps is None or axes is None:
        return Refusal("the compute does not divide by a root mean square")
    attrs = {"axes": list(axes), "epsilon": eps[0]}
    return [Proposal(RMS, (data.tensor.position, weight.tensor.position), attrs)]


def _averaged(term: Term, data: Load, weight: Load) -> tuple[int, ...] | None:
    """The dimensions of the data that an average of squares covers: those of the weight."""
    parts = args(term, *DIVISIONS)
    total = combined(term if parts is None else parts[0], "add")
    if total is None:
        total = Combined((), term, ZERO)  # 0 + x² is x²
    square = args(total.body, "mul")
    if square is None or square[0] is not square[-1]:
        return None
    inside = load(square[0]) or deviation(square[0])
    if inside is None or inside.tensor is not data.tensor:
        return None
    dims = swept(inside, total.axes)
    shape = weight.tensor.shape
    for choice in () if dims is None else with_units(dims, data.tensor, len(shape))[::-1]:
        if tuple(data.tensor.shape[d] for d in choice) == shape:
            return choice
    return None
