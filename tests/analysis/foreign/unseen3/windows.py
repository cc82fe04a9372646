"""Convolutions and pools with hoisted bounds, other loop orders, or in two stages."""

from __future__ import annotations

from .programs import LOW, program

CASES = [
    program(
        "depthwise convolution, bounds of the kernel's rows hoisted",
        "x 1,3,6,6; w 3,1,3,3; out 1,3,6,6",
        """
            for c, i, j in T.grid(3, 6, 6):
                out[0, c, i, j] = T.float32(0)
                for a in range(3):
                    if i + a >= 1 and i + a < 7:
                        for b in range(3):
                            if j + b >= 1 and j + b < 7:
                                out[0, c, i, j] += x[0, c, i + a - 1, j + b - 1] * w[c, 0, a, b]
            """,
        "relax.nn.conv2d",
        padding=(1, 1, 1, 1),
        groups=3,
    ),
    program(
        "convolution over the part of the kernel that is inside",
        "x 1,2,6; w 3,2,3; out 1,3,6",
        """
            for o, i in T.grid(3, 6):
                out[0, o, i] = T.float32(0)
                for c in range(2):
                    for a in range(T.min(7 - i, 3) - T.max(1 - i, 0)):
                        out[0, o, i] += (x[0, c, i + a + T.max(1 - i, 0) - 1]
                            * w[o, c, a + T.max(1 - i, 0)])
            """,
        "relax.nn.conv1d",
        padding=(1, 1),
    ),
    program(
        "im2col and its product in one function",
        "x 1,2,6,6; w 4,2,3,3; out 1,4,4,4",
        """
            m = T.alloc_buffer((18, 16))
            for r, p in T.grid(18, 16):
                m[r, p] = x[0, r // 9, p // 4 + r % 9 // 3, p % 4 + r % 3]
            for o, p in T.grid(4, 16):
                out[0, o, p // 4, p % 4] = T.float32(0)
                for r in range(18):
                    out[0, o, p // 4, p % 4] += w[o, r // 9, r % 9 // 3, r % 3] * m[r, p]
            """,
        "relax.nn.conv2d",
    ),
    program(
        "Winograd F(2, 3) of one dimension (equal up to rounding)",
        "x 1,1,8; w 1,1,3; out 1,1,6",
        """
            u = T.alloc_buffer((2,), scope="local")
            m = T.alloc_buffer((4,), scope="local")
            u[0] = (w[0, 0, 0] + w[0, 0, 1] + w[0, 0, 2]) * T.float32(0.5)
            u[1] = (w[0, 0, 0] - w[0, 0, 1] + w[0, 0, 2]) * T.float32(0.5)
            for t in range(3):
                m[0] = (x[0, 0, 2 * t] - x[0, 0, 2 * t + 2]) * w[0, 0, 0]
                m[1] = (x[0, 0, 2 * t + 1] + x[0, 0, 2 * t + 2]) * u[0]
                m[2] = (x[0, 0, 2 * t + 2] - x[0, 0, 2 * t + 1]) * u[1]
                m[3] = (x[0, 0, 2 * t + 1] - x[0, 0, 2 * t + 3]) * w[0, 0, 2]
                out[0, 0, 2 * t] = m[0] + m[1] + m[2]
                out[0, 0, 2 * t + 1] = m[1] - m[2] - m[3]
            """,
        "relax.nn.conv1d",
    ),
    program(
        "transposed convolution, even offsets by a bit test",
        "x 1,2,5; w 2,3,3; out 1,3,11",
        """
            for o, i in T.grid(3, 11):
                out[0, o, i] = T.float32(0)
                for c, a in T.grid(2, 3):
                    if i >= a and (i - a) & 1 == 0 and i - a < 10:
                        out[0, o, i] += x[0, c, (i - a) >> 1] * w[c, o, a]
            """,
        "relax.nn.conv1d_transpose",
        strides=(2,),
    ),
    program(
        "transposed convolution scattered by hand",
        "x 1,2,5; w 2,3,3; out 1,3,11",
        """
            for o, i in T.grid(3, 11):
                out[0, o, i] = T.float32(0)
            for o, c, i, a in T.grid(3, 2, 5, 3):
                out[0, o, i * 2 + a] = out[0, o, i * 2 + a] + x[0, c, i] * w[c, o, a]
            """,
        "relax.nn.conv1d_transpose",
        strides=(2,),
    ),
    program(
        "maximum pool by rows, then by columns",
        "x 1,2,8,8; out 1,2,4,4",
        """
            r = T.alloc_buffer((2, 8, 4))
            for c, i, j in T.grid(2, 8, 4):
                r[c, i, j] = T.max(x[0, c, i, 2 * j], x[0, c, i, 2 * j + 1])
            for c, i, j in T.grid(2, 4, 4):
                out[0, c, i, j] = T.max(r[c, 2 * i, j], r[c, 2 * i + 1, j])
            """,
        "relax.nn.max_pool2d",
        pool_size=(2, 2),
        strides=(2, 2),
    ),
    program(
        "average pool by sums of rows, then of columns",
        "x 1,2,6,6; out 1,2,4,4",
        """
            r = T.alloc_buffer((2, 6, 4))
            for c, i, j in T.grid(2, 6, 4):
                r[c, i, j] = T.float32(0)
                for b in range(3):
                    r[c, i, j] += x[0, c, i, j + b]
            for c, i, j in T.grid(2, 4, 4):
                out[0, c, i, j] = T.float32(0)
                for a in range(3):
                    out[0, c, i, j] += r[c, i + a, j]
                out[0, c, i, j] = out[0, c, i, j] / T.float32(9)
            """,
        "relax.nn.avg_pool2d",
        pool_size=(3, 3),
    ),
    program(
        "average pool that counts the elements inside",
        "x 1,2,6; out 1,2,6",
        """
            s = T.alloc_buffer((1,), scope="local")
            n = T.alloc_buffer((1,), scope="local")
            for c, i in T.grid(2, 6):
                s[0] = T.float32(0)
                n[0] = T.float32(0)
                for a in range(3):
                    if i + a >= 1 and i + a < 7:
                        s[0] += x[0, c, i + a - 1]
                        n[0] += T.float32(1)
                out[0, c, i] = s[0] / n[0]
            """,
        "relax.nn.avg_pool1d",
        pool_size=(3,),
        padding=(1, 1),
        count_include_pad=False,
    ),
    program(
        "maximum pool, guarded reads, padded",
        "x 1,2,6,6; out 1,2,3,3",
        f"""
            m = T.alloc_buffer((1,), scope="local")
            for c, i, j in T.grid(2, 3, 3):
                m[0] = {LOW}
                for f in range(9):
                    if (i * 2 + f // 3 >= 1 and i * 2 + f // 3 < 7
                            and j * 2 + f % 3 >= 1 and j * 2 + f % 3 < 7):
                        m[0] = T.max(m[0], x[0, c, i * 2 + f // 3 - 1, j * 2 + f % 3 - 1])
                out[0, c, i, j] = m[0]
            """,
        "relax.nn.max_pool2d",
        pool_size=(3, 3),
        strides=(2, 2),
        padding=(1, 1, 1, 1),
    ),
    program(
        "convolution as shifted products, kernel outside",
        "x 1,3,6,6; w 4,3,3,3; out 1,4,4,4",
        """
            for o, i, j in T.grid(4, 4, 4):
                out[0, o, i, j] = T.float32(0)
            for a, b in T.grid(3, 3):
                for c, o, i, j in T.grid(3, 4, 4, 4):
                    out[0, o, i, j] += x[0, c, i + a, j + b] * w[o, c, a, b]
            """,
        "relax.nn.conv2d",
    ),
    program(
        "convolution in tiles of four registers",
        "x 1,3,6,6; w 4,3,3,3; out 1,4,4,4",
        """
            r = T.alloc_buffer((4,), scope="local")
            for o, i in T.grid(4, 4):
                for j in T.vectorized(4):
                    r[j] = T.float32(0)
                for c, a, b in T.grid(3, 3, 3):
                    for j in T.vectorized(4):
                        r[j] = r[j] + w[o, c, a, b] * x[0, c, i + a, j + b]
                for j in T.vectorized(4):
                    out[0, o, i, j] = r[j]
            """,
        "relax.nn.conv2d",
    ),
    program(
        "convolution of int8, zero point of the data in int32 (zero)",
        "x int8 1,4,5,5; w int8 4,2,2,2; out int32 1,4,4,4",
        """
            for o, i, j in T.grid(4, 4, 4):
                out[0, o, i, j] = 0
                for c, a, b in T.grid(2, 2, 2):
                    out[0, o, i, j] += (T.Cast("int32", x[0, o // 2 * 2 + c, i + a, j + b])
                        * T.Cast("int32", w[o, c, a, b]))
            """,
        "relax.nn.conv2d",
        groups=2,
        out_dtype="int32",
    ),
    program(
        "causal convolution: guarded reads on the left",
        "x 1,2,n; w 3,2,3; out 1,3,n",
        """
            for o, i in T.grid(3, n):
                out[0, o, i] = T.float32(0)
                for c, a in T.grid(2, 3):
                    if i + a >= 2:
                        out[0, o, i] += x[0, c, i + a - 2] * w[o, c, a]
            """,
        "relax.nn.conv1d",
        padding=(2, 0),
    ),
    program(
        "convolution of symbolic height, rows in pairs of registers",
        "x 1,2,n,6; w 3,2,1,3; out 1,3,n,4",
        """
            s = T.alloc_buffer((1,), scope="local")
            for o, i, j in T.grid(3, n, 4):
                s[0] = T.float32(0)
                for c, b in T.grid(2, 3):
                    s[0] += x[0, c, i, j + b] * w[o, c, 0, b]
                out[0, o, i, j] = s[0]
            """,
        "relax.nn.conv2d",
    ),
    program(
        "convolution of float16 in float32",
        "x float16 1,2,6,6; w float16 3,2,3,3; out float32 1,3,2,2",
        """
            for o, i, j in T.grid(3, 2, 2):
                out[0, o, i, j] = T.float32(0)
                for c, a, b in T.grid(2, 3, 3):
                    out[0, o, i, j] += (T.Cast("float32", x[0, c, i * 2 + a, j * 2 + b])
                        * T.Cast("float32", w[o, c, a, b]))
            """,
        "relax.nn.conv2d",
        strides=(2, 2),
        out_dtype="float32",
    ),
    program(
        "global average by the reciprocal of the area",
        "x 2,3,4,4; out 2,3,1,1",
        """
            for n, c in T.grid(2, 3):
                out[n, c, 0, 0] = T.float32(0)
                for f in range(16):
                    out[n, c, 0, 0] += x[n, c, f >> 2, f & 3]
                out[n, c, 0, 0] = out[n, c, 0, 0] * T.float32(0.0625)
            """,
        "relax.mean",
        axis=[2, 3],
        keepdims=True,
        also={
            "relax.nn.adaptive_avg_pool2d": {"output_size": [1, 1]},
            "relax.nn.avg_pool2d": {"pool_size": (4, 4)},
        },
    ),
]
