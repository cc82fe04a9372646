"""Pooling in any layout."""

from __future__ import annotations

from collections.abc import Sequence

from ....backend.region import Call
from ....patterns.pattern import Node
from ...common.whole_axes import part_of_axes
from ..graph.element_types import FLOAT, SMALL
from ..graph.graph_writer import GraphWriter
from ..graph.onnx_conditions import OnnxOperator, first_tensor, ints, plain, typed
from .convolutions import in_onnx, out_of_onnx, spatial_extents


def pool(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    attrs, layout = call.attrs, str(call.attrs["layout"])
    size, strides, dilation = (ints(attrs[k]) for k in ("pool_size", "strides", "dilation"))
    pads = ints(attrs["padding"])
    before, after = (spatial_extents(t.shape, layout) for t in (first_tensor(call), call.result))
    count = len(size)
    for k in range(count if attrs["ceil_mode"] else 0):
        pads[count + k] += _missing(k, before, after, size, strides, dilation, pads)
    window = {"kernel_shape": size, "strides": strides, "pads": pads, "dilations": dilation}
    if "max" in call.op:
        pooled = writer.node("MaxPool", [in_onnx(writer, xs[0], layout)], **window)
    else:
        pooled = writer.node("AveragePool", [in_onnx(writer, xs[0], layout)], **window,
                           count_include_pad=int(attrs["count_include_pad"]))  # fmt: skip
    return out_of_onnx(writer, pooled, layout)


def _missing(
    k: int, before: Sequence[int], after: Sequence[int], size: Sequence[int],
    strides: Sequence[int], dilation: Sequence[int], pads: Sequence[int],
) -> int:  # fmt: skip
    """What the last window of axis ``k`` reads beyond the padding."""
    window = (size[k] - 1) * dilation[k] + 1
    needed = (after[k] - 1) * strides[k] + window
    return max(0, needed - before[k] - pads[k] - pads[len(size) + k])


def rounded_down(node: Node) -> str | None:
    """The size is rounded down; or up, with numbers, where padding is not counted."""
    if not plain(node, "ceil_mode"):
        return None
    layout = str(plain(node, "layout"))
    if any(not isinstance(e, int) for v in node.tensors for e in spatial_extents(v.shape, layout)):
        return "ceil_mode is True, expected False for a symbolic shape"
    if "avg" in node.info.name and plain(node, "count_include_pad"):
        return "ceil_mode and count_include_pad are True, expected one of them to be False"
    return None


def small_padding(node: Node) -> str | None:
    """Padding is less than the window, as runtimes demand."""
    size, pads = (ints(node.info.attrs[k]) for k in ("pool_size", "padding"))
    if all(p < size[k % len(size)] for k, p in enumerate(pads)):
        return None
    return f"padding is {pads}, expected less than pool_size {size}"


def adaptive(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    layout = str(call.attrs["layout"])
    data = in_onnx(writer, xs[0], layout)
    before, after = (spatial_extents(t.shape, layout) for t in (first_tensor(call), call.result))
    if all(e == 1 for e in after):
        return out_of_onnx(writer, writer.node("GlobalAveragePool", [data]), layout)
    steps = [b // a for b, a in zip(before, after, strict=True)]
    pooled = writer.node("AveragePool", [data], kernel_shape=steps, strides=steps)
    return out_of_onnx(writer, pooled, layout)


def evenly(node: Node) -> str | None:
    """The windows are all of one size: their number divides the extent."""
    value, layout = node.operand(0), str(plain(node, "layout"))
    if value is None:
        return "the data is a literal"
    before, after = (spatial_extents(v.shape, layout) for v in (value, node.result))
    if all(e == 1 for e in after):
        return None
    static = all(isinstance(e, int) for e in (*before, *after))
    if static and all(b % a == 0 for b, a in zip(before, after, strict=True)):
        return None
    return f"output_size is {plain(node, 'output_size')}, expected 1 or divisors of {before}"


def unpacked(node: Node) -> str | None:
    """The layout splits no axis, and the result has it too."""
    layout, out = (str(plain(node, k) or "") for k in ("layout", "out_layout"))
    if not layout.isalpha() or not layout.isupper() or out not in ("", layout):
        return f"layout is {layout} and out_layout {out}, expected one letter for each axis"
    return None


#: A greatest element may be one of 8 bits.
_TYPED = {"max": typed((*FLOAT, *SMALL)), "avg": typed(FLOAT)}
POOLS: dict[str, OnnxOperator] = {}
for _rank in (1, 2, 3):
    for _kind in ("max", "avg"):
        POOLS[f"relax.nn.{_kind}_pool{_rank}d"] = OnnxOperator(
            pool, (_TYPED[_kind], unpacked, rounded_down, small_padding, part_of_axes)
        )
    POOLS[f"relax.nn.adaptive_avg_pool{_rank}d"] = OnnxOperator(
        adaptive, (typed(FLOAT), unpacked, evenly)
    )
