"""Copies, gathers and resizing by coordinates; numbers in narrow types."""

from __future__ import annotations

from typing import Any

from opinfo.analysis import Constant

from ..moves.topi_moves import SHUFFLED
from ..unseen3.programs import program

_LINEAR: dict[str, Any] = {
    "size": [8, 10], "method": "linear", "coordinate_transformation_mode": "half_pixel",
}  # fmt: skip

CASES = [
    program(
        "pixel shuffle: each input stored at its place",
        "x 1,8,3,3; out 1,2,6,6",
        """
        for c, i, j in T.grid(8, 3, 3):
            out[0, c // 4, i * 2 + c % 4 // 2, j * 2 + c % 2] = x[0, c, i, j]
        """,
        "relax.nn.pixel_shuffle",
        upscale_factor=2,
        also={"relax.layout_transform": {"index_map": SHUFFLED}},
    ),
    program(
        "bilinear resize by coordinates, clamped at both ends",
        "x 1,2,4,5; out 1,2,8,10",
        """
        y = T.alloc_buffer((1,), scope="local")
        z = T.alloc_buffer((1,), scope="local")
        for c, i, j in T.grid(2, 8, 10):
            y[0] = (T.Cast("float32", i) + T.float32(0.5)) * T.float32(0.5) - T.float32(0.5)
            z[0] = (T.Cast("float32", j) + T.float32(0.5)) * T.float32(0.5) - T.float32(0.5)
            out[0, c, i, j] = (
                (x[0, c, T.max(T.min(T.Cast("int32", T.floor(y[0])), 3), 0),
                    T.max(T.min(T.Cast("int32", T.floor(z[0])), 4), 0)]
                * (T.float32(1) - (z[0] - T.floor(z[0])))
                + x[0, c, T.max(T.min(T.Cast("int32", T.floor(y[0])), 3), 0),
                    T.max(T.min(T.Cast("int32", T.floor(z[0])) + 1, 4), 0)]
                * (z[0] - T.floor(z[0]))) * (T.float32(1) - (y[0] - T.floor(y[0])))
                + (x[0, c, T.max(T.min(T.Cast("int32", T.floor(y[0])) + 1, 3), 0),
                    T.max(T.min(T.Cast("int32", T.floor(z[0])), 4), 0)]
                * (T.float32(1) - (z[0] - T.floor(z[0])))
                + x[0, c, T.max(T.min(T.Cast("int32", T.floor(y[0])) + 1, 3), 0),
                    T.max(T.min(T.Cast("int32", T.floor(z[0])) + 1, 4), 0)]
                * (z[0] - T.floor(z[0]))) * (y[0] - T.floor(y[0])))
        """,
        "relax.image.resize2d",
        **_LINEAR,
    ),
    program(
        "nearest neighbour: each element stored four times",
        "x 1,2,4,5; out 1,2,8,10",
        """
        for c, i, j in T.grid(2, 4, 5):
            for a, b in T.grid(2, 2):
                out[0, c, i * 2 + a, j * 2 + b] = x[0, c, i, j]
        """,
        "relax.image.resize2d",
        size=[8, 10],
        method="nearest_neighbor",
        coordinate_transformation_mode="asymmetric",
        rounding_method="floor",
    ),
    program(
        "embedding: rows of a table in blocks of four columns",
        "t 9,8; k int32 2,3; out 2,3,8",
        """
        for f in T.parallel(6):
            for d in range(2):
                for l in T.vectorized(4):
                    out[f // 3, f % 3, d * 4 + l] = t[k[f // 3, f % 3], d * 4 + l]
        """,
        "relax.take",
        axis=0,
        mode="fast",
    ),
    program(
        "embedding: indices clamped to the table",
        "t 9,4; k int32 5; out 5,4",
        """
        for i, d in T.grid(5, 4):
            out[i, d] = t[T.min(T.max(k[i], 0), 8), d]
        """,
        "relax.take",
        axis=0,
        mode="clip",
    ),
    program(
        "rotary embedding of two halves: the partner and its sign in a buffer",
        "x n,2,8; c n,1,8; s n,1,8; out n,2,8",
        """
        r = T.alloc_buffer((8,), scope="local")
        for i, h in T.grid(n, 2):
            for d in range(4):
                r[d] = T.float32(0) - x[i, h, d + 4]
                r[d + 4] = x[i, h, d]
            for d in range(8):
                out[i, h, d] = x[i, h, d] * c[i, 0, d] + r[d] * s[i, 0, d]
        """,
        "relax.nn.apply_rotary_embedding",
        rotary_dim=8,
        style="neox",
    ),
    program(
        "transpose by tiles of four in registers, tiles at the edge cut by a minimum",
        "x 6,10; out 10,6",
        """
        t = T.alloc_buffer((4, 4), scope="local")
        for io, jo in T.grid(2, 3):
            for i in range(T.min(4, 6 - io * 4)):
                for j in range(T.min(4, 10 - jo * 4)):
                    t[i, j] = x[io * 4 + i, jo * 4 + j]
            for j in range(T.min(4, 10 - jo * 4)):
                for i in range(T.min(4, 6 - io * 4)):
                    out[jo * 4 + j, io * 4 + i] = t[i, j]
        """,
        "relax.permute_dims",
        axes=[1, 0],
    ),
    program(
        "columns side by side, one loop with the tensor chosen by the index",
        "x n,3; y n,5; out n,8",
        """
        for f in range(n * 8):
            out[f // 8, f % 8] = T.if_then_else(f % 8 < 3, x[f // 8, T.min(f % 8, 2)],
                y[f // 8, T.max(f % 8 - 3, 0)])
        """,
        "relax.concat",
        axis=1,
    ),
    program(
        "where, by a factor of zero or one: infinite data differs",
        "c bool 4,6; x 4,6; y 4,6; out 4,6",
        """
        for i, j in T.grid(4, 6):
            out[i, j] = (T.Cast("float32", c[i, j]) * x[i, j]
                + (T.float32(1) - T.Cast("float32", c[i, j])) * y[i, j])
        """,
    ),
    program(
        "absolute values of int32 by the sign's bits",
        "x int32 4,6; out int32 4,6",
        """
        for i, j in T.grid(4, 6):
            out[i, j] = (x[i, j] ^ (x[i, j] >> 31)) - (x[i, j] >> 31)
        """,
        "relax.abs",
    ),
    program(
        "quantise by 0.05: rounded and clamped in int32",
        "x n,6; out int8 n,6",
        """
        for i, j in T.grid(n, 6):
            out[i, j] = T.Cast("int8", T.max(-128, T.min(127,
                T.Cast("int32", T.round(x[i, j] / T.float32(0.05))) + 3)))
        """,
    ),
    program(
        "dequantise by rows, a flat loop with the row from a division",
        "x int8 4,6; s 4; z int8 4; out 4,6",
        """
        for f in range(24):
            out[f // 6, f % 6] = (T.Cast("float32", T.Cast("int32", x[f // 6, f % 6])
                - T.Cast("int32", z[f // 6])) * s[f // 6])
        """,
        "relax.dequantize",
        axis=0,
    ),
    program(
        "exponential by a power of two",
        "x 4,n; out 4,n",
        """
        for i, j in T.grid(4, n):
            out[i, j] = T.exp2(x[i, j] * T.float32(1.4426950408889634))
        """,
        "relax.exp",
    ),
    program(
        "silu in lanes of four, a quotient",
        "x 6,8; out 6,8",
        """
        for i, j in T.grid(6, 2):
            out[i, T.Ramp(j * 4, 1, 4)] = x[i, T.Ramp(j * 4, 1, 4)] / (
                T.Broadcast(T.float32(1), 4)
                + T.exp(T.Broadcast(T.float32(0), 4) - x[i, T.Ramp(j * 4, 1, 4)]))
        """,
        "relax.nn.silu",
    ),
    program(
        "prelu by channels: the larger and the smaller part",
        "x 1,3,4,4; a 3; out 1,3,4,4",
        """
        for c, p in T.grid(3, 16):
            out[0, c, p // 4, p % 4] = (T.max(x[0, c, p // 4, p % 4], T.float32(0))
                + a[c] * T.min(x[0, c, p // 4, p % 4], T.float32(0)))
        """,
        "relax.nn.prelu",
        axis=1,
    ),
    program(
        "dequantise with a factor and no zero point, in float16",
        "x int8 n,6; out float16 n,6",
        """
        for i, j in T.grid(n, 6):
            out[i, j] = T.Cast("float16", x[i, j]) * T.float16(0.25)
        """,
        "relax.dequantize",
        operands=(0, Constant(0.25, "float16"), Constant(0, "int8")),
        out_dtype="float16",
    ),
]
