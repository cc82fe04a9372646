"""Regions of interest of images."""

from __future__ import annotations

from typing import Any

from ...onnx_graph.converter_table import converts
from ...onnx_graph.onnx_node import OnnxNode
from ...onnx_graph.tvm_converters import convert


@converts("RoiAlign")
def roi_align(node: OnnxNode) -> Any:
    """Return the averages of samples in regions."""
    if node.text("mode", "avg") != "avg":
        # ONNX takes the largest weighted corner of a sample, TVM the largest sample.
        node.refuse(f"mode is '{node.text('mode', 'avg')}', expected 'avg'")
    return convert(node)
