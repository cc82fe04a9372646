"""Convolutions with borders peeled, columns gathered, and channels in blocks."""

from __future__ import annotations

from typing import Any

from ..unseen3.programs import program

_3x3: dict[str, Any] = {"padding": (1, 1, 1, 1)}

CASES = [
    program(
        "convolution: padded columns in rows of a buffer, then a product",
        "x 2,3,5,5; w 4,3,3,3; out 2,4,5,5",
        """
        col = T.alloc_buffer((25, 27))
        for n in range(2):
            for p, k in T.grid(25, 27):
                if (p // 5 + k // 3 % 3 < 1 or p // 5 + k // 3 % 3 > 5
                        or p % 5 + k % 3 < 1 or p % 5 + k % 3 > 5):
                    col[p, k] = T.float32(0)
                else:
                    col[p, k] = x[n, k // 9, p // 5 + k // 3 % 3 - 1, p % 5 + k % 3 - 1]
            for o, p in T.grid(4, 25):
                out[n, o, p // 5, p % 5] = T.float32(0)
                for k in range(27):
                    out[n, o, p // 5, p % 5] += col[p, k] * w[o, k // 9, k // 3 % 3, k % 3]
        """,
        "relax.nn.conv2d",
        **_3x3,
    ),
    program(
        "convolution: left border, interior and right border in loops of their own",
        "x 1,2,9; w 3,2,3; out 1,3,9",
        """
        for o in range(3):
            out[0, o, 0] = T.float32(0)
            for c, k in T.grid(2, 2):
                out[0, o, 0] += x[0, c, k] * w[o, c, k + 1]
            for t in range(1, 8):
                out[0, o, t] = T.float32(0)
                for c, k in T.grid(2, 3):
                    out[0, o, t] += x[0, c, t + k - 1] * w[o, c, k]
            out[0, o, 8] = T.float32(0)
            for c, k in T.grid(2, 2):
                out[0, o, 8] += x[0, c, k + 7] * w[o, c, k]
        """,
        "relax.nn.conv1d",
        padding=(1, 1),
    ),
    program(
        "depthwise convolution of channels last, taps bounded by maximum and minimum",
        "x 1,7,7,4; w 3,3,4,1; out 1,4,4,4",
        """
        for i, j in T.grid(4, 4):
            for c in T.vectorized(4):
                out[0, i, j, c] = T.float32(0)
            for a in range(T.max(0, 1 - i * 2), T.min(3, 8 - i * 2)):
                for b in range(T.max(0, 1 - j * 2), T.min(3, 8 - j * 2)):
                    for c in T.vectorized(4):
                        out[0, i, j, c] += (x[0, i * 2 + a - 1, j * 2 + b - 1, c]
                            * w[a, b, c, 0])
        """,
        "relax.nn.conv2d",
        strides=(2, 2),
        groups=4,
        data_layout="NHWC",
        kernel_layout="HWOI",
        **_3x3,
    ),
    program(
        "convolution: channels packed by four in, by two out, unpacked at the end",
        "x 1,8,6,6; w 4,8,3,3; out 1,4,4,4",
        """
        px = T.alloc_buffer((2, 6, 6, 4))
        pw = T.alloc_buffer((2, 2, 3, 3, 4, 2))
        po = T.alloc_buffer((2, 4, 4, 2))
        for co, h, l, ci in T.grid(2, 6, 6, 4):
            px[co, h, l, ci] = x[0, co * 4 + ci, h, l]
        for oo, co, a, b, ci, oi in T.grid(2, 2, 3, 3, 4, 2):
            pw[oo, co, a, b, ci, oi] = w[oo * 2 + oi, co * 4 + ci, a, b]
        for f in T.parallel(8):
            for j, oi in T.grid(4, 2):
                po[f // 4, f % 4, j, oi] = T.float32(0)
            for co, a, b, ci, j, oi in T.grid(2, 3, 3, 4, 4, 2):
                po[f // 4, f % 4, j, oi] += (px[co, f % 4 + a, j + b, ci]
                    * pw[f // 4, co, a, b, ci, oi])
        for o, i, j in T.grid(4, 4, 4):
            out[0, o, i, j] = po[o // 2, i, j, o % 2]
        """,
        "relax.nn.conv2d",
    ),
    program(
        "convolution of blocked channels, data, kernel and result in blocks",
        "x 1,2,6,6,4; w 3,2,3,3,4,2; out 1,3,4,4,2",
        """
        for f in range(12):
            for j, oi in T.grid(4, 2):
                out[0, f // 4, f % 4, j, oi] = T.float32(0)
            for c, a, b, j, oi in T.grid(8, 3, 3, 4, 2):
                out[0, f // 4, f % 4, j, oi] += (x[0, c // 4, f % 4 + a, j + b, c % 4]
                    * w[f // 4, c // 4, a, b, c % 4, oi])
        """,
        "relax.nn.conv2d",
        data_layout="NCHW4c",
        kernel_layout="OIHW4i2o",
        out_layout="NCHW2c",
    ),
    program(
        "convolution of volumes, one loop over depth and rows",
        "x 1,2,4,5,5; w 3,2,2,3,3; out 1,3,3,3,3",
        """
        for o, f, l in T.grid(3, 9, 3):
            out[0, o, f // 3, f % 3, l] = T.float32(0)
            for c, r in T.grid(2, 18):
                out[0, o, f // 3, f % 3, l] += (
                    x[0, c, f // 3 + r // 9, f % 3 + r // 3 % 3, l + r % 3]
                    * w[o, c, r // 9, r // 3 % 3, r % 3])
        """,
        "relax.nn.conv3d",
    ),
    program(
        "transposed convolution: each output gathers the taps that divide",
        "x 1,3,4,4; w 3,2,4,4; out 1,2,8,8",
        """
        for o, i, j in T.grid(2, 8, 8):
            out[0, o, i, j] = T.float32(0)
            for a, b in T.grid(4, 4):
                if (i + 1 - a) % 2 == 0 and (j + 1 - b) % 2 == 0:
                    if i + 1 >= a and j + 1 >= b and i + 1 - a < 8 and j + 1 - b < 8:
                        for c in range(3):
                            out[0, o, i, j] += (x[0, c, (i + 1 - a) // 2, (j + 1 - b) // 2]
                                * w[c, o, a, b])
        """,
        "relax.nn.conv2d_transpose",
        strides=(2, 2),
        **_3x3,
    ),
    program(
        "transposed convolution: zeros between the data, then the kernel turned",
        "x 1,2,4; w 2,3,3; out 1,3,9",
        """
        z = T.alloc_buffer((2, 11))
        for c, t in T.grid(2, 11):
            z[c, t] = T.float32(0)
        for c, t in T.grid(2, 4):
            z[c, t * 2 + 2] = x[0, c, t]
        for o, t in T.grid(3, 9):
            out[0, o, t] = T.float32(0)
            for c, k in T.grid(2, 3):
                out[0, o, t] += z[c, t + k] * w[c, o, 2 - k]
        """,
        "relax.nn.conv1d_transpose",
        strides=(2,),
    ),
    program(
        "convolution of one pixel, every second row and column copied first",
        "x 1,4,7,7; w 6,4,1,1; out 1,6,4,4",
        """
        t = T.alloc_buffer((4, 16))
        for c, p in T.grid(4, 16):
            t[c, p] = x[0, c, p // 4 * 2, p % 4 * 2]
        for o, p in T.grid(6, 16):
            out[0, o, p // 4, p % 4] = T.float32(0)
            for c in range(4):
                out[0, o, p // 4, p % 4] += w[o, c, 0, 0] * t[c, p]
        """,
        "relax.nn.conv2d",
        strides=(2, 2),
    ),
    program(
        "convolution of int8 in int32, four channels at a time",
        "x int8 1,5,5,8; w int8 6,3,3,8; out int32 1,3,3,6",
        """
        for i, j, o in T.grid(3, 3, 6):
            out[0, i, j, o] = 0
            for a, b, co in T.grid(3, 3, 2):
                for ci in T.unroll(4):
                    out[0, i, j, o] += (T.Cast("int32", x[0, i + a, j + b, co * 4 + ci])
                        * T.Cast("int32", w[o, a, b, co * 4 + ci]))
        """,
        "relax.nn.conv2d",
        data_layout="NHWC",
        kernel_layout="OHWI",
        out_dtype="int32",
    ),
    program(
        "grouped convolution, a product of each group's columns",
        "x 1,4,5,5; w 6,2,3,3; out 1,6,3,3",
        """
        col = T.alloc_buffer((18, 9))
        for g in range(2):
            for k, p in T.grid(18, 9):
                col[k, p] = x[0, g * 2 + k // 9, p // 3 + k // 3 % 3, p % 3 + k % 3]
            for o, p in T.grid(3, 9):
                out[0, g * 3 + o, p // 3, p % 3] = T.float32(0)
                for k in range(18):
                    out[0, g * 3 + o, p // 3, p % 3] += (
                        w[g * 3 + o, k // 9, k // 3 % 3, k % 3] * col[k, p])
        """,
        "relax.nn.conv2d",
        groups=2,
    ),
]
