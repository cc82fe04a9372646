"""Attention, places of extremes, running sums and variances, in tiles and blocks."""

from __future__ import annotations

from ..unseen3.programs import LOW, program

CASES = [
    program(
        "attention: tiles of two queries and two keys, the last keys masked",
        "q 1,4,1,4; k 1,5,1,4; v 1,5,1,4; out 1,4,1,4",
        f"""
        p = T.alloc_buffer((2, 2), scope="local")
        m = T.alloc_buffer((2,), scope="local")
        o = T.alloc_buffer((2,), scope="local")
        d = T.alloc_buffer((2,), scope="local")
        a = T.alloc_buffer((2, 4), scope="local")
        for io in range(2):
            for i in range(2):
                m[i] = {LOW}
                d[i] = T.float32(0)
                for e in range(4):
                    a[i, e] = T.float32(0)
            for jo in range(3):
                for i, j in T.grid(2, 2):
                    p[i, j] = T.float32(0)
                    for e in range(4):
                        p[i, j] += q[0, io * 2 + i, 0, e] * T.if_then_else(
                            jo * 2 + j < 5, k[0, jo * 2 + j, 0, e], T.float32(0))
                    p[i, j] = T.if_then_else(
                        jo * 2 + j < 5, p[i, j] * T.float32(0.5), T.float32("-inf"))
                for i in range(2):
                    o[i] = m[i]
                    for j in range(2):
                        m[i] = T.max(m[i], p[i, j])
                    d[i] = d[i] * T.exp(o[i] - m[i])
                    for j in range(2):
                        p[i, j] = T.exp(p[i, j] - m[i])
                        d[i] += p[i, j]
                    for e in range(4):
                        a[i, e] = a[i, e] * T.exp(o[i] - m[i])
                        for j in range(2):
                            a[i, e] += p[i, j] * T.if_then_else(
                                jo * 2 + j < 5, v[0, jo * 2 + j, 0, e], T.float32(0))
            for i, e in T.grid(2, 4):
                out[0, io * 2 + i, 0, e] = a[i, e] / d[i]
        """,
        "relax.nn.attention",
    ),
    program(
        "index of the largest: values and indices of lanes, then the lanes in order",
        "x 5,8; out int64 5",
        f"""
        m = T.alloc_buffer((4,), scope="local")
        p = T.alloc_buffer((4,), "int64", scope="local")
        for i in range(5):
            for u in range(4):
                m[u] = {LOW}
                p[u] = T.int64(0)
            for k in range(2):
                for u in range(4):
                    if x[i, u * 2 + k] > m[u]:
                        m[u] = x[i, u * 2 + k]
                        p[u] = T.Cast("int64", u * 2 + k)
            for u in range(3):
                if m[u + 1] > m[0]:
                    m[0] = m[u + 1]
                    p[0] = p[u + 1]
            out[i] = p[0]
        """,
        "relax.argmax",
        axis=1,
    ),
    program(
        "running sums: a total carried from block to block of four",
        "x 3,12; out 3,12",
        """
        c = T.alloc_buffer((1,), scope="local")
        for i in range(3):
            c[0] = T.float32(0)
            for b in range(3):
                for k in range(4):
                    c[0] = c[0] + x[i, b * 4 + k]
                    out[i, b * 4 + k] = c[0]
        """,
        "relax.cumsum",
        axis=1,
    ),
    program(
        "running sums: blocks of four apart, then the totals of the blocks before",
        "x 12; out 12",
        """
        t = T.alloc_buffer((3,))
        for b in range(3):
            out[b * 4] = x[b * 4]
            for k in range(1, 4):
                out[b * 4 + k] = out[b * 4 + k - 1] + x[b * 4 + k]
        t[0] = T.float32(0)
        for b in range(2):
            t[b + 1] = t[b] + out[b * 4 + 3]
        for b, k in T.grid(3, 4):
            out[b * 4 + k] = out[b * 4 + k] + t[b]
        """,
        "relax.cumsum",
        axis=0,
    ),
    program(
        "variance in two passes, each over two halves",
        "x n,8; out n",
        """
        s = T.alloc_buffer((2,), scope="local")
        m = T.alloc_buffer((1,), scope="local")
        for i in range(n):
            for h in range(2):
                s[h] = T.float32(0)
                for k in range(4):
                    s[h] += x[i, h * 4 + k]
            m[0] = (s[0] + s[1]) / T.float32(8)
            for h in range(2):
                s[h] = T.float32(0)
                for k in range(4):
                    s[h] += (x[i, h * 4 + k] - m[0]) * (x[i, h * 4 + k] - m[0])
            out[i] = (s[0] + s[1]) / T.float32(8)
        """,
        "relax.variance",
        axis=[1],
    ),
]
