"""Convolutions in any layout: ONNX has NCHW and OIHW only, so transposes surround others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ....backend.region import Call
from ....patterns.pattern import Node
from ..graph.element_types import FLOAT
from ..graph.graph_writer import GraphWriter
from ..graph.onnx_conditions import OnnxOperator, ints, plain, typed

#: The axes of data, kernels and transposed kernels in ONNX, by the number of spatial axes.
_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def order(layout: str, target: str) -> list[int]:
    """The axes of a layout in the order of another one, as for a transpose.

    >>> order("NHWC", "NCHW")
    [0, 3, 1, 2]
    """
    return [layout.index(axis) for axis in target]


def data_layout(rank: int) -> str:
    return "NC" + _SPATIAL[rank - 2]


def spatial_extents(shape: Sequence[Any], layout: str) -> list[Any]:
    """The extents of the spatial axes, in the order of ONNX."""
    return [shape[k] for k in order(layout, data_layout(len(layout)))[2:]]


def in_onnx(writer: GraphWriter, name: str, layout: str) -> str:
    """Data in NC and spatial axes; a transpose back that produced it is undone."""
    target = data_layout(len(layout))
    before = writer.before(name, "Transpose")
    if before is not None and list(before.attrs["perm"]) == order(target, layout):
        return before.inputs[0]
    return writer.transpose(name, order(layout, target))


def out_of_onnx(writer: GraphWriter, name: str, layout: str) -> str:
    return writer.transpose(name, order(data_layout(len(layout)), layout))


def conv(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    attrs = call.attrs
    layout, kernel = str(attrs["data_layout"]), str(attrs["kernel_layout"])
    back = call.op.endswith("_transpose")
    target = ("IO" if back else "OI") + _SPATIAL[len(layout) - 2]
    more: dict[str, Any] = {"output_padding": ints(attrs["output_padding"])} if back else {}
    result = writer.node(
        "ConvTranspose" if back else "Conv",
        [in_onnx(writer, xs[0], layout), writer.transpose(xs[1], order(kernel, target))],
        strides=ints(attrs["strides"]),
        pads=ints(attrs["padding"]),
        dilations=ints(attrs["dilation"]),
        group=int(attrs["groups"]),
        **more,
    )
    return out_of_onnx(writer, result, str(attrs["out_layout"] or layout))


def unpacked(node: Node) -> str | None:
    """No layout splits an axis."""
    for name in ("data_layout", "kernel_layout", "out_layout"):
        layout = str(plain(node, name) or "")
        if re.search(r"[0-9a-z]", layout):
            return f"{name} is {layout}, expected one letter for each axis"
    return None


def known_kernel(node: Node) -> str | None:
    """The kernel has a static shape: both runtimes pick their code by it."""
    value = node.operand(1)
    static = value is not None and all(isinstance(e, int) for e in value.shape)
    return None if static else "the kernel has a symbolic shape, expected a static shape"


CONVOLUTIONS: dict[str, OnnxOperator] = {
    f"relax.nn.conv{rank}d{kind}": OnnxOperator(conv, (typed(FLOAT), unpacked, known_kernel))
    for rank in (1, 2, 3)
    for kind in ("", "_transpose")
}
