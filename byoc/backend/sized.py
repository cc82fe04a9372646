"""A region with numbers for its symbolic extents, for cost functions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tvm

from ...analysis.terms.evaluate import evaluate
from ...analysis.terms.term import Int
from ...analysis.terms.traversal import free
from ...layout.model.buffer_bytes import SYMBOLIC, extent
from .region import Region, Tensor


def sized(region: Region) -> Region:
    """The region, with each symbolic extent as `layout.model.buffer_bytes` estimates it."""
    calls = tuple(
        replace(
            call,
            attrs={k: _attribute(v) for k, v in call.attrs.items()},
            operands=tuple(_tensor(o) if isinstance(o, Tensor) else o for o in call.operands),
            result=_tensor(call.result),
            more=tuple(map(_tensor, call.more)),
        )
        for call in region.calls
    )
    inputs, results = (tuple(map(_tensor, ts)) for ts in (region.inputs, region.results))
    return Region(region.symbol, calls, inputs, region.constants, results)


def _tensor(tensor: Tensor) -> Tensor:
    return tensor if tensor.static else replace(tensor, shape=tuple(map(extent, tensor.shape)))


def _attribute(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_attribute(v) for v in value]
    if isinstance(value, Int):
        return int(evaluate(value, dict.fromkeys(free(value), SYMBOLIC)))
    return extent(value) if isinstance(value, tvm.ir.Expr) else value
