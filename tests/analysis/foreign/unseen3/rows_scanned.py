"""Scans, sums and places of the largest in rows, in one pass or in another order."""

from __future__ import annotations

from .programs import program

CASES = [
    program(
        "index of the largest, its value in a register",
        "x 5,7; out int64 5",
        """
        m = T.alloc_buffer((1,), scope="local")
        for i in range(5):
            m[0] = x[i, 0]
            out[i] = T.int64(0)
            for k in range(1, 7):
                if x[i, k] > m[0]:
                    m[0] = x[i, k]
                    out[i] = T.Cast("int64", k)
        """,
        "relax.argmax",
        axis=1,
    ),
    program(
        "index of the smallest, a pair of scalars",
        "x 5,7; out int64 5",
        """
        m = T.alloc_buffer((1,), scope="local")
        p = T.alloc_buffer((1,), "int64", scope="local")
        for i in range(5):
            m[0] = T.float32(3.4028234663852886e+38)
            p[0] = T.int64(-1)
            for k in T.serial(T.int64(7)):
                p[0] = T.if_then_else(x[i, k] < m[0], k, p[0])
                m[0] = T.min(m[0], x[i, k])
            out[i] = p[0]
        """,
        "relax.argmin",
        axis=1,
    ),
    program(
        "running sums by doubling, two buffers in turn",
        "x 8; out 8",
        """
        a = T.alloc_buffer((8,))
        b = T.alloc_buffer((8,))
        for i in range(8):
            a[i] = T.if_then_else(i >= 1, x[i] + x[i - 1], x[i])
        for i in range(8):
            b[i] = T.if_then_else(i >= 2, a[i] + a[i - 2], a[i])
        for i in range(8):
            out[i] = T.if_then_else(i >= 4, b[i] + b[i - 4], b[i])
        """,
        "relax.cumsum",
        axis=0,
    ),
    program(
        "running sums with the total in a register",
        "x n,8; out n,8",
        """
        s = T.alloc_buffer((1,), scope="local")
        for i in range(n):
            s[0] = T.float32(0)
            for k in range(8):
                s[0] = s[0] + x[i, k]
                out[i, k] = s[0]
        """,
        "relax.cumsum",
        axis=1,
    ),
    program(
        "running sums before each element",
        "x 3,8; out 3,8",
        """
        s = T.alloc_buffer((1,), scope="local")
        for i in range(3):
            s[0] = T.float32(0)
            for k in range(8):
                out[i, k] = s[0]
                s[0] = s[0] + x[i, k]
        """,
        "relax.cumsum",
        axis=1,
        exclusive=True,
    ),
    program(
        "running products in place",
        "x 3,8; out 3,8",
        """
        for i, k in T.grid(3, 8):
            out[i, k] = x[i, k]
        for i, k in T.grid(3, 7):
            out[i, k + 1] = out[i, k + 1] * out[i, k]
        """,
        "relax.cumprod",
        axis=1,
    ),
    program(
        "sum with Kahan's compensation (equal up to rounding)",
        "x 3,8; out 3",
        """
        s = T.alloc_buffer((1,), scope="local")
        c = T.alloc_buffer((1,), scope="local")
        y = T.alloc_buffer((1,), scope="local")
        t = T.alloc_buffer((1,), scope="local")
        for i in range(3):
            s[0] = T.float32(0)
            c[0] = T.float32(0)
            for k in range(8):
                y[0] = x[i, k] - c[0]
                t[0] = s[0] + y[0]
                c[0] = (t[0] - s[0]) - y[0]
                s[0] = t[0]
            out[i] = s[0]
        """,
        "relax.sum",
        axis=[1],
    ),
    program(
        "largest of a row by Select, from the first element",
        "x n,8; out n",
        """
        for i in range(n):
            out[i] = x[i, 0]
            for k in range(1, 8):
                out[i] = T.Select(x[i, k] > out[i], x[i, k], out[i])
        """,
        "relax.max",
        axis=[1],
    ),
]
