"""Pad, by amounts that may be symbolic."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax, tirx, topi

from ...onnx_graph.conversion.converter_table import converts
from ...onnx_graph.onnx_node import OnnxNode
from ...onnx_graph.scalars import is_expr
from ...onnx_graph.values import Dim
from .slices import part

#: The modes of ONNX, and those of Relax.
MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}


@converts("Pad")
def pad(node: OnnxNode) -> Any:
    """Pad, or crop where an amount is negative."""
    rank, mode = node.rank(0), node.text("mode", "constant")
    if mode not in MODES:
        node.refuse(f"mode is '{mode}', expected one of {', '.join(MODES)}")
    amounts = (
        node.integers(1, "pads") if node.has(1) else list(node.attr("pads", node.attr("paddings")))
    )
    axes = node.array(3, "axes").reshape(-1).tolist() if node.has(3) else list(range(rank))
    before, after = [0] * rank, [0] * rank
    for k, axis in enumerate(axes):
        before[axis], after[axis] = amounts[k], amounts[k + len(axes)]
    number = node.attr("value", 0.0)
    if node.has(2) and node.value(2).elements is None:
        number = node.emit(relax.op.reshape(node.tensor(2), ()))
    elif node.has(2):
        number = node.array(2, "the value").reshape(-1)[0]
    return padded(node, node.tensor(0), before, after, number, mode)


def padded(
    node: OnnxNode,
    data: Any,
    before: list[Dim],
    after: list[Dim],
    number: Any,
    mode: str = "constant",
) -> Any:
    """Return a padded tensor; amounts may be symbolic, and are negative to crop.

    Args:
        node: The node for which it is.
        data: The tensor.
        before: The number of elements to add at the start of each axis.
        after: The number of elements to add at the end of each axis.
        number: The value of the new elements in mode "constant": a number, or a scalar of Relax.
        mode: A key of `MODES`.
    """
    dims = [int(d.value) if isinstance(d, tirx.IntImm) else d for d in data.ty.shape.values]
    data = _cropped(node, data, dims, before, after)
    if all(isinstance(x, int) and x == 0 for x in before + after):
        return data
    if mode != "constant":
        for dim, amount in zip(dims, map(max, before, after), strict=True):
            # an axis is repeated once, without its edge in mode reflect
            least = 1 if mode == "edge" else amount + (mode == "reflect")
            node.require(dim >= (least if amount else 0))
    if is_expr(number) and mode == "constant":
        return node.builder.emit_te(_padded_by, data, number, _exprs(before), _exprs(after))
    value = 0.0 if is_expr(number) else np.asarray(number).item()
    exact = mode != "constant" or isinstance(value, float) or int(float(value)) == value
    if exact and all(isinstance(x, int) for x in before + after):  # Relax's value is a float
        widths = [int(x) for pair in zip(before, after, strict=True) for x in pair]
        return node.emit(relax.op.nn.pad(data, widths, MODES[mode], float(value)))
    if mode != "constant":
        node.refuse(f"mode '{mode}' with symbolic pads", *before, *after)
    fill = tirx.const(value, str(data.ty.dtype))
    return node.builder.emit_te(topi.nn.pad, data, _exprs(before), _exprs(after), fill)


def _cropped(
    node: OnnxNode, data: Any, dims: list[Dim], before: list[Dim], after: list[Dim]
) -> Any:
    """Return a tensor without what negative amounts remove; these amounts become 0."""
    for axis, dim in enumerate(dims):
        first, last = before[axis], after[axis]
        if isinstance(first, int) and isinstance(last, int) and min(first, last) < 0:
            end = node.arithmetic.add(dim, min(last, 0))
            node.require(end >= max(-first, 0))
            data = part(node, data, axis, dim, max(-first, 0), end)
            before[axis], after[axis] = max(first, 0), max(last, 0)
    return data


def _exprs(dims: list[Dim]) -> list[Any]:
    return [x if is_expr(x) else tirx.IntImm("int64", x) for x in dims]


def _padded_by(data: Any, value: Any, before: list[Any], after: list[Any]) -> Any:
    """Pad with the element of a tensor."""
    return topi.nn.pad(data, before, after, value())
