"""Norms over groups of channels, with the variance as ``E[x²] - E[x]²``.

    out[y] = (x[y] - mean[g]) * rsqrt(var[g] + eps) * gamma[c] + beta[c]

``c = y[channel_axis]``; means are over ``axes`` and, for group_norm, the channels of the group
``g = c // (C / num_groups)``. With one channel per group it is instance_norm,
except for the rounding of float16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...proposal.undetermined import axes_with
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.integer import floordiv
from ...terms.term import ONE, ZERO, Int, Load, Term, as_int, mul
from ...terms.traversal import free
from .._forms.reduced_dimensions import (
    DIVISIONS,
    affine_product,
    args,
    deviation,
    epsilon,
    load,
    units,
)
from .._forms.sums_of_products import Combined, combined
from .layer_norm import LOOSE, UNSEEN

GROUP, INSTANCE = "relax.nn.group_norm", "relax.nn.instance_norm"


def _group(groups: int, channel: int, axes: list[int], eps: float = 1e-5) -> dict[str, Any]:
    attrs = {"num_groups": groups, "channel_axis": channel, "axes": axes, "epsilon": eps}
    return {**attrs, **UNSEEN}


def _instance(channel: int, axes: list[int], eps: float = 1e-5) -> dict[str, Any]:
    return {"channel_axis": channel, "axes": axes, "epsilon": eps, **UNSEEN}


_W = ("float32[6]",) * 2
MATCHES = [
    Matches(GROUP, ("float32[n, 6, 4, 5]", *_W), _group(2, 1, [2, 3])),
    Matches(GROUP, ("float32[2, 4, 5, 6]", *_W), _group(3, 3, [1, 2], 1e-3)),
    Matches(GROUP, ("float32[n, 6, 5]", *_W), _group(1, 1, [2])),
    Matches(GROUP, ("float16[2, 6, 4, 5]", *("float16[6]",) * 2), _group(2, 1, [2, 3])),
    Matches(GROUP, ("float16[n, 6, 4, 5]", *("float16[6]",) * 2), _group(6, 1, [2, 3])),
    Matches(GROUP, ("float16[2, 4, 5, 6]", *("float16[6]",) * 2), _group(6, 3, [1, 2], 0.01)),
    Matches(INSTANCE, ("float32[n, 6, 4, 5]", *_W), _instance(1, [2, 3])),
    Matches(INSTANCE, ("float32[2, 4, 6]", *_W), _instance(2, [1], 1e-3)),
    Matches(INSTANCE, ("float16[2, 6, 4, 5]", *("float16[6]",) * 2), _instance(1, [2, 3])),
]

_BODY = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((2, 6, 8), "float32"), g: T.Buffer((6,), "float32"),
         b: T.Buffer((6,), "float32"), out: T.Buffer((2, 6, 8), "float32")):
    s = T.alloc_buffer((2, 6))
    q = T.alloc_buffer((2, 6))
    for n, c, k in T.grid(2, 6, 8):
        with T.sblock("sums"):
            vn, vc, vk = T.axis.remap("SSR", [n, c, k])
            with T.init():
                s[vn, vc] = T.float32(0)
                q[vn, vc] = T.float32(0)
            s[vn, vc] = s[vn, vc] + x[vn, vc, vk]
            q[vn, vc] = q[vn, vc] + x[vn, vc, vk] * x[vn, vc, vk]
    for n, c, k in T.grid(2, 6, 8):
        with T.sblock("out"):
            vn, vc, vk = T.axis.remap("SSS", [n, c, k])
            out[vn, vc, vk] = (x[vn, vc, vk] - s[vn, vc] / T.float32(8)) * T.rsqrt(
                {var} + T.float32(1e-5)) * g[vc] + b[vc]
"""
_M = "s[vn, vc] / T.float32(8)"

REFUSES = [
    Refuses(
        "the square of the mean is not subtracted", _BODY.format(var="q[vn, vc] / T.float32(8)")
    ),
    Refuses("the unbiased variance", _BODY.format(var=f"q[vn, vc] / T.float32(7) - {_M} * ({_M})")),
    Refuses("the mean is not squared", _BODY.format(var=f"q[vn, vc] / T.float32(8) - {_M}")),
]


@recogniser("group_norm", precedence=470, ops=(GROUP, INSTANCE))
def group_norm(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match a deviation times ``rsqrt(E[x²] - E[x]² + eps)``, scaled and shifted along one axis."""
    affine = affine_product(expression)
    if affine is None:
        return Refusal("the compute does not scale and shift")
    factors, gamma, beta = affine
    for term, root in (factors, factors[::-1]):
        data, eps = deviation(term), epsilon(root, "rsqrt")
        inside = None if data is None or eps is None else _summed(eps[1])
        if data is None or eps is None or inside is None or len(gamma.indices) != 1:
            continue
        attrs = _shape(data, inside[0], inside[1], gamma.indices[0])
        if isinstance(attrs, Refusal):
            return attrs
        operands = (data.tensor.position, gamma.tensor.position, beta.tensor.position)
        attrs |= {"epsilon": eps[0], **UNSEEN}
        spare = [d for d in units(data.tensor) if d not in (*attrs["axes"], attrs["channel_axis"])]
        loose = axes_with(attrs["axes"], spare, "axes")
        readings = [(GROUP if "num_groups" in attrs else INSTANCE, attrs)]
        channels = data.tensor.shape[attrs["channel_axis"]].const
        if "num_groups" not in attrs and channels:  # they round float16 in different places
            readings.append((GROUP, {"num_groups": channels, **attrs}))
        return [Proposal(n, operands, a, undetermined=(*LOOSE, *loose)) for n, a in readings]
    return Refusal("the compute is not a deviation divided by its root mean square")


def _summed(var: Term) -> tuple[Load, Combined] | None:
    """The load of x and the sum in ``Σ x² / R - …``."""
    parts = args(var, "sub")
    squares = None if parts is None else args(parts[0], *DIVISIONS) or (parts[0],)
    total = None if squares is None else combined(squares[0], "add")
    factors = None if total is None else args(total.body, "mul")
    data = None if factors is None else load(factors[0])
    return None if total is None or data is None else (data, total)


def _shape(
    data: Load, inside: Load, total: Combined, weight_index: Int
) -> dict[str, Any] | Refusal:
    """Channel axis, axes and groups from where the sum reads the data."""
    places = (
        [d for d, index in enumerate(data.indices) if index is weight_index]
        if weight_index is not ZERO
        else units(data.tensor)
    )
    if not places:
        return Refusal("the weights are not read along an axis of the operand")
    channel = min(places, key=lambda d: d != 1)
    channel_index = inside.indices[channel]
    mixed = [a for a in total.axes if a in free(channel_index)]
    axes = [
        d
        for d, index in enumerate(inside.indices)
        if d != channel and not free(index).isdisjoint(total.axes)
    ]
    attrs = {"channel_axis": channel, "axes": axes}
    if not mixed:
        return attrs
    size = mixed[0].extent or ONE
    grouped = as_int(mixed[0]) + mul(floordiv(weight_index, size), size)
    if len(mixed) > 1 or channel_index is not grouped:
        return Refusal("the channels that are summed do not form a group", repr(channel_index))
    groups = floordiv(data.tensor.shape[channel], size).const
    if groups is None:
        return Refusal("the number of groups is symbolic")
    return {"num_groups": groups, **attrs}
