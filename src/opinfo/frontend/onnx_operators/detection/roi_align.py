"""Regions of interest of images."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvm import relax

from ...onnx_graph.converter_table import converts
from ...onnx_graph.onnx_node import OnnxNode
from ...onnx_graph.tvm_converters import convert


@converts("RoiAlign")
def roi_align(node: OnnxNode) -> Any:
    """Return the averages of samples in regions."""
    if node.text("mode", "avg") != "avg":
        # ONNX takes the largest weighted corner of a sample, TVM the largest sample.
        node.refuse(f"mode is '{node.text('mode', 'avg')}', expected 'avg'")
    if node.attr("sampling_ratio", 0) < 0:
        node.refuse(f"sampling_ratio is {node.attr('sampling_ratio')}, expected 0 or more")
    # TVM reads the images of regions at any index; that of a `take` is checked.
    images = node.emit(relax.op.arange(0, node.shape(0)[0], 1, "int64"))
    places = node.result(relax.op.take(images, node.tensor(2), 0, mode="fast"))
    return convert(replace(node, inputs=[*node.inputs[:2], places]))
