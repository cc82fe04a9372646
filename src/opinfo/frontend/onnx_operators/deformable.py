"""Deformable convolutions: displaced windows, then a product with the weights."""

from __future__ import annotations

from typing import Any

from tvm import relax

from ..formulas.deformed_windows import DeformedWindows
from ..onnx_graph.conversion.converter_table import converts
from ..onnx_graph.onnx_node import OnnxNode, dims_of
from ..onnx_graph.scalars import is_expr
from .convolution import Window, biased, check_kernel, window


@converts("DeformConv")
def deform_conv(node: OnnxNode) -> Any:
    """Convolve windows whose elements are displaced by input 2, and multiplied by input 4."""
    kernel = node.shape(1)
    if node.rank(0) != 4:
        node.refuse(f"a deformable convolution in {node.rank(0) - 2} dimensions, expected 2")
    if any(is_expr(k) for k in kernel):
        node.refuse("weights of a symbolic size", *kernel)
    check_kernel(node, kernel)
    group, shared = int(node.attr("group", 1)), int(node.attr("offset_group", 1))
    results, channels = kernel[0], kernel[1] * group
    if min(group, shared) < 1 or results % max(group, 1) or channels % max(shared, 1):
        node.refuse(f"{results} results of {channels} channels in {group} groups, with offsets for "
                    f"{shared}, expected divisors")  # fmt: skip
    batch, _, *spatial = node.shape(0)
    data = node.cast_shape(node.tensor(0), [batch, channels, *spatial])
    what = window(node, kernel[2:], spatial)
    sizes = [_size(node, what, k, extent) for k, extent in enumerate(spatial)]
    count = kernel[2] * kernel[3] * shared
    offset = node.cast_shape(node.tensor(2), [batch, 2 * count, *sizes])
    mask = [node.cast_shape(node.tensor(4), [batch, count, *sizes])] if node.has(4) else []
    windows = DeformedWindows(kernel[2:], what.strides, what.dilations, what.before, shared)
    columns = node.builder.emit_te(windows, data, offset, *mask,
                                   primfunc_name_hint="deformed_windows")  # fmt: skip
    return biased(node, _product(node, columns, node.tensor(1), group), 3)


def _size(node: OnnxNode, what: Window, k: int, extent: Any) -> Any:
    """Return the size of an axis of the result."""
    padded = node.arithmetic.add(node.arithmetic.add(extent, what.before[k]), what.after[k])
    space = node.arithmetic.add(padded, -what.reach[k])
    node.require(space >= 0)
    return node.arithmetic.add(node.arithmetic.floor_divide(space, what.strides[k]), 1)


def _product(node: OnnxNode, columns: Any, weights: Any, group: int) -> Any:
    """Return the product of windows and weights, group by group."""
    batch, channels, count, *sizes = dims_of(columns)
    results = dims_of(weights)[0]
    places = node.arithmetic.multiply(*sizes)
    terms = channels // group * count
    columns = node.reshape(columns, [batch, group, terms, places])
    rows = node.emit(relax.op.reshape(weights, [group, results // group, terms]))
    product = node.emit(relax.op.matmul(rows, columns))
    return node.reshape(product, [batch, results, *sizes])
