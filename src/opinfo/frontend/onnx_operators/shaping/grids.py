"""Grids of sampling positions."""

from __future__ import annotations

from typing import Any

from ...onnx_graph.conversion.converter_table import converts
from ...onnx_graph.conversion.tvm_converters import convert
from ...onnx_graph.onnx_node import OnnxNode


@converts("AffineGrid")
def affine_grid(node: OnnxNode) -> Any:
    """Return positions of images of the sizes in input 1, by a matrix for each image."""
    batch, *_ = sizes = [int(size) for size in node.array(1, "size").reshape(-1)]
    if len(sizes) not in (4, 5) or min(sizes) < 1:
        node.refuse(f"size is {sizes}, expected 4 or 5 numbers from 1")
    rank = len(sizes) - 2
    node.check_shape(0, [batch, rank, rank + 1])
    return convert(node)
