"""Regions of interest of images."""

from __future__ import annotations

from typing import Any

from tvm import relax

from ...formulas.roi_samples import LargestCorners
from ...onnx_graph.conversion.converter_table import converts
from ...onnx_graph.onnx_node import OnnxNode

#: From this operator set on, the default is that places are those of half pixels.
HALF_PIXEL = 16


@converts("RoiAlign")
def roi_align(node: OnnxNode) -> Any:
    """Return the averages of samples in regions, or the largest weighted corner of a sample."""
    mode, ratio = node.text("mode", "avg"), int(node.attr("sampling_ratio", 0))
    if mode not in ("avg", "max"):
        node.refuse(f"mode is '{mode}', expected 'avg' or 'max'")
    if ratio < 0:
        node.refuse(f"sampling_ratio is {ratio}, expected 0 or more")
    default = "half_pixel" if node.opset >= HALF_PIXEL else "output_half_pixel"
    transform = node.text("coordinate_transformation_mode", default)
    if transform not in ("half_pixel", "output_half_pixel"):
        node.refuse(f"coordinate_transformation_mode is '{transform}', expected 'half_pixel' or "
                    "'output_half_pixel'")  # fmt: skip
    halved = transform == "half_pixel"
    size = int(node.attr("output_height", 1)), int(node.attr("output_width", 1))
    # TVM reads the images of regions at any index; that of a `take` is checked.
    images = node.emit(relax.op.arange(0, node.shape(0)[0], 1, "int64"))
    places = node.emit(relax.op.take(images, node.tensor(2), 0, mode="fast"))
    rois = _in_elements(node, halved)
    if mode == "max":
        kernel = LargestCorners(size, ratio, 0.0 if halved else 1.0)
        return node.builder.emit_te(kernel, node.tensor(0), rois, places,
                                    primfunc_name_hint="roi_align_max")  # fmt: skip
    column = relax.op.astype(relax.op.expand_dims(places, 1), str(rois.ty.dtype))
    table = node.emit(relax.op.concat([node.emit(column), rois], 1))
    means = node.emit(relax.op.vision.roi_align(node.tensor(0), table, size, 1.0, ratio, halved,
                                                "NCHW", "avg"))  # fmt: skip
    return _without_empty(node, means, rois) if halved and not ratio else means


def _without_empty(node: OnnxNode, means: Any, rois: Any) -> Any:
    """Return 0 for regions without samples, whose means TVM's kernel leaves unwritten."""
    start, end = (node.emit(relax.op.strided_slice(rois, [1], [k], [k + 2], [1])) for k in (0, 2))
    extent = relax.op.min(node.emit(relax.op.subtract(end, start)), [1])
    dtype = str(means.ty.dtype)
    empty = relax.op.less_equal(node.emit(extent), relax.const(0.0, str(rois.ty.dtype)))
    mask = node.emit(relax.op.expand_dims(node.emit(empty), [1, 2, 3]))
    return relax.op.where(mask, relax.const(0.0, dtype), means)


def _in_elements(node: OnnxNode, halved: bool) -> Any:
    """Return the bounds of regions in elements of the image.

    TVM's converter subtracts the half before it scales, ONNX afterwards.
    """
    rois, dtype = node.tensor(1), node.dtype(1)
    scale = float(node.attr("spatial_scale", 1.0))
    if scale != 1.0:
        rois = node.emit(relax.op.multiply(rois, relax.const(scale, dtype)))
    return node.emit(relax.op.subtract(rois, relax.const(0.5, dtype))) if halved else rois
