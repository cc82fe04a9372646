"""Gated activations of the two halves of a tensor in one formula, as SwiGLU.

    out[.., j, ..] = activation(x[.., j, ..]) * x[.., j + n, ..]           or  x[2 j], x[2 j + 1]

Where the halves and the activation have buffers of their own, they are operators of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...composites.gated import ACTIVATIONS, GATED
from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import CallTerm, Load
from ...terms.term.literals import is_const
from ...terms.traversal import subterms
from .._forms.reduced_dimensions import args


def _case(x: str, axis: int, activation: str = "silu", **more: Any) -> Matches:
    attrs = {"activation": activation, "axis": axis, "gate": 0, "paired": False, **more}
    return Matches(GATED, (x,), attrs)


MATCHES = [
    _case("float32[n, 64]", 1),
    _case("float16[1, n, 64]", 2, gate=1),
    _case("float32[2, 64]", 1, "gelu"),
    _case("float16[n, 8, 4]", 1, "gelu_tanh"),
    _case("float32[n, 64]", 1, "sigmoid", gate=1),
    _case("float32[n, 64]", 1, "relu"),
    _case("float32[6, n]", 0, "tanh"),
    _case("float32[n, 64]", 1, paired=True),
    _case("float16[n, 64]", 1, "gelu_tanh", gate=1, paired=True),
]

_SCRIPT = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 64), "float32"), y: T.Buffer((4, 64), "float32"),
         out: T.Buffer((4, 32), "float32")):
    for i, j in T.grid(4, 32):
        with T.sblock("out"):
            v, k = T.axis.remap("SS", [i, j])
            out[v, k] = {value}
"""


def _refused(why: str, value: str) -> Refuses:
    return Refuses(why, _SCRIPT.format(value=value))


REFUSES = [
    _refused("the halves overlap", "x[v, k] * T.sigmoid(x[v, k]) * x[v, k + 31]"),
    _refused("the sigmoid is of the other half", "x[v, k] * T.sigmoid(x[v, k + 32]) * x[v, k]"),
    _refused("a half of another row", "x[v, k] * T.sigmoid(x[v, k]) * x[3 - v, k + 32]"),
    _refused("the second half is in reverse", "x[v, k] * T.sigmoid(x[v, k]) * x[v, 63 - k]"),
    _refused("a sum instead of a product", "x[v, k] * T.sigmoid(x[v, k]) + x[v, k + 32]"),
    _refused("the gate is negated", "x[v, k] * T.sigmoid(-x[v, k]) * x[v, k + 32]"),
    _refused("the gate is scaled",
             "x[v, k] * T.sigmoid(T.float32(1.702) * x[v, k]) * x[v, k + 32]"),
    _refused("the up projection is shifted",
             "x[v, k] * T.sigmoid(x[v, k]) * (x[v, k + 32] + T.float32(1))"),
    _refused("every other element of the first half", "x[v, k] * T.sigmoid(x[v, k]) * x[v, 2 * k]"),
    _refused("the halves are of two tensors", "x[v, k] * T.sigmoid(x[v, k]) * y[v, k + 32]"),
]  # fmt: skip

#: The call that each activation has, for the order of proposals; the proof decides.
_CALLS = {"silu": ("sigmoid", "exp"), "sigmoid": ("sigmoid", "exp"), "gelu": ("erf",),
          "gelu_tanh": ("tanh",), "tanh": ("tanh",), "relu": ("max",)}  # fmt: skip


@recogniser("gated_activation", precedence=164, ops=(GATED,))
def gated_activation(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match a product that reads two halves of one tensor, one of them inside an activation."""
    (definition, *others) = expression.outputs
    body = definition.body
    if others or (args(body, "mul") or args(body, "div")) is None:
        return Refusal("a gated activation is one product, or a quotient by 1 + exp(-x)")
    loads = {t for t in subterms(body) if isinstance(t, Load)}
    calls = [t for t in subterms(body) if isinstance(t, CallTerm)]
    names = {t.op for t in calls}
    activations = [a for a in ACTIVATIONS if names.intersection(_CALLS[a])]
    if len(loads) != 2 or len({t.tensor for t in loads}) != 1 or not activations:
        return Refusal("the product does not read two elements of one tensor and activate one")
    inside = [t for t in calls if t.op in _CALLS[activations[0]]]
    gates = {s for t in inside for s in subterms(t) if isinstance(s, Load)}
    if len(gates) != 1:
        return Refusal("both elements are activated")
    (gate,) = gates
    (other,) = loads - gates
    tensor = gate.tensor
    axes = [
        d for d, (i, j) in enumerate(zip(gate.indices, other.indices, strict=True)) if i is not j
    ]
    if len(axes) != 1:
        return Refusal("the elements differ in several indices")
    (axis,) = axes
    distance, extent = (other.indices[axis] - gate.indices[axis]).const, tensor.shape[axis].const
    if distance is None or extent is None or extent % 2:
        return Refusal("the distance of the elements is not known")
    paired = abs(distance) == 1 and not is_const(definition.out.shape[axis], 1)
    attrs = {"axis": axis, "gate": int(distance < 0), "paired": paired}
    operands = (tensor.position,)
    return [Proposal(GATED, operands, {"activation": a, **attrs}) for a in activations]
