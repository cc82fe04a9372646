"""Activations of neural networks: ``out[y] = f(x[y])``, tried before the operators they consist of.

relu(x) = max(x, 0)                  prelu(x, a) = x if 0 < x else a[axis] * x
leakyrelu(x) = x if 0 < x else alpha * x
softplus(x) = x if threshold < beta * x else log(1 + exp(beta * x)) / beta
"""

from __future__ import annotations

from collections.abc import Sequence

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ._elementwise import Ops, proposals
from ._template import NUMBERS, ElementwiseOp

OPS = Ops(
    ElementwiseOp("relax.nn.relu", "max", NUMBERS),
    ElementwiseOp("relax.nn.relu6", "max", NUMBERS, uses="min"),
    ElementwiseOp("relax.nn.silu", "mul", uses="sigmoid"),
    ElementwiseOp("relax.nn.gelu", "mul", uses="erf"),
    ElementwiseOp("relax.nn.gelu_tanh", "mul", uses="tanh"),
    ElementwiseOp("relax.nn.selu", "mul", uses="exp"),
    ElementwiseOp("relax.nn.leakyrelu", "ite", uses="mul", attrs={"alpha": (0.34375, 0.71875)}),
    ElementwiseOp("relax.nn.prelu", "ite", operands=(None, None), uses="mul", axis=1),
    ElementwiseOp("relax.nn.softplus", "ite", uses="log", attrs={"threshold": (12.0, 17.0)}),
    ElementwiseOp(
        "relax.nn.softplus",
        "ite",
        uses="log",
        attrs={"beta": (0.34375, 0.71875), "threshold": (12.0, 17.0)},
    ),
)

MATCHES = [
    *(
        Matches(f"relax.nn.{name}", (f"{dtype}[1, n, 4]",))
        for name in ("relu", "relu6", "silu", "gelu", "gelu_tanh", "selu")
        for dtype in ("float32", "float16", "bfloat16")
    ),
    Matches("relax.nn.relu", ("int8[2, 3]",)),
    Matches("relax.nn.relu", ("int32[n, 3]",)),
    Matches("relax.nn.relu6", ("int64[n, 3]",)),
    Matches("relax.nn.leakyrelu", ("float32[2, n]",), {"alpha": 0.1}),
    Matches("relax.nn.leakyrelu", ("float16[2, n]",), {"alpha": 0.01}),
    Matches("relax.nn.softplus", ("float32[3]",), {"threshold": 20.0}),
    Matches("relax.nn.softplus", ("float32[3]",), {"beta": 0.3, "threshold": 12.0}),
    Matches("relax.nn.softplus", ("float16[3]",), {"beta": 0.25, "threshold": 12.0}),
    Matches("relax.nn.prelu", ("float32[1, 3, n, 4]", "float32[3]"), {"axis": 1}),
    Matches("relax.nn.prelu", ("float32[2, 5]", "float32[5]"), {"axis": 1}),
]

_HEAD = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4,), "float32"), out: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.sblock("c"):
            vi = T.axis.spatial(4, i)
            out[vi] = """

REFUSES = [
    Refuses(
        "gelu with another constant",
        _HEAD + ("x[vi] * (T.float32(0.5) + T.erf(x[vi] * T.float32(0.7072)) * T.float32(0.5))\n"),
    ),
    Refuses(
        "the sigmoid of another value", _HEAD + ("x[vi] * T.sigmoid(x[vi] * T.float32(1.702))\n")
    ),
    Refuses(
        "the slope is on the wrong side",
        _HEAD + ("T.Select(T.float32(0) < x[vi], x[vi] * T.float32(0.1), x[vi])\n"),
    ),
    Refuses(
        "the factor of softplus is not one over beta",
        _HEAD
        + (
            "T.Select(T.float32(12) < x[vi] * T.float32(0.5), x[vi], "
            "T.float32(3) * T.log(T.float32(1) + T.exp(x[vi] * T.float32(0.5))))\n"
        ),
    ),
]


@recogniser("activation", precedence=100, ops=sorted({op.name for op in OPS}))
def activation(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match ``out[y] = f(x[y])``, where f is the formula of one of `OPS`."""
    return proposals(expression, OPS)
