"""Products of matrices of integers in files: OpenVINO sums them in float32.

Exact are sums up to 2^24. Where a sum is only cast to float32, it has the accuracy of a product of
floats, unless int32 would wrap around.
"""

from __future__ import annotations

import math
from typing import Any

from ....analysis.composites.products import TRANSPOSED_MATMUL
from ....layout.graph.relax_graph import Value
from ...patterns.clamped_values import MOST
from ...patterns.pattern_node import Node, node
from ...patterns.value_bounds import bounds

_MATMULS = ("relax.matmul", TRANSPOSED_MATMUL)
_OTHERS = ("relax.einsum", "relax.outer")


def rounded_sum(of: Node) -> str | None:
    """Why OpenVINO may have another sum of products of int32."""
    name, result = of.info.name, of.result
    convolves = name.startswith("relax.nn.conv")
    if result.dtype != "int32" or not (name in (*_MATMULS, *_OTHERS) or convolves):
        return None
    most = math.inf if name in _OTHERS else _most(of, convolves)
    if most <= MOST or (most < 2.0**31 and _becomes_float(result, of)):
        return None
    return f"{name} sums up integers to {most:.3g}, which OpenVINO rounds beyond 2^24"


def _most(of: Node, convolves: bool) -> float:
    """The largest sum that the bounds of both operands allow."""
    data, weights = of.operand(0), of.operand(1)
    if data is None or weights is None:
        return math.inf
    ends = [bounds(v, of.infos) for v in (data, weights)]
    extents = _kernel(weights, of) if convolves else [_depth(weights, of)]
    if None in ends or not all(isinstance(e, int) for e in extents):
        return math.inf
    return math.prod([*extents, *(max(map(abs, e)) for e in ends if e is not None)])


def _kernel(weights: Value, of: Node) -> list[Any]:
    """The extents of a kernel without one of its axes of channels, the shorter one."""
    layout = str((of.info.attrs or {}).get("kernel_layout", "OI"))
    channels = [weights.shape[layout.index(c)] for c in "OI"]
    if not all(isinstance(e, int) for e in channels):
        return [math.inf]
    others = [e for e, c in zip(weights.shape, layout, strict=True) if c not in "OI"]
    return [max(channels), *others]


def _depth(weights: Value, of: Node) -> Any:
    """How many products a product of matrices sums."""
    transposed = (of.info.attrs or {}).get("transposed") or (False, False)
    return weights.shape[-1 if weights.rank == 1 or transposed[1] else -2]


def _becomes_float(value: Value, of: Node) -> bool:
    """Whether a tensor is only cast to float32."""
    readers = [node(op, of.infos) for op in value.uses]
    return value.pinned is None and all(
        r is not None and r.info.name == "relax.astype" and r.result.dtype == "float32"
        for r in readers
    )
