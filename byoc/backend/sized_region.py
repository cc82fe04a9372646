"""A region with numbers for its symbolic extents, for cost functions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tvm

from ...analysis.terms.evaluate import evaluate
from ...analysis.terms.term import Int
from ...analysis.terms.traversal import free
from ...layout.model.buffer_bytes import SYMBOLIC, extent
from .region import Call, Region, Tensor


def sized(region: Region) -> Region:
    """The region, with each symbolic extent as `layout.model.buffer_bytes` estimates it."""
    calls = tuple(map(_call, region.calls))
    inputs, results = (tuple(map(_tensor, ts)) for ts in (region.inputs, region.results))
    return Region(region.symbol, calls, inputs, region.constants, results)


def _call(call: Call) -> Call:
    """The call with numbers; itself if it has no symbols, as most have, of which there are many."""
    tensors = (o for o in (*call.operands, *call.results) if isinstance(o, Tensor))
    if all(t.static for t in tensors) and all(map(_is_plain, call.attrs.values())):
        return call
    return replace(
        call,
        attrs={k: _attribute(v) for k, v in call.attrs.items()},
        operands=tuple(_tensor(o) if isinstance(o, Tensor) else o for o in call.operands),
        result=_tensor(call.result),
        more=tuple(map(_tensor, call.more)),
    )


def _is_plain(value: Any) -> bool:
    """Whether an attribute has no expression."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))


def _tensor(tensor: Tensor) -> Tensor:
    return tensor if tensor.static else replace(tensor, shape=tuple(map(extent, tensor.shape)))


def _attribute(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_attribute(v) for v in value]
    if isinstance(value, Int):
        return int(evaluate(value, dict.fromkeys(free(value), SYMBOLIC)))
    return extent(value) if isinstance(value, tvm.ir.Expr) else value
