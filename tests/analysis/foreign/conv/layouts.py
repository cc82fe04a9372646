"""Convolutions in other layouts, of groups, and with other numbers of dimensions."""

from __future__ import annotations

from ..case import Foreign, script

_X, _W = "x 1,3,8,8", "w 4,3,3,3"

CASES = [
    Foreign(
        "NHWC and HWIO",
        script(
            "x 2,8,8,3; w 3,3,3,4; out 2,6,6,4",
            """
            for n, i, j, o in T.grid(2, 6, 6, 4):
                out[n, i, j, o] = T.float32(0)
                for a, b, c in T.grid(3, 3, 3):
                    out[n, i, j, o] += x[n, i + a, j + b, c] * w[a, b, c, o]
            """,
        ),
        "relax.nn.conv2d",
        {"data_layout": "NHWC", "kernel_layout": "HWIO"},
        layouts=("NHWC", "HWIO", "NHWC"),
    ),
    Foreign(
        "group loop outside, channels inside",
        script(
            "x 1,6,8,8; w 4,3,3,3; out 1,4,6,6",
            """
            for g, o, i, j in T.grid(2, 2, 6, 6):
                out[0, g * 2 + o, i, j] = T.float32(0)
                for c, a, b in T.grid(3, 3, 3):
                    out[0, g * 2 + o, i, j] += (
                        x[0, g * 3 + c, i + a, j + b] * w[g * 2 + o, c, a, b])
            """,
        ),
        "relax.nn.conv2d",
        {"groups": 2},
    ),
    Foreign(
        "depthwise, one loop over channels",
        script(
            "x 2,5,8,8; w 5,1,3,3; out 2,5,6,6",
            """
            for n, c, i, j in T.grid(2, 5, 6, 6):
                out[n, c, i, j] = T.float32(0)
                for a, b in T.grid(3, 3):
                    out[n, c, i, j] += x[n, c, i + a, j + b] * w[c, 0, a, b]
            """,
        ),
        "relax.nn.conv2d",
        {"groups": 5},
    ),
    Foreign(
        "depthwise with a multiplier",
        script(
            "x 1,3,8,8; w 6,1,3,3; out 1,6,6,6",
            """
            for c, m, i, j in T.grid(3, 2, 6, 6):
                out[0, c * 2 + m, i, j] = T.float32(0)
                for a, b in T.grid(3, 3):
                    out[0, c * 2 + m, i, j] += x[0, c, i + a, j + b] * w[c * 2 + m, 0, a, b]
            """,
        ),
        "relax.nn.conv2d",
        {"groups": 3},
    ),
    Foreign(
        "dilated, uneven padding",
        script(
            f"{_X}; {_W}; out 1,4,7,6",
            """
            for o, i, j in T.grid(4, 7, 6):
                out[0, o, i, j] = T.float32(0)
                for c, a, b in T.grid(3, 3, 3):
                    if (0 <= i + a * 2 - 2 and i + a * 2 - 2 < 8
                            and 0 <= j + b * 2 - 1 and j + b * 2 - 1 < 8):
                        out[0, o, i, j] += x[0, c, i + a * 2 - 2, j + b * 2 - 1] * w[o, c, a, b]
            """,
        ),
        "relax.nn.conv2d",
        {"dilation": (2, 2), "padding": (2, 1, 1, 1)},
    ),
    Foreign(
        "convolution over time, channels last",
        script(
            "x 2,16,4; w 3,4,5; out 2,7,5",
            """
            for n, t, o in T.grid(2, 7, 5):
                out[n, t, o] = T.float32(0)
                for k, c in T.grid(3, 4):
                    out[n, t, o] += x[n, t * 2 + k, c] * w[k, c, o]
            """,
        ),
        "relax.nn.conv1d",
        {"strides": (2,), "padding": (0, 0), "data_layout": "NWC", "kernel_layout": "WIO"},
    ),
    Foreign(
        "three spatial dimensions",
        script(
            "x 1,2,5,6,7; w 3,2,2,3,2; out 1,3,4,4,6",
            """
            for o, d, i, j in T.grid(3, 4, 4, 6):
                out[0, o, d, i, j] = T.float32(0)
                for c, e, a, b in T.grid(2, 2, 3, 2):
                    out[0, o, d, i, j] += x[0, c, d + e, i + a, j + b] * w[o, c, e, a, b]
            """,
        ),
        "relax.nn.conv3d",
    ),
    Foreign(
        "1x1 as a product over flattened pixels",
        script(
            "x 1,3,8,8; w 4,3,1,1; out 1,4,8,8",
            """
            for o, s in T.grid(4, 64):
                out[0, o, s // 8, s % 8] = T.float32(0)
                for c in range(3):
                    out[0, o, s // 8, s % 8] += w[o, c, 0, 0] * x[0, c, s // 8, s % 8]
            """,
        ),
        "relax.nn.conv2d",
        operands=(0, 1),
    ),
    Foreign(
        "kernel transposed first",
        script(
            "x 1,3,8,8; w 3,3,3,4; out 1,4,6,6",
            """
            t = T.alloc_buffer((4, 3, 3, 3))
            for o, c, a, b in T.grid(4, 3, 3, 3):
                t[o, c, a, b] = w[a, b, c, o]
            for o, i, j in T.grid(4, 6, 6):
                out[0, o, i, j] = T.float32(0)
                for c, a, b in T.grid(3, 3, 3):
                    out[0, o, i, j] += x[0, c, i + a, j + b] * t[o, c, a, b]
            """,
        ),
        "relax.nn.conv2d",
        {"kernel_layout": "HWIO"},
    ),
    Foreign(
        "packed channels NCHW4c and OIHW4i4o",
        script(
            "x 1,2,8,8,4; w 2,2,3,3,4,4; out 1,2,6,6,4",
            """
            for O, i, j, o in T.grid(2, 6, 6, 4):
                out[0, O, i, j, o] = T.float32(0)
                for C, a, b, c in T.grid(2, 3, 3, 4):
                    out[0, O, i, j, o] += x[0, C, i + a, j + b, c] * w[O, C, a, b, c, o]
            """,
        ),
        "relax.nn.conv2d",
        {"data_layout": "NCHW4c", "kernel_layout": "OIHW4i4o"},
        layouts=("NCHW4c", "OIHW4i4o", "NCHW4c"),
    ),
    Foreign(
        "depthwise, packed channels NCHW4c and OIHW4o",
        script(
            "x 1,2,8,8,4; w 2,1,3,3,1,4; out 1,2,6,6,4",
            """
            for C, i, j, c in T.grid(2, 6, 6, 4):
                out[0, C, i, j, c] = T.float32(0)
                for a, b in T.grid(3, 3):
                    out[0, C, i, j, c] += x[0, C, i + a, j + b, c] * w[C, 0, a, b, 0, c]
            """,
        ),
        "relax.nn.conv2d",
        {"groups": 8, "data_layout": "NCHW4c", "kernel_layout": "OIHW1i4o"},
        layouts=("NCHW4c", "OIHW1i4o", "NCHW4c"),
    ),
    Foreign(
        "scattered from the input (the same sum, the other way round)",
        script(
            "x 1,2,8; w 3,2,3; out 1,3,6",
            """
            for o, i in T.grid(3, 6):
                out[0, o, i] = T.float32(0)
            for o, c, y, a in T.grid(3, 2, 8, 3):
                if 0 <= y - a and y - a < 6:
                    out[0, o, y - a] += x[0, c, y] * w[o, c, a]
            """,
        ),
        "relax.nn.conv1d",
    ),
    Foreign(
        "a bias as the start of the sum",
        script(
            f"{_X}; {_W}; b 4; out 1,4,6,6",
            """
            for o, i, j in T.grid(4, 6, 6):
                out[0, o, i, j] = b[o]
                for c, a, e in T.grid(3, 3, 3):
                    out[0, o, i, j] += x[0, c, i + a, j + e] * w[o, c, a, e]
            """,
        ),
    ),
    Foreign(
        "squared difference instead of a product",
        script(
            f"{_X}; {_W}; out 1,4,6,6",
            """
            for o, i, j in T.grid(4, 6, 6):
                out[0, o, i, j] = T.float32(0)
                for c, a, b in T.grid(3, 3, 3):
                    out[0, o, i, j] += (x[0, c, i + a, j + b] - w[o, c, a, b]) * (
                        x[0, c, i + a, j + b] - w[o, c, a, b])
            """,
        ),
    ),
]
