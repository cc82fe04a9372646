"""Pools by hand and of the tensor operator inventory."""

from __future__ import annotations

from tvm import topi

from .case import Foreign, script, tensors

nn = topi.nn
_LOW = "T.float32(-3.4028234663852886e+38)"
_2x2 = {"pool_size": (2, 2), "strides": (2, 2)}
_AVG3 = {"pool_size": (3, 3), "padding": (1, 1, 1, 1)}

CASES = [
    Foreign(
        "maximum, plain loops",
        script(
            "x 1,3,8,8; out 1,3,4,4",
            f"""
            for c, i, j in T.grid(3, 4, 4):
                out[0, c, i, j] = {_LOW}
                for a, b in T.grid(2, 2):
                    out[0, c, i, j] = T.max(out[0, c, i, j], x[0, c, i * 2 + a, j * 2 + b])
            """,
        ),
        "relax.nn.max_pool2d",
        _2x2,
    ),
    Foreign(
        "maximum, started with the first element",
        script(
            "x 1,3,8,8; out 1,3,4,4",
            """
            for c, i, j in T.grid(3, 4, 4):
                out[0, c, i, j] = x[0, c, i * 2, j * 2]
                for a, b in T.grid(2, 2):
                    out[0, c, i, j] = T.max(out[0, c, i, j], x[0, c, i * 2 + a, j * 2 + b])
            """,
        ),
        "relax.nn.max_pool2d",
        _2x2,
    ),
    Foreign(
        "maximum of four loads",
        script(
            "x 1,3,8,8; out 1,3,4,4",
            """
            for c, i, j in T.grid(3, 4, 4):
                out[0, c, i, j] = T.max(
                    T.max(x[0, c, i * 2, j * 2], x[0, c, i * 2, j * 2 + 1]),
                    T.max(x[0, c, i * 2 + 1, j * 2], x[0, c, i * 2 + 1, j * 2 + 1]))
            """,
        ),
        "relax.nn.max_pool2d",
        _2x2,
    ),
    Foreign(
        "maximum, padded by an if",
        script(
            "x 1,3,8,8; out 1,3,8,8",
            f"""
            for c, i, j in T.grid(3, 8, 8):
                out[0, c, i, j] = {_LOW}
                for a, b in T.grid(3, 3):
                    if i + a >= 1 and i + a <= 8 and j + b >= 1 and j + b <= 8:
                        out[0, c, i, j] = T.max(out[0, c, i, j], x[0, c, i + a - 1, j + b - 1])
            """,
        ),
        "relax.nn.max_pool2d",
        _AVG3,
    ),
    Foreign(
        "maximum by comparison and assignment",
        script(
            "x 2,3,9; out 2,3,4",
            f"""
            for n, c, i in T.grid(2, 3, 4):
                out[n, c, i] = {_LOW}
                for a in range(3):
                    if x[n, c, i * 2 + a] > out[n, c, i]:
                        out[n, c, i] = x[n, c, i * 2 + a]
            """,
        ),
        "relax.nn.max_pool1d",
        {"pool_size": (3,), "strides": (2,)},
    ),
    Foreign(
        "maximum, two passes: rows, then columns",
        script(
            "x 1,3,8,8; out 1,3,6,6",
            f"""
            rows = T.alloc_buffer((1, 3, 8, 6))
            for c, i, j in T.grid(3, 8, 6):
                rows[0, c, i, j] = {_LOW}
                for b in range(3):
                    rows[0, c, i, j] = T.max(rows[0, c, i, j], x[0, c, i, j + b])
            for c, i, j in T.grid(3, 6, 6):
                out[0, c, i, j] = {_LOW}
                for a in range(3):
                    out[0, c, i, j] = T.max(out[0, c, i, j], rows[0, c, i + a, j])
            """,
        ),
        "relax.nn.max_pool2d",
        {"pool_size": (3, 3)},
    ),
    Foreign(
        "average by multiplication with 1/4",
        script(
            "x 1,3,8,8; out 1,3,4,4",
            """
            for c, i, j in T.grid(3, 4, 4):
                out[0, c, i, j] = T.float32(0)
                for a, b in T.grid(2, 2):
                    out[0, c, i, j] += x[0, c, i * 2 + a, j * 2 + b]
                out[0, c, i, j] = out[0, c, i, j] * T.float32(0.25)
            """,
        ),
        "relax.nn.avg_pool2d",
        _2x2,
    ),
    Foreign(
        "average, each element divided",
        script(
            "x 1,3,8,8; out 1,3,4,4",
            """
            for c, i, j in T.grid(3, 4, 4):
                out[0, c, i, j] = T.float32(0)
                for a, b in T.grid(2, 2):
                    out[0, c, i, j] += x[0, c, i * 2 + a, j * 2 + b] / T.float32(4)
            """,
        ),
        "relax.nn.avg_pool2d",
        _2x2,
    ),
    Foreign(
        "average, padding counted",
        script(
            "x 1,3,8,8; out 1,3,8,8",
            """
            s = T.alloc_buffer((1, 3, 8, 8))
            for c, i, j in T.grid(3, 8, 8):
                s[0, c, i, j] = T.float32(0)
                for a, b in T.grid(3, 3):
                    if 0 < i + a and i + a < 9 and 0 < j + b and j + b < 9:
                        s[0, c, i, j] += x[0, c, i + a - 1, j + b - 1]
            for c, i, j in T.grid(3, 8, 8):
                out[0, c, i, j] = s[0, c, i, j] / T.float32(9)
            """,
        ),
        "relax.nn.avg_pool2d",
        {**_AVG3, "count_include_pad": True},
    ),
    Foreign(
        "average, only elements inside counted by a loop",
        script(
            "x 1,3,8; out 1,3,8",
            """
            s = T.alloc_buffer((1, 3, 8))
            k = T.alloc_buffer((8,), "int32")
            for c, i in T.grid(3, 8):
                s[0, c, i] = T.float32(0)
                for a in range(3):
                    if 0 < i + a and i + a < 9:
                        s[0, c, i] += x[0, c, i + a - 1]
            for i in range(8):
                k[i] = 0
                for a in range(3):
                    if 0 < i + a and i + a < 9:
                        k[i] = k[i] + 1
            for c, i in T.grid(3, 8):
                out[0, c, i] = s[0, c, i] / T.cast(k[i], "float32")
            """,
        ),
        "relax.nn.avg_pool1d",
        {"pool_size": (3,), "padding": (1, 1), "count_include_pad": False},
    ),
    Foreign(
        "channels last",
        script(
            "x 2,8,8,3; out 2,4,4,3",
            f"""
            for n, i, j, c in T.grid(2, 4, 4, 3):
                out[n, i, j, c] = {_LOW}
                for a, b in T.grid(2, 2):
                    out[n, i, j, c] = T.max(out[n, i, j, c], x[n, i * 2 + a, j * 2 + b, c])
            """,
        ),
        "relax.nn.max_pool2d",
        {**_2x2, "layout": "NHWC"},
    ),
    Foreign(
        "global average as a sum over both",
        script(
            "x 2,3,7,7; out 2,3,1,1",
            """
            for n, c in T.grid(2, 3):
                out[n, c, 0, 0] = T.float32(0)
                for i, j in T.grid(7, 7):
                    out[n, c, 0, 0] += x[n, c, i, j]
                out[n, c, 0, 0] = out[n, c, 0, 0] / T.float32(49)
            """,
        ),
        "relax.mean",
        {"axis": [2, 3], "keepdims": True},
    ),
    Foreign(
        "minimum over windows that do not overlap: that of a reshaped input",
        script(
            "x 1,3,8,8; out 1,3,4,4",
            """
            for c, i, j in T.grid(3, 4, 4):
                out[0, c, i, j] = T.float32(3.4028234663852886e+38)
                for a, b in T.grid(2, 2):
                    out[0, c, i, j] = T.min(out[0, c, i, j], x[0, c, i * 2 + a, j * 2 + b])
            """,
        ),
        "relax.min",
        {"axis": [3, 5]},
    ),
    Foreign(
        "minimum over a window: no operator",
        script(
            "x 1,3,8,8; out 1,3,6,6",
            """
            for c, i, j in T.grid(3, 6, 6):
                out[0, c, i, j] = T.float32(3.4028234663852886e+38)
                for a, b in T.grid(3, 3):
                    out[0, c, i, j] = T.min(out[0, c, i, j], x[0, c, i + a, j + b])
            """,
        ),
    ),
    Foreign(
        "pool2d max",
        tensors(lambda x: nn.pool2d(x, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max"), "1,4,9,9"),
        "relax.nn.max_pool2d",
        {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 1)},
    ),
    Foreign(
        "pool2d avg",
        tensors(
            lambda x: nn.pool2d(
                x, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), "avg", False, "NCHW", False
            ),
            "1,4,9,9",
        ),
        "relax.nn.avg_pool2d",
        _AVG3,
    ),
    Foreign(
        # A pool in three dimensions computes it too, but that is not how people read NCHW4c.
        "pool2d max, NCHW4c",
        tensors(
            lambda x: nn.pool2d(x, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), "max", False, "NCHW4c"),
            "1,2,8,8,4",
        ),
        "relax.nn.max_pool2d",
        {"pool_size": (2, 2), "strides": (2, 2), "layout": "NCHW4c"},
    ),
    Foreign(
        "pool1d avg, NWC",
        tensors(lambda x: nn.pool1d(x, (2,), (2,), (1,), (0, 0), "avg", False, "NWC"), "1,8,4"),
        "relax.nn.avg_pool1d",
        {"pool_size": (2,), "strides": (2,), "count_include_pad": False, "layout": "NWC"},
    ),
    Foreign(
        "pool3d max",
        tensors(
            lambda x: nn.pool3d(x, (2, 2, 2), (2, 2, 2), (1, 1, 1), (0,) * 6, "max"),
            "1,2,6,6,6",
        ),
        "relax.nn.max_pool3d",
        {"pool_size": (2, 2, 2), "strides": (2, 2, 2)},
    ),
    Foreign(
        "adaptive_pool avg",
        tensors(lambda x: nn.adaptive_pool(x, (3, 4), "avg"), "1,2,7,9"),
        "relax.nn.adaptive_avg_pool2d",
        {"output_size": (3, 4)},
    ),
    Foreign(
        "adaptive_pool max: windows of 3 by 3",
        tensors(lambda x: nn.adaptive_pool(x, (3, 4), "max"), "1,2,7,9"),
        "relax.nn.max_pool2d",
        {"pool_size": (3, 3), "strides": (2, 2)},
    ),
    Foreign(
        "adaptive_pool max, uneven windows: no operator",
        tensors(lambda x: nn.adaptive_pool(x, (3, 4), "max"), "1,2,8,9"),
    ),
    Foreign(
        "adaptive_pool1d, NWC",
        tensors(lambda x: nn.adaptive_pool1d(x, (3,), "avg", "NWC"), "1,7,2"),
        "relax.nn.adaptive_avg_pool1d",
        {"output_size": (3,), "layout": "NWC"},
    ),
    Foreign(
        "global_pool avg",
        tensors(lambda x: nn.global_pool(x, "avg"), "2,3,5,5"),
        "relax.mean",
        {"axis": [2, 3], "keepdims": True},
    ),
    Foreign(
        "global_pool max",
        tensors(lambda x: nn.global_pool(x, "max"), "2,3,5,5"),
        "relax.max",
        {"axis": [2, 3], "keepdims": True},
    ),
]
