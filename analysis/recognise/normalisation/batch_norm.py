"""Batch normalisation, for inference and for training: three outputs.

    out[y]      = (x[y] - mean[c]) / sqrt(var[c] + eps) * gamma[c] + beta[c]        c = y[axis]
    new_mean[c] = (1 - momentum) * moving_mean[c] + momentum * mean[c]
    new_var[c]  = (1 - momentum) * moving_var[c] + momentum * var[c]

For inference ``mean`` and ``var`` are the moving ones, which are passed through. For training they
are those of x over all dimensions except ``axis``. Without ``scale`` gamma is not read, without
``center`` beta is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...proposal.undetermined import among, numbers
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import ZERO, Const, Load, TensorVar, Term
from ...terms.traversal import tensors
from .._forms.reduced_dimensions import args, epsilon, load, units, with_load
from .._forms.sums_of_products import bare

OP = "relax.nn.batch_norm"


def _attrs(axis: int, training: bool, eps: float = 1e-5, momentum: float = 0.1) -> dict[str, Any]:
    attrs = {"axis": axis, "epsilon": eps, "momentum": momentum, "training": training}
    return {**attrs, "center": True, "scale": True}


_W = ("float32[6]",) * 4
MATCHES = [
    Matches(OP, ("float32[n, 6, 4, 5]", *_W), _attrs(1, False)),
    Matches(OP, ("float32[2, 4, 6]", *_W), _attrs(2, False, 1e-3)),
    Matches(OP, ("float32[n, 6]", *_W), _attrs(1, False)),
    Matches(OP, ("float32[1, 1, 4, 5]", *("float32[1]",) * 4), _attrs(1, False)),
    Matches(OP, ("float32[2, 6, 4, 5]", *_W), _attrs(1, True, 1e-5, 0.3)),
    Matches(OP, ("float32[n, 6, 4, 5]", *_W), _attrs(1, True)),
    Matches(OP, ("float16[2, 6, 4]", *("float16[6]",) * 4), _attrs(1, False)),
    Matches(OP, ("float32[n, 6, 4, 5]", *_W), _attrs(1, False) | {"center": False}),
    Matches(OP, ("float16[2, 6, 4]", *("float16[6]",) * 4), _attrs(1, False) | {"scale": False}),
    Matches(OP, ("float32[2, 4, 6]", *_W), _attrs(2, False) | {"center": False, "scale": False}),
    Matches(OP, ("float32[n, 6, 4, 5]", *_W), _attrs(1, True, 1e-3, 0.3) | {"center": False}),
]

_BODY = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((2, 6, 4), "float32"), g: T.Buffer((6,), "float32"),
         b: T.Buffer((6,), "float32"), m: T.Buffer((6,), "float32"), v: T.Buffer((6,), "float32"),
         out: T.Buffer((2, 6, 4), "float32"), om: T.Buffer((6,), "float32"),
         ov: T.Buffer((6,), "float32")):
    for n, c, i in T.grid(2, 6, 4):
        with T.sblock("out"):
            vn, vc, vi = T.axis.remap("SSS", [n, c, i])
            out[vn, vc, vi] = {out}
    for c in range(6):
        with T.sblock("mean"):
            vc = T.axis.spatial(6, c)
            om[vc] = {mean}
            ov[vc] = {var}
"""
_OUT = "(x[vn, vc, vi] - m[vc]) / T.sqrt({}) * g[vc] + b[vc]"
_RIGHT = _OUT.format("v[vc] + T.float32(1e-5)")

REFUSES = [
    Refuses(
        "epsilon added after the root",
        _BODY.format(
            out=_OUT.format("v[vc]").replace("T.sqrt(v[vc])", "(T.sqrt(v[vc]) + T.float32(1e-5))"),
            mean="m[vc]",
            var="v[vc]",
        ),
    ),
    Refuses("the new moments are swapped", _BODY.format(out=_RIGHT, mean="v[vc]", var="m[vc]")),
    Refuses(
        "the mean is scaled too",
        _BODY.format(
            out="(x[vn, vc, vi] - m[vc] / T.sqrt(v[vc] + T.float32(1e-5))) * g[vc] + b[vc]",
            mean="m[vc]",
            var="v[vc]",
        ),
    ),
    Refuses(
        "each channel is read with the next channel's weight",
        _BODY.format(out=_RIGHT.replace("g[vc]", "g[(vc + 1) % 6]"), mean="m[vc]", var="v[vc]"),
    ),
]


