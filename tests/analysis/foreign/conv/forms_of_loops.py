"""Convolutions in loops of all orders, padding folded in, lowered to a product."""

from __future__ import annotations

from ..case import Foreign, script

_X, _W = "x 1,3,8,8", "w 4,3,3,3"
_PAD1 = {"padding": (1, 1, 1, 1)}

CASES = [
    Foreign(
        "plain loops, int32, no SBlock",
        script(
            f"{_X}; {_W}; out 1,4,6,6",
            """
            for n, o, i, j in T.grid(1, 4, 6, 6):
                out[n, o, i, j] = T.float32(0)
                for c, a, b in T.grid(3, 3, 3):
                    out[n, o, i, j] = out[n, o, i, j] + x[n, c, i + a, j + b] * w[o, c, a, b]
            """,
        ),
        "relax.nn.conv2d",
    ),
    Foreign(
        "init outside, reduction loops outermost",
        script(
            f"{_X}; {_W}; out 1,4,6,6",
            """
            for n, o, i, j in T.grid(1, 4, 6, 6):
                out[n, o, i, j] = T.float32(0)
            for c, a, b, o, i, j in T.grid(3, 3, 3, 4, 6, 6):
                out[0, o, i, j] = out[0, o, i, j] + w[o, c, a, b] * x[0, c, i + a, j + b]
            """,
        ),
        "relax.nn.conv2d",
        operands=(0, 1),
    ),
    Foreign(
        "all loops fused into one",
        script(
            f"{_X}; {_W}; out 1,4,6,6",
            """
            for f in range(4 * 6 * 6):
                out[0, f // 36, f % 36 // 6, f % 6] = T.float32(0)
                for r in range(27):
                    out[0, f // 36, f % 36 // 6, f % 6] = (
                        out[0, f // 36, f % 36 // 6, f % 6]
                        + x[0, r // 9, f % 36 // 6 + r % 9 // 3, f % 6 + r % 3]
                        * w[f // 36, r // 9, r % 9 // 3, r % 3])
            """,
        ),
        "relax.nn.conv2d",
    ),
    Foreign(
        "tiled loops, tail guarded",
        script(
            f"{_X}; {_W}; out 1,4,6,6",
            """
            for o, io, jo, ii, ji in T.grid(4, 2, 2, 4, 4):
                if io * 4 + ii < 6 and jo * 4 + ji < 6:
                    out[0, o, io * 4 + ii, jo * 4 + ji] = T.float32(0)
                    for c, a, b in T.grid(3, 3, 3):
                        out[0, o, io * 4 + ii, jo * 4 + ji] += (
                            x[0, c, io * 4 + ii + a, jo * 4 + ji + b] * w[o, c, a, b])
            """,
        ),
        "relax.nn.conv2d",
    ),
    Foreign(
        "padding folded in with if_then_else, stride 2",
        script(
            f"{_X}; {_W}; out 1,4,4,4",
            """
            for n, o, i, j, c, a, b in T.grid(1, 4, 4, 4, 3, 3, 3):
                with T.sblock("c"):
                    vn, vo, vi, vj, vc, va, vb = T.axis.remap("SSSSRRR", [n, o, i, j, c, a, b])
                    with T.init():
                        out[vn, vo, vi, vj] = T.float32(0)
                    out[vn, vo, vi, vj] += T.if_then_else(
                        1 <= vi * 2 + va and 1 <= vj * 2 + vb,
                        x[vn, vc, vi * 2 + va - 1, vj * 2 + vb - 1], T.float32(0)
                    ) * w[vo, vc, va, vb]
            """,
        ),
        "relax.nn.conv2d",
        {"strides": (2, 2), "padding": (1, 1, 1, 1)},
    ),
    Foreign(
        "padding by Select around the product",
        script(
            f"{_X}; {_W}; out 1,4,8,8",
            """
            for n, o, i, j in T.grid(1, 4, 8, 8):
                out[n, o, i, j] = T.float32(0)
                for c, a, b in T.grid(3, 3, 3):
                    out[n, o, i, j] = out[n, o, i, j] + T.if_then_else(
                        i + a >= 1 and i + a < 9 and j + b >= 1 and j + b < 9,
                        x[n, c, i + a - 1, j + b - 1] * w[o, c, a, b], T.float32(0))
            """,
        ),
        "relax.nn.conv2d",
        _PAD1,
    ),
    Foreign(
        "padding by an if that skips the update",
        script(
            f"{_X}; {_W}; out 1,4,8,8",
            """
            for n, o, i, j in T.grid(1, 4, 8, 8):
                out[n, o, i, j] = T.float32(0)
                for c, a, b in T.grid(3, 3, 3):
                    if i + a >= 1 and i + a < 9 and j + b >= 1 and j + b < 9:
                        out[n, o, i, j] += x[n, c, i + a - 1, j + b - 1] * w[o, c, a, b]
            """,
        ),
        "relax.nn.conv2d",
        _PAD1,
    ),
    Foreign(
        "a zeroed buffer, then the middle copied",
        script(
            f"{_X}; {_W}; out 1,4,8,8",
            """
            p = T.alloc_buffer((1, 3, 10, 10))
            for c, i, j in T.grid(3, 10, 10):
                p[0, c, i, j] = T.float32(0)
            for c, i, j in T.grid(3, 8, 8):
                p[0, c, i + 1, j + 1] = x[0, c, i, j]
            for o, i, j in T.grid(4, 8, 8):
                out[0, o, i, j] = T.float32(0)
                for c, a, b in T.grid(3, 3, 3):
                    out[0, o, i, j] += p[0, c, i + a, j + b] * w[o, c, a, b]
            """,
        ),
        "relax.nn.conv2d",
        _PAD1,
    ),
    Foreign(
        "im2col and a matrix product",
        script(
            f"{_X}; {_W}; out 1,4,6,6",
            """
            col = T.alloc_buffer((27, 36))
            mat = T.alloc_buffer((4, 36))
            for r, s in T.grid(27, 36):
                col[r, s] = x[0, r // 9, s // 6 + r % 9 // 3, s % 6 + r % 3]
            for o, s in T.grid(4, 36):
                mat[o, s] = T.float32(0)
                for r in range(27):
                    mat[o, s] += w[o, r // 9, r % 9 // 3, r % 3] * col[r, s]
            for o, i, j in T.grid(4, 6, 6):
                out[0, o, i, j] = mat[o, i * 6 + j]
            """,
        ),
        "relax.nn.conv2d",
        operands=(0, 1),
    ),
    Foreign(
        "im2col with padding and stride",
        script(
            f"{_X}; {_W}; out 1,4,4,4",
            """
            col = T.alloc_buffer((27, 16))
            for r, s in T.grid(27, 16):
                col[r, s] = T.if_then_else(
                    s // 4 * 2 + r % 9 // 3 >= 1 and s % 4 * 2 + r % 3 >= 1,
                    x[0, r // 9, s // 4 * 2 + r % 9 // 3 - 1, s % 4 * 2 + r % 3 - 1], T.float32(0))
            for o, i, j in T.grid(4, 4, 4):
                out[0, o, i, j] = T.float32(0)
                for r in range(27):
                    out[0, o, i, j] += w[o, r // 9, r % 9 // 3, r % 3] * col[r, i * 4 + j]
            """,
        ),
        "relax.nn.conv2d",
        {"strides": (2, 2), "padding": (1, 1, 1, 1)},
    ),
    Foreign(
        "a scalar accumulator",
        script(
            f"{_X}; {_W}; out 1,4,6,6",
            """
            acc = T.alloc_buffer((1,), scope="local")
            for o, i, j in T.grid(4, 6, 6):
                acc[0] = T.float32(0)
                for c, a, b in T.grid(3, 3, 3):
                    acc[0] = acc[0] + x[0, c, i + a, j + b] * w[o, c, a, b]
                out[0, o, i, j] = acc[0]
            """,
        ),
        "relax.nn.conv2d",
    ),
    Foreign(
        "taps unrolled by hand",
        script(
            "x 1,2,6; w 3,2,3; out 1,3,4",
            """
            for o, i in T.grid(3, 4):
                out[0, o, i] = T.float32(0)
                for c in range(2):
                    out[0, o, i] += x[0, c, i] * w[o, c, 0]
                    out[0, o, i] += x[0, c, i + 1] * w[o, c, 1]
                    out[0, o, i] += x[0, c, i + 2] * w[o, c, 2]
            """,
        ),
        "relax.nn.conv1d",
    ),
    Foreign(
        "half precision, accumulated in float32",
        script(
            "x float16 1,3,8,8; w float16 4,3,3,3; out float16 1,4,6,6",
            """
            acc = T.alloc_buffer((1, 4, 6, 6), "float32")
            for o, i, j in T.grid(4, 6, 6):
                acc[0, o, i, j] = T.float32(0)
                for c, a, b in T.grid(3, 3, 3):
                    acc[0, o, i, j] += (T.cast(x[0, c, i + a, j + b], "float32")
                                        * T.cast(w[o, c, a, b], "float32"))
            for o, i, j in T.grid(4, 6, 6):
                out[0, o, i, j] = T.cast(acc[0, o, i, j], "float16")
            """,
        ),
        "",  # relax.nn.conv2d rounds each partial sum to float16
    ),
    Foreign(
        "half precision, float32 result",
        script(
            "x float16 1,3,8,8; w float16 4,3,3,3; out float32 1,4,6,6",
            """
            for o, i, j in T.grid(4, 6, 6):
                out[0, o, i, j] = T.float32(0)
                for c, a, b in T.grid(3, 3, 3):
                    out[0, o, i, j] += (T.cast(x[0, c, i + a, j + b], "float32")
                                        * T.cast(w[o, c, a, b], "float32"))
            """,
        ),
        "relax.nn.conv2d",
        {"out_dtype": "float32"},
    ),
    Foreign(
        "int8 with int32 sums",
        script(
            "x int8 1,3,8,8; w int8 4,3,3,3; out int32 1,4,6,6",
            """
            for o, i, j in T.grid(4, 6, 6):
                out[0, o, i, j] = 0
                for c, a, b in T.grid(3, 3, 3):
                    out[0, o, i, j] += (T.cast(x[0, c, i + a, j + b], "int32")
                                        * T.cast(w[o, c, a, b], "int32"))
            """,
        ),
        "relax.nn.conv2d",
        {"out_dtype": "int32"},
    ),
]
