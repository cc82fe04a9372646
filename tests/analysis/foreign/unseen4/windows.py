"""Convolutions, transposed convolutions and pools as frameworks write them in C."""

from __future__ import annotations

from ..unseen3.programs import LOW, program

CASES = [
    program(
        "convolution as a product with implicit columns, flat in both indices",
        "x 2,3,5,5; w 4,3,3,3; out 2,4,5,5",
        """
        s = T.alloc_buffer((1,), scope="local")
        for m, o in T.grid(50, 4):
            s[0] = T.float32(0)
            for k in range(27):
                if (m % 25 // 5 + k % 9 // 3 >= 1 and m % 25 // 5 + k % 9 // 3 < 6
                        and m % 5 + k % 3 >= 1 and m % 5 + k % 3 < 6):
                    s[0] += x[m // 25, k // 9, m % 25 // 5 + k % 9 // 3 - 1, m % 5 + k % 3 - 1
                        ] * w[o, k // 9, k % 9 // 3, k % 3]
            out[m // 25, o, m % 25 // 5, m % 5] = s[0]
        """,
        "relax.nn.conv2d",
        padding=(1, 1, 1, 1),
    ),
    program(
        "convolution by a flat column buffer and a product",
        "x 1,2,6,6; w 3,2,3,3; out 1,3,4,4",
        """
        col = T.alloc_buffer((288,))
        for c, p in T.grid(18, 16):
            col[c * 16 + p] = x[0, c // 9, p // 4 + c // 3 % 3, p % 4 + c % 3]
        for o, p in T.grid(3, 16):
            out[0, o, p // 4, p % 4] = T.float32(0)
            for c in range(18):
                out[0, o, p // 4, p % 4] += w[o, c // 9, c // 3 % 3, c % 3] * col[c * 16 + p]
        """,
        "relax.nn.conv2d",
    ),
    program(
        "depthwise convolution of channels last, nine taps written out",
        "x 1,6,6,4; w 3,3,4,1; out 1,4,4,4",
        "for i, j, c in T.grid(4, 4, 4):\n    out[0, i, j, c] = ("
        + " + ".join(
            f"x[0, i + {a}, j + {b}, c] * w[{a}, {b}, c, 0]" for a in range(3) for b in range(3)
        )
        + ")",
        "relax.nn.conv2d",
        groups=4,
        data_layout="NHWC",
        kernel_layout="HWOI",
    ),
    program(
        "causal convolution, dilated, taps counted from the present",
        "x 2,3,12; w 4,3,3; out 2,4,12",
        """
        for n, o, t in T.grid(2, 4, 12):
            out[n, o, t] = T.float32(0)
            for k in range(3):
                if t - 2 * k >= 0:
                    for c in range(3):
                        out[n, o, t] += x[n, c, t - 2 * k] * w[o, c, 2 - k]
        """,
        "relax.nn.conv1d",
        dilation=(2,),
        padding=(4, 0),
    ),
    program(
        "convolution of one pixel, over flat pixels of a view",
        "x 1,5,5,4; w 1,1,4,6; out 1,5,5,6",
        """
        fx = T.decl_buffer((25, 4), data=x.data)
        fo = T.decl_buffer((25, 6), data=out.data)
        for p in range(25):
            for o in range(6):
                fo[p, o] = T.float32(0)
            for c, o in T.grid(4, 6):
                fo[p, o] = fo[p, o] + fx[p, c] * w[0, 0, c, o]
        """,
        "relax.nn.conv2d",
        data_layout="NHWC",
        kernel_layout="HWIO",
        also={"relax.matmul": {}, "relax.einsum": {}},
    ),
    program(
        "grouped convolution, output channels in one loop, strided",
        "x 1,4,9; w 6,2,3; out 1,6,4",
        """
        for o, t in T.grid(6, 4):
            out[0, o, t] = T.float32(0)
            for c in range(o // 3 * 2, o // 3 * 2 + 2):
                for k in range(3):
                    out[0, o, t] += x[0, c, t * 2 + k] * w[o, c - o // 3 * 2, k]
        """,
        "relax.nn.conv1d",
        strides=(2,),
        groups=2,
    ),
    program(
        "transposed convolution by phases: even and odd places apart",
        "x 1,2,5; w 2,3,4; out 1,3,10",
        """
        for o, t in T.grid(3, 5):
            out[0, o, t * 2] = T.float32(0)
            out[0, o, t * 2 + 1] = T.float32(0)
            for c in range(2):
                out[0, o, t * 2] += x[0, c, t] * w[c, o, 1]
                if t >= 1:
                    out[0, o, t * 2] += x[0, c, t - 1] * w[c, o, 3]
                out[0, o, t * 2 + 1] += x[0, c, t] * w[c, o, 2]
                if t < 4:
                    out[0, o, t * 2 + 1] += x[0, c, t + 1] * w[c, o, 0]
        """,
        "relax.nn.conv1d_transpose",
        strides=(2,),
        padding=(1, 1),
    ),
    program(
        "transposed convolution: a product into columns, then added to the image",
        "x 1,2,4,4; w 2,3,3,3; out 1,3,9,9",
        """
        col = T.alloc_buffer((27, 16))
        for r, p in T.grid(27, 16):
            col[r, p] = T.float32(0)
            for c in range(2):
                col[r, p] += w[c, r // 9, r % 9 // 3, r % 3] * x[0, c, p // 4, p % 4]
        for o, i, j in T.grid(3, 9, 9):
            out[0, o, i, j] = T.float32(0)
        for o, a, b, i, j in T.grid(3, 3, 3, 4, 4):
            out[0, o, i * 2 + a, j * 2 + b] += col[o * 9 + a * 3 + b, i * 4 + j]
        """,
        "relax.nn.conv2d_transpose",
        strides=(2, 2),
    ),
    program(
        "maximum pool: the window cut to the image by the loop's bounds",
        "x 1,2,7,7; out 1,2,4,4",
        f"""
        for c, i, j in T.grid(2, 4, 4):
            out[0, c, i, j] = {LOW}
            for a in range(T.max(i * 2 - 1, 0), T.min(i * 2 + 2, 7)):
                for b in range(T.max(j * 2 - 1, 0), T.min(j * 2 + 2, 7)):
                    out[0, c, i, j] = T.max(out[0, c, i, j], x[0, c, a, b])
        """,
        "relax.nn.max_pool2d",
        pool_size=(3, 3),
        strides=(2, 2),
        padding=(1, 1, 1, 1),
    ),
    program(
        "average pool: the window cut to the image, divided by its area",
        "x 1,2,7,7; out 1,2,4,4",
        """
        s = T.alloc_buffer((1,), scope="local")
        for c, i, j in T.grid(2, 4, 4):
            s[0] = T.float32(0)
            for a in range(T.max(i * 2 - 1, 0), T.min(i * 2 + 2, 7)):
                for b in range(T.max(j * 2 - 1, 0), T.min(j * 2 + 2, 7)):
                    s[0] += x[0, c, a, b]
            out[0, c, i, j] = s[0] / T.Cast("float32", (T.min(i * 2 + 2, 7) - T.max(i * 2 - 1, 0))
                * (T.min(j * 2 + 2, 7) - T.max(j * 2 - 1, 0)))
        """,
        "relax.nn.avg_pool2d",
        pool_size=(3, 3),
        strides=(2, 2),
        padding=(1, 1, 1, 1),
    ),
    program(
        "average pool: sums of rows, then of columns, one ninth",
        "x 1,2,6,6; out 1,2,4,4",
        """
        t = T.alloc_buffer((1, 2, 4, 6))
        for c, i, j in T.grid(2, 4, 6):
            t[0, c, i, j] = x[0, c, i, j] + x[0, c, i + 1, j] + x[0, c, i + 2, j]
        for c, i, j in T.grid(2, 4, 4):
            out[0, c, i, j] = (t[0, c, i, j] + t[0, c, i, j + 1] + t[0, c, i, j + 2]
                ) / T.float32(9)
        """,
        "relax.nn.avg_pool2d",
        pool_size=(3, 3),
    ),
    program(
        "maximum pool, dilated, the first tap in a register",
        "x 2,3,10; out 2,3,6",
        """
        m = T.alloc_buffer((1,), scope="local")
        for n, c, t in T.grid(2, 3, 6):
            m[0] = x[n, c, t]
            m[0] = T.max(m[0], x[n, c, t + 2])
            m[0] = T.max(m[0], x[n, c, t + 4])
            out[n, c, t] = m[0]
        """,
        "relax.nn.max_pool1d",
        pool_size=(3,),
        dilation=(2,),
    ),
    program(
        "adaptive average pool: windows from integer division",
        "x 1,2,7,7; out 1,2,3,3",
        """
        for c, i, j in T.grid(2, 3, 3):
            out[0, c, i, j] = T.float32(0)
            for a in range(i * 7 // 3, (i * 7 + 9) // 3):
                for b in range(j * 7 // 3, (j * 7 + 9) // 3):
                    out[0, c, i, j] += x[0, c, a, b]
            out[0, c, i, j] = out[0, c, i, j] / T.Cast("float32",
                ((i * 7 + 9) // 3 - i * 7 // 3) * ((j * 7 + 9) // 3 - j * 7 // 3))
        """,
        "relax.nn.adaptive_avg_pool2d",
        output_size=(3, 3),
        also={"relax.nn.avg_pool2d": {"pool_size": (3, 3), "strides": (2, 2)}},
    ),
    program(
        "convolution of half precision, totals in float32: the operator rounds each to float16",
        "x float16 1,6,6,4; w float16 3,3,4,5; out float16 1,4,4,5",
        """
        s = T.alloc_buffer((5,), scope="local")
        for i, j in T.grid(4, 4):
            for o in range(5):
                s[o] = T.float32(0)
            for a, b, c, o in T.grid(3, 3, 4, 5):
                s[o] += T.Cast("float32", x[0, i + a, j + b, c]) * T.Cast("float32", w[a, b, c, o])
            for o in range(5):
                out[0, i, j, o] = T.Cast("float16", s[o])
        """,
    ),
]
