"""Every operator of `tvm.s_tir.meta_schedule.testing.te_workload`, at small sizes.

`conv2d_winograd_nhwc` is not here: it raises "LEGACY-FLOW triggered" in TVM 0.27, whatever its
arguments; `conv_topi` has the same transform from `tvm.topi`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te
from tvm.s_tir.meta_schedule.testing import te_workload as w

from .case import Foreign

_NHWC = {"data_layout": "NHWC", "kernel_layout": "HWIO"}


def _of(workload: Callable[..., Any], *args: Any, **given: Any) -> Callable[[], Any]:
    return lambda: te.create_prim_func(workload(*args, **given))


CASES = [
    Foreign("batch_matmul_nkkm", _of(w.batch_matmul_nkkm, 2, 8, 6, 4), "relax.matmul"),
    Foreign(
        "conv1d_nlc",
        _of(w.conv1d_nlc, 1, 16, 4, 6, 3, 2, 1),
        "relax.nn.conv1d",
        {"strides": (2,), "padding": (1, 1), "data_layout": "NWC", "kernel_layout": "WIO"},
    ),
    Foreign(
        "conv2d_nhwc",
        _of(w.conv2d_nhwc, 1, 9, 9, 3, 8, 3, 1, 1),
        "relax.nn.conv2d",
        {**_NHWC, "padding": (1, 1, 1, 1)},
    ),
    Foreign(
        "conv2d_nhwc, grouped",
        _of(w.conv2d_nhwc, 1, 9, 9, 8, 8, 3, 2, 1, 1, 4),
        "relax.nn.conv2d",
        {**_NHWC, "padding": (1, 1, 1, 1), "strides": (2, 2), "groups": 4},
    ),
    Foreign(
        "conv2d_nhwc, dilated",
        _of(w.conv2d_nhwc, 1, 14, 14, 3, 4, 3, 1, 1, 2),
        "relax.nn.conv2d",
        {**_NHWC, "padding": (1, 1, 1, 1), "dilation": (2, 2)},
    ),
    Foreign(
        "conv3d_ndhwc",
        _of(w.conv3d_ndhwc, 1, 5, 6, 7, 3, 4, 3, 1, 1),
        "relax.nn.conv3d",
        {"padding": (1,) * 6, "data_layout": "NDHWC", "kernel_layout": "DHWIO"},
    ),
    Foreign(
        "depthwise_conv2d_nhwc",
        _of(w.depthwise_conv2d_nhwc, 1, 9, 9, 8, 3, 1, 1),
        "relax.nn.conv2d",
        {"padding": (1, 1, 1, 1), "groups": 8, "data_layout": "NHWC", "kernel_layout": "IHWO"},
    ),
    Foreign(
        "conv2d_transpose_nhwc",
        _of(w.conv2d_transpose_nhwc, 1, 4, 4, 6, 3, 4, 2, 1),
        "relax.nn.conv2d_transpose",
        {
            "strides": (2, 2),
            "padding": (1, 1, 1, 1),
            "data_layout": "NHWC",
            "kernel_layout": "HWIO",
            "out_layout": "NHWC",
        },
    ),
    Foreign(
        # Each row of the capsules' matrices is an image: a convolution of two packed dimensions.
        "conv2d_capsule_nhwijc",
        _of(w.conv2d_capsule_nhwijc, 1, 8, 8, 4, 4, 3, 2, 1, 2),
        "relax.nn.conv2d",
        {
            "strides": (2, 2),
            "padding": (1, 1, 1, 1),
            "data_layout": "1HWNC4c",
            "kernel_layout": "HWIO4i4o",
            "out_layout": "1HWNC4c",
        },
        also={
            "relax.nn.conv3d": {
                "strides": (2, 2, 1),
                "padding": (1, 1, 0, 1, 1, 0),
                "data_layout": "DHCWN",
                "kernel_layout": "DHIOW",
            }
        },  # or the rows of the matrices are its last dimension
    ),
    Foreign("norm_bmn: a root of a sum of squares", _of(w.norm_bmn, 2, 4, 5)),
    Foreign(
        "conv2d_nhwc_bn_relu: five operators", _of(w.conv2d_nhwc_bn_relu, 1, 8, 8, 3, 4, 3, 1, 1)
    ),
    Foreign(
        "transpose_batch_matmul",
        _of(w.transpose_batch_matmul, 1, 8, 3, 4),
        "relax.matmul",
        layouts=("", "", ""),  # a dimension of extent 1 more than the operator has
    ),
    Foreign("matmul", _of(w.matmul, 8, 6, 4), "relax.matmul"),
    Foreign(
        "matmul, float16 into float32",
        _of(w.matmul, 8, 6, 4, "float16", "float32"),
        "relax.matmul",
        {"out_dtype": "float32"},
    ),
    Foreign("matmul_relu: two operators", _of(w.matmul_relu, 8, 6, 4)),
    Foreign(
        "conv2d_nchw",
        _of(w.conv2d_nchw, 1, 9, 9, 3, 4, 3, 3, 1, 1),
        "relax.nn.conv2d",
        {"padding": (1, 1, 1, 1)},
    ),
    Foreign(
        "conv2d_nchw_bias_bn_relu: five operators",
        _of(w.conv2d_nchw_bias_bn_relu, 1, 8, 8, 3, 4, 3, 3, 1, 1),
    ),
    Foreign(
        "max_pool2d_nchw",
        _of(w.max_pool2d_nchw, 1, 8, 8, 3, 1),
        "relax.nn.max_pool2d",
        {"pool_size": (2, 2), "padding": (1, 1, 1, 1)},
    ),
    Foreign("softmax_mn", _of(w.softmax_mn, 5, 6), "relax.nn.softmax", {"axis": 1}),
]
