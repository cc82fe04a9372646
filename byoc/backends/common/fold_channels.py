"""Fold channelwise factors and terms after a linear anchor into its weights and bias.

(W x) s + b = (s W) x + b
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...backend.region import Array, Call, Region, Tensor
from ...patterns.extents.symbolic_shapes import spread
from .region_source import literal

#: Operators that leave every float32 unchanged.
SAME = ("relax.astype",)


@dataclass(frozen=True)
class Folded:
    """A linear anchor's factor and term by channel; ``epilogue`` has the calls after them."""

    scale: Array | None
    shift: Array | None
    epilogue: tuple[Call, ...]
    terms: int = 0

    @property
    def rounds(self) -> list[str]:
        """How it rounds differently from its operators one by one."""
        out = ["factors by channel are multiplied into the weights"] * (self.scale is not None)
        return [*out, *["sums by channel are added to each other first"] * (self.terms > 1)]


def fold(region: Region, channel: int, count: int | None, scalable: bool) -> Folded:
    """Fold what follows the anchor into its weights (if ``scalable``) and its bias.

    ``channel`` is the channel axis of the result, ``count`` its extent, None if symbolic.
    """
    scale, shift, size = np.ones(count or 1), np.zeros(count or 1), np.zeros(count or 1)
    scaled, terms = False, 0
    calls = list(region.calls[1:])
    while calls and count is not None:
        if calls[0].op in SAME:
            calls.pop(0)
            continue
        constant = _by_channel(calls[0], region, channel)
        if constant is None:
            break
        value, op = constant
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


def multiplied(weights: Array, factors: Array) -> Array:
    """Weights times factors that broadcast to them, in the weights' dtype.

    Weights without memory of their own stand for any: what is returned has their shape.
    """
    if weights.size > 1 and not any(weights.strides):
        return weights
    return np.asarray((weights.astype("float32") * factors).astype(weights.dtype))


#: Terms this much larger than their sum are not folded: their rounding may be intended.
CANCELS = 2.0**10
#: Larger factors, or ones below the inverse, may overflow float32 when applied one by one.
LARGE = 1e18


def _inverse(value: Array) -> Array:
    with np.errstate(divide="ignore"):
        return 1.0 / value


def _moderate(scale: Array) -> bool:
    """Whether no factor overflows or vanishes; an exact 0 is fine."""
    return bool(np.all((scale == 0) | ((abs(scale) < LARGE) & (abs(scale) > 1 / LARGE))))


def _float(array: Array) -> Array:
    return np.ascontiguousarray(array.astype("float32"))


def _by_channel(call: Call, region: Region, channel: int) -> tuple[Array, str] | None:
    """The constant and the op of ``chain op constant``; None unless it varies by channel only."""
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
    operand = tensors[1] if chain_first else tensors[0]
    if operand.source != "constant" or not (chain_first or commutes):
        return None
    axes = spread(operand.shape, call.result.shape)
    if axes not in ((), (channel,)):
        return None
    return region.constants[operand.index].astype("float64").reshape(-1), call.op
