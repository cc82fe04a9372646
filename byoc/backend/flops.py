"""The FLOPs of an operator, and the bytes that it moves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import Any

from ...analysis.answer.recovered import Recovered
from ...analysis.results.op_info import LayoutNormalised, OpInfo, Refusal
from ...layout.graph.relax_graph import Op
from ...layout.model.buffer_bytes import extent, size_of
from .region import Call, Region, Tensor

Shape = Sequence[Any]


def flops(recovered: Recovered, op: Op) -> int:
    """The multiplications and additions of an op; by default, the elements of its results."""
    out = sum(elements(v.shape) for v in op.outputs)
    info = recovered.operator
    if info is not None and info.kind == "kOutEWiseFusable":
        for operand in info.operands[1:2]:
            value = op.values[operand] if isinstance(operand, int) else None
            if value is not None and isinstance(operand, int):
                shape = stored(info, value.shape)
                return 2 * out * _terms(_kernel_layout(recovered, operand), shape)
    return out


def _kernel_layout(recovered: Recovered, k: int) -> str:
    """The layout string of a kernel in memory, empty for a matrix."""
    info = recovered.info
    if isinstance(info, LayoutNormalised):
        return info.layouts[k] if "kernel_layout" in info.logical.attrs else ""
    return "" if isinstance(info, Refusal) else str(info.attrs.get("kernel_layout") or "")


def products(call: Call) -> int:
    """The multiplications of a convolution or of a matmul, for converters' costs."""
    weight = call.operands[1]
    assert isinstance(weight, Tensor)
    layout = str(call.attrs.get("kernel_layout") or "")
    return elements(call.result.shape) * _terms(layout, stored(call, weight.shape))


def stored(product: OpInfo | Call, weight: Shape) -> Shape:
    """The shape of a product's second operand as a matrix product reads it."""
    transposed = product.attrs.get("transposed")
    return [*weight[:-2], weight[-1], weight[-2]] if transposed and transposed[1] else weight


def _terms(layout: str, weight: Shape) -> int:
    """The number of products that are summed for one element."""
    if not layout:
        return extent(weight[-2] if len(weight) > 1 else weight[0])
    dims = re.findall(r"\d*([A-Za-z])", layout)
    return prod(extent(e) for e, c in zip(weight, dims, strict=True) if c not in "Oo")


def moved(region: Region) -> int:
    """The bytes that a region reads and writes, for converters' costs."""
    return sum(size_of(t.shape, t.dtype) for t in (*region.inputs, *region.results))


def elements(shape: Shape) -> int:
    """The number of elements; a symbolic extent counts as a likely number."""
    return prod(map(extent, shape))
