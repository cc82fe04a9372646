"""Transposed convolutions written by hand."""

from __future__ import annotations

from .case import Foreign, script

CASES = [
    Foreign(
        "scattered: each input adds its kernel to the output",
        script(
            "x 1,2,5,5; w 2,3,3,3; out 1,3,11,11",
            """
            for o, y, z in T.grid(3, 11, 11):
                out[0, o, y, z] = T.float32(0)
            for c, o, i, j, a, b in T.grid(2, 3, 5, 5, 3, 3):
                out[0, o, 2 * i + a, 2 * j + b] += x[0, c, i, j] * w[c, o, a, b]
            """,
        ),
        "relax.nn.conv2d_transpose",
        {"strides": (2, 2)},
    ),
    Foreign(
        "gathered, stride 1: a convolution with the flipped kernel",
        script(
            "x 1,2,5,5; w 2,3,3,3; out 1,3,7,7",
            """
            for o, y, z in T.grid(3, 7, 7):
                out[0, o, y, z] = T.float32(0)
                for c, a, b in T.grid(2, 3, 3):
                    if 0 <= y - a and y - a < 5 and 0 <= z - b and z - b < 5:
                        out[0, o, y, z] += x[0, c, y - a, z - b] * w[c, o, a, b]
            """,
        ),
        "relax.nn.conv2d_transpose",
    ),
    Foreign(
        "gathered where the remainder is zero, padded",
        script(
            "x 1,2,6; w 2,3,4; out 1,3,12",
            """
            for o, y in T.grid(3, 12):
                out[0, o, y] = T.float32(0)
                for c, a in T.grid(2, 4):
                    if (y + 1 - a) % 2 == 0 and 0 <= y + 1 - a and y + 1 - a < 12:
                        out[0, o, y] += x[0, c, (y + 1 - a) // 2] * w[c, o, a]
            """,
        ),
        "relax.nn.conv1d_transpose",
        {"strides": (2,), "padding": (1, 1)},
    ),
    Foreign(
        "spread with zeros, then convolved with the flipped kernel",
        script(
            "x 1,2,5; w 2,3,3; out 1,3,11",
            """
            d = T.alloc_buffer((1, 2, 13))
            for c, i in T.grid(2, 13):
                d[0, c, i] = T.float32(0)
            for c, i in T.grid(2, 5):
                d[0, c, 2 * i + 2] = x[0, c, i]
            for o, y in T.grid(3, 11):
                out[0, o, y] = T.float32(0)
                for c, a in T.grid(2, 3):
                    out[0, o, y] += d[0, c, y + a] * w[c, o, 2 - a]
            """,
        ),
        "relax.nn.conv1d_transpose",
        {"strides": (2,)},
    ),
    Foreign(
        "the kernel not flipped",
        script(
            "x 1,2,5; w 2,3,3; out 1,3,11",
            """
            d = T.alloc_buffer((1, 2, 13))
            for c, i in T.grid(2, 13):
                d[0, c, i] = T.float32(0)
            for c, i in T.grid(2, 5):
                d[0, c, 2 * i + 2] = x[0, c, i]
            for o, y in T.grid(3, 11):
                out[0, o, y] = T.float32(0)
                for c, a in T.grid(2, 3):
                    out[0, o, y] += d[0, c, y + a] * w[c, o, a]
            """,
        ),
    ),
]
