"""Convolutions of the tensor operator inventory."""

from __future__ import annotations

from tvm import topi

from .case import Foreign, tensors

_X, _W = "1,8,10,10", "16,8,3,3"
_PAD1 = {"padding": (1, 1, 1, 1)}
_NHWC = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
_PACKED = {"data_layout": "NCHW4c", "kernel_layout": "OIHW4i8o", "out_layout": "NCHW8c"}
nn = topi.nn

CASES = [
    Foreign(
        "conv2d_nchw, stride 2 and padding",
        tensors(lambda x, w: nn.conv2d_nchw(x, w, 2, 1, 1), _X, _W),
        "relax.nn.conv2d",
        {"strides": (2, 2), "padding": (1, 1, 1, 1)},
    ),
    Foreign(
        "conv2d_nchw, SAME",
        tensors(lambda x, w: nn.conv2d_nchw(x, w, 1, "SAME", 1), _X, _W),
        "relax.nn.conv2d",
        _PAD1,
    ),
    Foreign(
        "conv2d_nhwc, dilated",
        tensors(lambda x, w: nn.conv2d_nhwc(x, w, 1, 2, 2), "2,9,9,3", "3,3,3,8"),
        "relax.nn.conv2d",
        {**_NHWC, "dilation": (2, 2), "padding": (2, 2, 2, 2)},
    ),
    Foreign(
        "conv2d_hwcn",
        tensors(lambda x, w: nn.conv2d_hwcn(x, w, 1, 1, 1), "9,9,3,2", "3,3,3,8"),
        "relax.nn.conv2d",
        {**_PAD1, "data_layout": "HWCN", "kernel_layout": "HWIO"},
    ),
    Foreign(
        "conv2d_NCHWc",
        tensors(
            lambda x, w: nn.conv2d_NCHWc(x, w, 1, 1, 1, "NCHW4c", "NCHW8c"),
            "1,2,10,10,4",
            "2,2,3,3,4,8",
        ),
        "relax.nn.conv2d",
        {**_PACKED, **_PAD1},
        layouts=("NCHW4c", "OIHW4i8o", "NCHW8c"),
    ),
    Foreign(
        "conv2d_NCHWc, stride 2, dilation 2",
        tensors(
            lambda x, w: nn.conv2d_NCHWc(x, w, 2, 0, 2, "NCHW4c", "NCHW8c"),
            "1,2,11,11,4",
            "2,2,3,3,4,8",
        ),
        "relax.nn.conv2d",
        {**_PACKED, "strides": (2, 2), "dilation": (2, 2)},
    ),
    Foreign(
        "conv2d_NCHWc_OIHWo",
        tensors(
            lambda x, w: nn.conv2d_NCHWc_OIHWo(x, w, 1, 1, 1, "NCHW4c", "NCHW8c"),
            "1,2,10,10,4",
            "2,8,3,3,8",
        ),
        "relax.nn.conv2d",
        {**_PACKED, **_PAD1, "kernel_layout": "OIHW8o"},
    ),
    Foreign(
        "conv2d_NCHWc_int8",
        tensors(
            lambda x, w: nn.conv2d_NCHWc_int8(x, w, 1, 1, 1, "NCHW8c", "NCHW8c", "int32"),
            "uint8 1,2,10,10,8",
            "int8 2,2,3,3,2,8,4",
        ),
        "relax.nn.conv2d",
        {
            **_PAD1,
            "out_dtype": "int32",
        },
        layouts=("NCHW8c", "", "NCHW8c"),  # TVM has one factor an axis
    ),
    Foreign(
        "group_conv2d_nchw",
        tensors(lambda x, w: nn.group_conv2d_nchw(x, w, 1, 1, 1, 2), _X, "16,4,3,3"),
        "relax.nn.conv2d",
        {**_PAD1, "groups": 2},
    ),
    Foreign(
        "group_conv2d_nhwc",
        tensors(lambda x, w: nn.group_conv2d_nhwc(x, w, 2, 0, 1, 4), "1,9,9,8", "3,3,2,8"),
        "relax.nn.conv2d",
        {**_NHWC, "groups": 4, "strides": (2, 2)},
    ),
    Foreign(
        "depthwise_conv2d_nchw",
        tensors(lambda x, w: nn.depthwise_conv2d_nchw(x, w, 1, 1, 1), _X, "8,1,3,3"),
        "relax.nn.conv2d",
        {**_PAD1, "groups": 8},
    ),
    Foreign(
        "depthwise_conv2d_nchw with a multiplier",
        tensors(lambda x, w: nn.depthwise_conv2d_nchw(x, w, 2, 0, 1), "1,4,9,9", "4,3,3,3"),
        # The kernel is (channels, multiplier, h, w): the digits of Relax's O, and no I.
        "relax.nn.conv2d",
        {"groups": 4, "strides": (2, 2)},
        layouts=("NCHW", "O3oHW", "NCHW"),
    ),
    Foreign(
        "depthwise_conv2d_nhwc",
        tensors(lambda x, w: nn.depthwise_conv2d_nhwc(x, w, 1, 1, 1), "1,9,9,6", "3,3,6,1"),
        "relax.nn.conv2d",
        {**_PAD1, "groups": 6, "data_layout": "NHWC", "kernel_layout": "HWOI"},
    ),
    Foreign(
        "conv1d_ncw",
        tensors(lambda x, w: nn.conv1d_ncw(x, w, 2, 1, 1), "2,4,11", "6,4,3"),
        "relax.nn.conv1d",
        {"strides": (2,), "padding": (1, 1)},
    ),
    Foreign(
        "conv1d_nwc",
        tensors(lambda x, w: nn.conv1d_nwc(x, w, 1, 0, 2), "2,11,4", "3,4,6"),
        "relax.nn.conv1d",
        {"dilation": (2,), "data_layout": "NWC", "kernel_layout": "WIO"},
    ),
    Foreign(
        "group_conv1d_ncw",
        tensors(lambda x, w: nn.group_conv1d_ncw(x, w, 1, 1, 1, 2), "2,4,11", "6,2,3"),
        "relax.nn.conv1d",
        {"groups": 2, "padding": (1, 1)},
    ),
    Foreign(
        "group_conv1d_nwc",
        tensors(lambda x, w: nn.group_conv1d_nwc(x, w, 1, 1, 1, 2), "2,11,4", "3,2,6"),
        "relax.nn.conv1d",
        {"groups": 2, "padding": (1, 1), "data_layout": "NWC", "kernel_layout": "WIO"},
    ),
    Foreign(
        "conv3d_ncdhw",
        tensors(lambda x, w: nn.conv3d_ncdhw(x, w, 1, 1, 1, 1), "1,3,5,6,7", "4,3,3,3,3"),
        "relax.nn.conv3d",
        {"padding": (1,) * 6},
    ),
    Foreign(
        "conv3d_ndhwc, stride 2",
        tensors(lambda x, w: nn.conv3d_ndhwc(x, w, 2, 0, 1, 1), "1,7,7,7,3", "3,3,3,3,4"),
        "relax.nn.conv3d",
        {"strides": (2, 2, 2), "data_layout": "NDHWC", "kernel_layout": "DHWIO"},
    ),
    Foreign(
        "conv2d_winograd_nchw without weight transform",
        tensors(
            lambda x, w: nn.conv2d_winograd_nchw_without_weight_transform(
                x, w, 1, 1, 1, "float32", ""
            ),
            "1,4,8,8",
            "6,6,4,4",
        ),
        "",  # the kernel comes transformed: no operator takes it so
    ),
    Foreign(
        "conv2d_winograd_nhwc",
        tensors(
            lambda x, w: nn.conv2d_winograd_nhwc(x, w, 1, 1, 1, "float32", ""),
            "1,8,8,2",
            "3,3,2,2",
        ),
        "relax.nn.conv2d",
        {**_PAD1, **_NHWC},
    ),
    Foreign(
        "conv2d_winograd_nchw",
        tensors(
            lambda x, w: nn.conv2d_winograd_nchw(x, w, 1, 1, 1, "float32"), "1,2,8,8", "2,2,3,3"
        ),
        "relax.nn.conv2d",
        _PAD1,
    ),
    Foreign(
        "conv1d_transpose_ncw",
        tensors(
            lambda x, w: nn.conv1d_transpose_ncw(x, w, (2,), (1, 1), "float32", (1,)),
            "1,4,7",
            "4,6,3",
        ),
        "relax.nn.conv1d_transpose",
        {"strides": (2,), "padding": (1, 1), "output_padding": (1,)},
    ),
    Foreign(
        "conv2d_transpose_nchw",
        tensors(
            lambda x, w: nn.conv2d_transpose_nchw(x, w, (2, 2), (1, 1), "float32", (0, 0)),
            "1,4,5,5",
            "4,3,3,3",
        ),
        "relax.nn.conv2d_transpose",
        {"strides": (2, 2), "padding": (1, 1, 1, 1)},
    ),
    Foreign(
        "group_conv2d_transpose_nchw",
        tensors(
            lambda x, w: nn.group_conv2d_transpose_nchw(x, w, (2, 2), (1, 1), "float32", (1, 1), 2),
            "1,4,5,5",
            "4,3,3,3",
        ),
        "relax.nn.conv2d_transpose",
        {"strides": (2, 2), "padding": (1, 1, 1, 1), "output_padding": (1, 1), "groups": 2},
    ),
]
