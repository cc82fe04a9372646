"""Operators after an anchor as post-ops: what is done to a result before it is written.

Constant factors and sums by channel right after a linear anchor go into its weights and bias:
(W x) s + b = (s W) x + b.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...backend.region import Array, Call, Region, Tensor
from ...patterns import unary_functions as unary
from ...patterns.symbolic_shapes import spread

BINARY = {
    "relax.add": "binary_add", "relax.subtract": "binary_sub", "relax.multiply": "binary_mul",
    "relax.divide": "binary_div", "relax.maximum": "binary_max", "relax.minimum": "binary_min",
}  # fmt: skip
#: Operators that keep every float32 as it is.
SAME = ("relax.astype",)

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


def literal(call: Call, name: str) -> float | None:
    """A scalar argument that is written in the compute."""
    found = call.literal(name)
    return None if found is None else float(found)


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


@dataclass(frozen=True)
class Folded:
    """A linear anchor's factor and sum by channel, and the calls that are left."""

    scale: Array | None
    shift: Array | None
    rest: tuple[Call, ...]
    terms: int = 0

    @property
    def rounds(self) -> list[str]:
        """What it rounds elsewhere than op by op."""
        out = ["factors by channel are multiplied into the weights"] * (self.scale is not None)
        return [*out, *["sums by channel are added to each other first"] * (self.terms > 1)]


def fold(region: Region, channel: int, count: int | None, scalable: bool) -> Folded:
    """Take what follows the anchor into its weights (if ``scalable``) and its bias.

    ``channel`` is the result's axis of channels and ``count`` their number, None if symbolic.
    """
    scale, shift, size = np.ones(count or 1), np.zeros(count or 1), np.zeros(count or 1)
    scaled, terms = False, 0
    calls = list(region.calls[1:])
    while calls and count is not None:
        if calls[0].op in SAME:
            calls.pop(0)
            continue
        found = _by_channel(calls[0], region, channel)
        if found is None:
            break
        value, op = found
        if op in ("relax.multiply", "relax.divide"):
            factor = value if op == "relax.multiply" else _inverse(value)
            if not scalable or not _moderate(scale * factor):
                break
            scale, shift, size, scaled = scale * factor, shift * factor, size * abs(factor), True
        else:
            total, sizes = shift + (value if op == "relax.add" else -value), size + abs(value)
            if not np.all(sizes <= CANCELS * np.maximum(abs(total), 1)):
                break
            shift, size, terms = total, sizes, terms + 1
        calls.pop(0)
    return Folded(_float(scale) if scaled else None, _float(shift) if terms else None,
                  tuple(calls), terms)  # fmt: skip


#: Sums of terms that are so much larger than what they add up to round on purpose.
CANCELS = 2.0**10
#: Factors outside of this, and their inverse, may leave float32 one by one.
LARGE = 1e18


def _inverse(value: Array) -> Array:
    with np.errstate(divide="ignore"):
        return 1.0 / value


def _moderate(scale: Array) -> bool:
    """Whether no factor overflows or vanishes; 0 is one that was given."""
    return bool(np.all((scale == 0) | ((abs(scale) < LARGE) & (abs(scale) > 1 / LARGE))))


def _float(a: Array) -> Array:
    return np.ascontiguousarray(a.astype("float32"))


def _by_channel(call: Call, region: Region, channel: int) -> tuple[Array, str] | None:
    """The constant of ``chain op constant`` by channel."""
    if call.op not in ("relax.add", "relax.subtract", "relax.multiply", "relax.divide"):
        return None
    commutes = call.op in ("relax.add", "relax.multiply")
    x1, x2 = literal(call, "x1"), literal(call, "x2")
    if x2 is not None or (x1 is not None and commutes):
        return np.asarray([x2 if x2 is not None else x1], "float64"), call.op
    tensors = [o for o in call.operands if isinstance(o, Tensor)]
    if len(tensors) != 2 or x1 is not None:
        return None
    chain_first = tensors[0].source == "call"
    other = tensors[1] if chain_first else tensors[0]
    if other.source != "constant" or not (chain_first or commutes):
        return None
    axes = spread(other.shape, call.result.shape)
    if axes not in ((), (channel,)):
        return None
    return region.constants[other.index].astype("float64").reshape(-1), call.op


def lines(calls: Sequence[Call], view: Any) -> list[str]:
    """C++ statements that append the calls to ``post``; ``view`` makes a tensor's expression."""
    return [line for c in calls for line in _lines(c, view)]


def _lines(call: Call, view: Any) -> list[str]:
    if call.op in SAME:
        return []
    found = eltwise_of(call.op, call.attrs) or scalar(
        call.op, literal(call, "x1"), literal(call, "x2")
    )
    if found is not None:
        return [f"post.eltwise({eltwise(*found)});"]
    first, second = (o for o in call.operands if isinstance(o, Tensor))
    before = []
    other, how = second, BINARY[call.op]
    if first.source != "call" or first.index != call.result.index - 1:
        other = first
        if how == "binary_sub":
            before, how = [f"post.eltwise({eltwise('linear', -1.0, 0.0)});"], "binary_add"
    return [*before, f"post.binary(algorithm::{how}, {view(other)});"]


def eltwise(how: str, alpha: float, beta: float) -> str:
    return f"algorithm::eltwise_{how}, {number(alpha)}, {number(beta)}"


def number(x: float) -> str:
    """A float literal of C++ with all its digits."""
    if np.isinf(x):
        return "INFINITY" if x > 0 else "-INFINITY"
    return f"{np.float32(x)!r}".removeprefix("np.float32(").removesuffix(")") + "f"
