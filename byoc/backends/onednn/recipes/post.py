"""Operators after an anchor as post-ops, applied before the result is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....backend.region import Call, Tensor
from ....patterns import unary_functions as unary
from ...common.fold_channels import SAME
from ...common.region_source import literal
from .recipe import OperandView, Recipe

BINARY = {
    "relax.add": "binary_add", "relax.subtract": "binary_sub", "relax.multiply": "binary_mul",
    "relax.divide": "binary_div", "relax.maximum": "binary_max", "relax.minimum": "binary_min",
}  # fmt: skip

_ELTWISE = {
    "relax.nn.relu": "relu", "relax.sigmoid": "logistic", "relax.tanh": "tanh",
    "relax.nn.gelu": "gelu_erf", "relax.nn.gelu_tanh": "gelu_tanh", "relax.exp": "exp",
    "relax.abs": "abs", "relax.sqrt": "sqrt", "relax.square": "square", "relax.log": "log",
}  # fmt: skip


def eltwise_of(name: str, attrs: Mapping[str, Any]) -> tuple[str, float, float] | None:
    """The eltwise algorithm with its two parameters."""
    if name in _ELTWISE:
        return _ELTWISE[name], 0.0, 0.0
    match name:
        case "relax.nn.leakyrelu":
            return "relu", float(attrs["alpha"]), 0.0
        case "relax.nn.relu6":
            return "clip", 0.0, 6.0
        case "relax.clip":
            return "clip", float(attrs["min"]), float(attrs["max"])
        case "relax.nn.silu":
            return "swish", 1.0, 0.0
        case unary.HARD_SWISH:
            return "hardswish", float(attrs["alpha"]), float(attrs["beta"])
        case "relax.negative":
            return "linear", -1.0, 0.0
    if name == "relax.nn.softplus" and unary.is_softplus(attrs):
        return "soft_relu", 1.0, 0.0
    return None


def scalar(name: str, x1: float | None, x2: float | None) -> tuple[str, float, float] | None:
    """A binary operator with one literal as an eltwise algorithm."""
    match name, x1, x2:
        case "relax.add", None, float(c):
            return "linear", 1.0, c
        case "relax.add", float(c), None:
            return "linear", 1.0, c
        case "relax.subtract", None, float(c):
            return "linear", 1.0, -c
        case "relax.subtract", float(c), None:
            return "linear", -1.0, c
        case "relax.multiply", None, float(c):
            return "linear", c, 0.0
        case "relax.multiply", float(c), None:
            return "linear", c, 0.0
        case "relax.divide", None, float(c):
            return "linear", 1.0 / c, 0.0
        case "relax.divide", float(c), None:
            return "pow", c, -1.0
        case "relax.maximum", float(c), None:
            return "clip", c, float("inf")
        case "relax.maximum", None, float(c):
            return "clip", c, float("inf")
        case "relax.minimum", float(c), None:
            return "clip", float("-inf"), c
        case "relax.minimum", None, float(c):
            return "clip", float("-inf"), c
    return None


def follow(recipe: Recipe, calls: Sequence[Call], view: Callable[[Tensor], OperandView]) -> Recipe:
    """The recipe with post-ops for calls; ``view`` returns a tensor in the recipe's axes."""
    for call in calls:
        if call.op not in SAME:
            _follow(recipe, call, view)
    return recipe


def _follow(recipe: Recipe, call: Call, view: Callable[[Tensor], OperandView]) -> None:
    algorithm = eltwise_of(call.op, call.attrs) or scalar(
        call.op, literal(call, "x1"), literal(call, "x2")
    )
    if algorithm is not None:
        recipe.eltwise(*algorithm)
        return
    first, second = (o for o in call.operands if isinstance(o, Tensor))
    operand, how = second, BINARY[call.op]
    if first.source != "call" or first.index != call.result.index - 1:
        operand = first
        if how == "binary_sub":
            recipe.eltwise("linear", -1.0, 0.0)
            how = "binary_add"
    recipe.binary(how, view(operand))
