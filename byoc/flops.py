"""How much an op computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from ..analysis.op_info import OpInfo
from ..analysis.recover import Recovered
from ..layout.graph import Op
from ..layout.sizes import extent
from .region import Call, Tensor

Shape = Sequence[Any]


def flops(found: Recovered, op: Op) -> int:
    """Multiplications and additions; one for each element of the result where none are known."""
    out = sum(_elements(v.shape) for v in op.outputs)
    info = found.info
    if isinstance(info, OpInfo) and info.kind == "kOutEWiseFusable":
        weights = [op.values[o] for o in info.operands[1:2] if isinstance(o, int)]
        if weights and weights[0] is not None:
            return 2 * out * _terms(info.attrs, weights[0].shape)
    return out


def products(call: Call) -> int:
    """The multiplications of a convolution or of a matmul, for converters' costs."""
    weight = call.operands[1]
    assert isinstance(weight, Tensor)
    return _elements(call.result.shape) * _terms(call.attrs, weight.shape)


def _terms(attrs: Mapping[str, Any], weight: Shape) -> int:
    """How many products are summed for one element."""
    layout = attrs.get("kernel_layout")
    if layout is None:
        return extent(weight[-2] if len(weight) > 1 else weight[0])
    return prod(extent(e) for e, c in zip(weight, str(layout), strict=False) if c != "O")


def _elements(shape: Shape) -> int:
    return prod(map(extent, shape))