@recogniser("batch_norm", precedence=460, ops=(OP,))
def batch_norm(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Derive operands and epsilon from the first output's root, momentum from the second."""
    if len(expression.outputs) != 3:
        return Refusal("batch_norm has three outputs")
    core, gamma, beta = _affine(expression.outputs[0].body)
    quotient = args(core, "div")
    eps = None if quotient is None else epsilon(quotient[1], "sqrt")
    centred = None if quotient is None else args(quotient[0], "sub")
    data = None if centred is None else load(centred[0])
    if eps is None or centred is None or data is None:
        return Refusal("the first output is not a deviation divided by a root, scaled and shifted")
    moving = _moving(expression, centred[1], eps[1])
    if moving is None:
        return Refusal("the second and third outputs are not moving moments")
    mean, var, momentum = moving
    weights = _weights(expression, (data, mean, var), gamma, beta)
    if weights is None:
        return Refusal("scale and shift are not among the parameters")
    axes = _channel(data, gamma or beta or load(centred[1]))
    rate = 0.1 if momentum is None else momentum
    attrs = _attrs(axes[0] if axes else 1, momentum is not None, eps[0], rate)
    attrs |= {"center": beta is not None, "scale": gamma is not None}
    momentum_notes = numbers(["momentum"], "moving moments are only updated in training")
    axis_notes = among("axis", sorted(axes), "dimensions of extent 1 are alike")
    notes = (*(momentum_notes if momentum is None else ()), *axis_notes)
    operands = (data.tensor.position, *weights, mean.tensor.position, var.tensor.position)
    return [Proposal(OP, operands, {**attrs, "axis": a}, undetermined=notes) for a in axes[:1]]


def _affine(term: Term) -> tuple[Term, Load | None, Load | None]:
    """``core * gamma[c] + beta[c]`` as ``(core, gamma, beta)``; None for a missing one."""
    core, beta = with_load(term, "add") or (term, None)
    core, gamma = with_load(core, "mul") or (core, None)
    return core, gamma, beta


def _weights(
    expression: TensorExpression, others: tuple[Load, ...], gamma: Load | None, beta: Load | None
) -> tuple[int, int] | None:
    """The positions of gamma and beta; a missing one is a parameter that is not read."""
    read = {t for c in expression.outputs for t in tensors(c.body)}
    vector = others[1].tensor
    unread = (
        param.position
        for param in expression.inputs
        if isinstance(param, TensorVar) and param not in read and param.shape == vector.shape
    )
    positions = [next(unread, None) if w is None else w.tensor.position for w in (gamma, beta)]
    return None if positions[0] is None or positions[1] is None else (positions[0], positions[1])


def _channel(data: Load, gamma: Load | None) -> Sequence[int]:
    """The dimension that indexes a weight; if several have extent 1, the second, as in NCHW."""
    if gamma is None or len(gamma.indices) != 1:
        return ()
    (index,) = gamma.indices
    if index is not ZERO:
        return [d for d, i in enumerate(data.indices) if i is index][:1]
    return sorted(units(data.tensor), key=lambda d: d != 1)


def _moving(
    expression: TensorExpression, mean: Term, var: Term
) -> tuple[Load, Load, float | None] | None:
    """Moving mean, moving variance, and the momentum of a training step."""
    mean_update, var_update = (c.body for c in expression.outputs[1:])
    direct = load(mean), load(var)
    if direct[0] is not None and direct[1] is not None:
        return direct[0], direct[1], None
    mean_blend, var_blend = _blend(mean_update), _blend(var_update)
    if mean_blend is None or var_blend is None:
        return None
    return mean_blend[0], var_blend[0], mean_blend[1]


def _blend(term: Term) -> tuple[Load, float] | None:
    """``(1 - momentum) * old[c] + momentum * new`` as ``(old, momentum)``."""
    old, momentum = None, None
    for part in args(term, "add") or ():
        factors = args(part, "mul") or ()
        scale = next((bare(s) for s in factors if isinstance(bare(s), Const)), None)
        value = next((load(s) for s in factors if load(s) is not None), None)
        if value is not None:
            old = value
        elif isinstance(scale, Const):
            momentum = float(scale.value)
    return None if old is None or momentum is None else (old, momentum)
