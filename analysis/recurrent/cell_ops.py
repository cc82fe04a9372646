"""The activations of recurrent cells, on Relax tensors and on scalars of TIR.

An activation is written as its name, the parameters that are not its defaults, and a bound for what
it is applied to: ``Sigmoid``, ``LeakyRelu(0.1)``, ``ScaledTanh(1.5, 0.5) clip 3.0``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax, tirx

Activation = Callable[[Any], Any]
#: The parameters of activations that have some, alpha before beta; None where it must be given.
PARAMETERS: Mapping[str, tuple[float | None, ...]] = {
    "Affine": (1.0, 0.0), "Elu": (1.0,), "HardSigmoid": (0.2, 0.5), "LeakyRelu": (0.01,),
    "ScaledTanh": (None, None), "ThresholdedRelu": (1.0,),
}  # fmt: skip


def activation_text(name: str, parameters: Sequence[float], clip: float) -> str:
    """Return how an activation is written.

    Args:
        name: Its name.
        parameters: Its parameters.
        clip: The largest magnitude of what it is applied to; 0 without a bound.
    """
    text = name
    if tuple(parameters) != PARAMETERS.get(name, ()):
        text += f"({', '.join(repr(float(x)) for x in parameters)})"
    return f"{text} clip {float(clip)!r}" if clip else text


@dataclass(frozen=True)
class CellOps:
    """Operations on one kind of operand.

    Attributes:
        functions: Activations by name, of an operand and numbers, their parameters.
        number: Returns an operand for a number.
        clip: Bounds the magnitude of an operand.
    """

    functions: Mapping[str, Callable[..., Any]]
    number: Callable[[float], Any]
    clip: Callable[[Any, float], Any]

    def activation(self, text: str) -> Activation:
        """Return the activation that a text stands for."""
        body, _, bound = text.partition(" clip ")
        name, _, rest = body.partition("(")
        given = rest.rstrip(")")
        numbers = [float(x) for x in given.split(",")] if given else PARAMETERS.get(name, ())
        function, parameters = self.functions[name], list(numbers)
        if not bound:
            return lambda x: function(x, *parameters)
        return lambda x: function(self.clip(x, float(bound)), *parameters)


def relax_ops(dtype: str) -> CellOps:
    """Return the operations on Relax tensors."""
    op = relax.op

    def const(x: float) -> Any:
        return relax.const(x, dtype)

    return CellOps(
        {
            "Affine": lambda x, a, b: const(a) * x + const(b),
            "Elu": lambda x, a: op.where(
                op.less(x, const(0.0)), const(a) * (op.exp(x) - const(1.0)), x),
            "HardSigmoid": lambda x, a, b: op.clip(const(a) * x + const(b), 0.0, 1.0),
            "LeakyRelu": op.nn.leakyrelu,
            "Relu": op.nn.relu,
            "ScaledTanh": lambda x, a, b: const(a) * op.tanh(const(b) * x),
            "Sigmoid": op.sigmoid,
            "Softplus": lambda x: op.maximum(x, const(0.0)) + op.log(
                const(1.0) + op.exp(const(0.0) - op.abs(x))),
            "Softsign": lambda x: x / (const(1.0) + op.abs(x)),
            "Tanh": op.tanh,
            "ThresholdedRelu": lambda x, a: op.where(op.greater(x, const(a)), x, const(0.0)),
        },
        const,
        lambda x, bound: op.clip(x, -bound, bound),
    )  # fmt: skip


def scalar_ops(dtype: str) -> CellOps:
    """Return the operations on scalars of TIR."""

    def const(x: float) -> Any:
        return tirx.const(x, dtype)

    zero, one = const(0.0), const(1.0)
    return CellOps(
        {
            "Affine": lambda x, a, b: const(a) * x + const(b),
            "Elu": lambda x, a: tirx.Select(x < zero, const(a) * (tirx.exp(x) - one), x),
            "HardSigmoid": lambda x, a, b: tirx.max(zero, tirx.min(one, const(a) * x + const(b))),
            "LeakyRelu": lambda x, a: tirx.Select(x >= zero, x, const(a) * x),
            "Relu": lambda x: tirx.max(x, zero),
            "ScaledTanh": lambda x, a, b: const(a) * tirx.tanh(const(b) * x),
            "Sigmoid": tirx.sigmoid,
            "Softplus": lambda x: tirx.max(x, zero) + tirx.log(one + tirx.exp(zero - tirx.abs(x))),
            "Softsign": lambda x: x / (one + tirx.abs(x)),
            "Tanh": tirx.tanh,
            "ThresholdedRelu": lambda x, a: tirx.Select(x > const(a), x, zero),
        },
        const,
        lambda x, bound: tirx.max(const(-bound), tirx.min(const(bound), x)),
    )
