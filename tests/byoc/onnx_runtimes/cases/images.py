"""Operators over images that ONNX has: convolutions, pools and resizes."""

from __future__ import annotations

from typing import Any

from tvm import relax

from ....layout.nets import const
from .onnx_case import IMAGE, LAST, TURNED, Build, M, N, OnnxCase, call

nn, op = relax.op.nn, relax.op


def _conv(f: Any, *kernel: int, **attrs: Any) -> Build:
    return lambda e, r, x: e(f(x, const(r, *kernel), **attrs))


def _resize(size: Any, **attrs: Any) -> Build:
    return call(op.image.resize2d, relax.ShapeExpr(size), **attrs)


def _biased(e: Any, r: Any, x: Any) -> Any:
    y = e(nn.conv2d_transpose(x, const(r, 4, 3, 2, 2), strides=(2, 2)))
    return e(op.add(y, const(r, 1, 3, 1, 1)))


IMAGES: dict[str, OnnxCase] = {
    "conv1d": OnnxCase(_conv(nn.conv1d, 6, 4, 3, strides=2, padding=1), ((2, 4, 9),)),
    "conv2d": OnnxCase(_conv(nn.conv2d, 6, 2, 3, 2, groups=2, padding=(1, 0, 2, 1),
                             dilation=(2, 1)), ((N, 4, 7, 6),)),
    "conv2d, channels last": OnnxCase(_conv(nn.conv2d, 6, 3, 3, 4, data_layout="NHWC",
                                            kernel_layout="OHWI"), (LAST,), refused=TURNED),
    "conv3d": OnnxCase(_conv(nn.conv3d, 4, 3, 2, 3, 3, padding=(0, 1, 1)), ((1, 3, 4, 5, 6),)),
    "conv1d_transpose": OnnxCase(_conv(nn.conv1d_transpose, 4, 3, 4, strides=2, padding=1),
                                 ((2, 4, N),)),
    "conv2d_transpose": OnnxCase(_conv(nn.conv2d_transpose, 4, 3, 3, 3, strides=(2, 2), groups=2,
                                       padding=(1, 1, 1, 1), output_padding=(1, 1)), (IMAGE,)),
    "conv2d_transpose, bias": OnnxCase(_biased, (IMAGE,)),
    "max_pool2d": OnnxCase(call(nn.max_pool2d, (3, 2), (2, 1), (1, 0, 1, 1), (1, 2)), (IMAGE,)),
    "max_pool2d, int8": OnnxCase(call(nn.max_pool2d, (3, 2), (2, 1), (1, 0, 1, 1)),
                                 ((IMAGE, "int8"),)),
    "max_pool2d, rounded up": OnnxCase(call(nn.max_pool2d, (3, 3), (2, 2), ceil_mode=True),
                                       ((1, 4, 6, 6),)),
    "max_pool2d, channels last": OnnxCase(call(nn.max_pool2d, (2, 2), (2, 2), layout="NHWC"),
                                          (LAST,), refused=TURNED),
    "avg_pool2d": OnnxCase(call(nn.avg_pool2d, (3, 3), (2, 2), (1, 1, 1, 1)), (IMAGE,)),
    "avg_pool2d with padding": OnnxCase(call(nn.avg_pool2d, (3, 3), (2, 2), (1, 1, 1, 1),
                                              count_include_pad=True), (IMAGE,)),
    "adaptive_avg_pool2d": OnnxCase(call(nn.adaptive_avg_pool2d, (1, 1)), (IMAGE,)),
    "adaptive_avg_pool2d of parts": OnnxCase(call(nn.adaptive_avg_pool2d, (7, 2)), (IMAGE,)),
    "resize2d, nearest": OnnxCase(_resize(
        (14, 12), method="nearest_neighbor", layout="NCHW",
        coordinate_transformation_mode="asymmetric", rounding_method="floor"), (IMAGE,)),
    "resize2d, linear": OnnxCase(_resize((9, 14), layout="NCHW"), (IMAGE,)),
    "resize2d, align_corners": OnnxCase(_resize(
        (9, 14), layout="NHWC", coordinate_transformation_mode="align_corners"), (LAST,),
        refused=TURNED),
    "resize2d, cubic": OnnxCase(_resize((9, 14), layout="NCHW", method="cubic"), (IMAGE,)),
    "resize2d, symbolic": OnnxCase(_resize((N * 2, M * 2), layout="NCHW"), ((1, 2, N, M),)),
    "pad": OnnxCase(call(nn.pad, (0, 0, 0, 0, 1, 2, 3, 0), pad_value=0.5), (IMAGE,)),
    "pad, reflected": OnnxCase(call(nn.pad, (0, 0, 0, 0, 1, 2, 3, 0), "reflect"), (IMAGE,)),
}  # fmt: skip
