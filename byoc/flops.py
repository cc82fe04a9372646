"""How much an op computes."""

from __future__ import annotations

from math import prod

from ..analysis.op_info import OpInfo
from ..analysis.recover import Recovered
from ..layout.graph import Op, Value
from ..layout.sizes import extent


def flops(found: Recovered, op: Op) -> int:
    """Multiplications and additions; one for each element of the result where none are known."""
    out = sum(_elements(v) for v in op.outputs)
    info = found.info
    if isinstance(info, OpInfo) and info.kind == "kOutEWiseFusable":
        weights = [op.values[o] for o in info.operands[1:2] if isinstance(o, int)]
        if weights and weights[0] is not None:
            return 2 * out * _terms(info, weights[0], op.outputs[0])
    return out


def _terms(info: OpInfo, weight: Value, out: Value) -> int:
    """How many products are summed for one element."""
    layout = info.attrs.get("kernel_layout")
    if layout is None:
        return extent(weight.shape[-2] if len(weight.shape) > 1 else weight.shape[0])
    return prod(extent(e) for e, c in zip(weight.shape, str(layout), strict=False) if c != "O")


def _elements(v: Value) -> int:
    return prod(map(extent, v.shape))
