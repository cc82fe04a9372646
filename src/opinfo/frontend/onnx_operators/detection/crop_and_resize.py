"""CropAndResize of ONNX Runtime: parts of images, resized to one size."""

from __future__ import annotations

from typing import Any

from tvm import relax

from ...formulas.cropped_samples import CropSamples
from ...onnx_graph.contributed_attributes import check_attributes
from ...onnx_graph.conversion.converter_table import MICROSOFT, converts
from ...onnx_graph.onnx_node import OnnxNode


@converts("CropAndResize", domain=MICROSOFT)
def crop_and_resize(node: OnnxNode) -> Any:
    """Return the part of an image in each box, interpolated, or by its nearest pixels."""
    check_attributes(node, "mode extrapolation_value", {})
    mode = node.text("mode", "bilinear")
    if mode not in ("bilinear", "nearest"):
        node.refuse(f"mode is '{mode}', expected 'bilinear' or 'nearest'")
    for k, rank in enumerate((4, 2, 1, 1)):
        if node.rank(k) != rank:
            node.refuse(f"input {k} has {node.rank(k)} dimensions, expected {rank}")
    sizes = node.integers(3, "crop_size")
    if len(sizes) != 2 or not all(isinstance(size, int) and size > 0 for size in sizes):
        node.refuse(f"crop_size is {sizes}, expected two numbers from 1")
    count = node.shape(1)[0]
    boxes = node.cast_shape(node.tensor(1), [count, 4])
    indices = node.cast_shape(node.tensor(2), [count])
    # TVM reads the images of boxes at any index; that of a `take` is checked.
    images = node.emit(relax.op.arange(0, node.shape(0)[0], 1, "int64"))
    places = node.emit(relax.op.take(images, indices, 0, mode="fast"))
    kernel = CropSamples((sizes[0], sizes[1]), mode == "nearest",
                         float(node.attr("extrapolation_value", 0.0)))  # fmt: skip
    return node.builder.emit_te(kernel, node.tensor(0), boxes, places,
                                primfunc_name_hint="crop_and_resize")  # fmt: skip
