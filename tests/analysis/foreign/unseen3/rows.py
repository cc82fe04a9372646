"""Softmax, attention and moments of rows, in one pass or in another order."""

from __future__ import annotations

from .programs import LOW, program

_XO = "x 4,8; out 4,8"

CASES = [
    program(
        "softmax online, with scalars in registers",
        _XO,
        f"""
        m = T.alloc_buffer((1,), scope="local")
        d = T.alloc_buffer((1,), scope="local")
        p = T.alloc_buffer((1,), scope="local")
        for i in range(4):
            m[0] = {LOW}
            d[0] = T.float32(0)
            for k in range(8):
                p[0] = m[0]
                m[0] = T.max(m[0], x[i, k])
                d[0] = d[0] * T.exp(p[0] - m[0]) + T.exp(x[i, k] - m[0])
            for k in range(8):
                out[i, k] = T.exp(x[i, k] - m[0]) / d[0]
        """,
        "relax.nn.softmax",
        axis=1,
    ),
    program(
        "softmax in place, multiplied with a reciprocal, rows symbolic",
        "x n,8; out n,8",
        f"""
        m = T.alloc_buffer((1,), scope="local")
        d = T.alloc_buffer((1,), scope="local")
        for i in range(n):
            m[0] = {LOW}
            for k in range(8):
                if x[i, k] > m[0]:
                    m[0] = x[i, k]
            d[0] = T.float32(0)
            for k in range(8):
                out[i, k] = T.exp(x[i, k] - m[0])
                d[0] = d[0] + out[i, k]
            d[0] = T.float32(1) / d[0]
            for k in range(8):
                out[i, k] = out[i, k] * d[0]
        """,
        "relax.nn.softmax",
        axis=1,
    ),
    program(
        "attention of one head in one pass (flash), keys in two blocks",
        "q 1,4,1,8; k 1,6,1,8; v 1,6,1,8; out 1,4,1,8",
        f"""
        m = T.alloc_buffer((1,), scope="local")
        p = T.alloc_buffer((1,), scope="local")
        d = T.alloc_buffer((1,), scope="local")
        s = T.alloc_buffer((1,), scope="local")
        for i in range(4):
            m[0] = {LOW}
            d[0] = T.float32(0)
            for h in range(8):
                out[0, i, 0, h] = T.float32(0)
            for j in range(6):
                s[0] = T.float32(0)
                for h in range(8):
                    s[0] += q[0, i, 0, h] * k[0, j, 0, h]
                s[0] = s[0] * T.float32(0.35355338)
                p[0] = m[0]
                m[0] = T.max(m[0], s[0])
                d[0] = d[0] * T.exp(p[0] - m[0]) + T.exp(s[0] - m[0])
                for h in range(8):
                    out[0, i, 0, h] = out[0, i, 0, h] * T.exp(p[0] - m[0]) + T.exp(
                        s[0] - m[0]) * v[0, j, 0, h]
            for h in range(8):
                out[0, i, 0, h] = out[0, i, 0, h] / d[0]
        """,
        "relax.nn.attention",
    ),
    program(
        "variance by Welford's recurrence",
        "x 4,8; out 4",
        """
        m = T.alloc_buffer((1,), scope="local")
        s = T.alloc_buffer((1,), scope="local")
        d = T.alloc_buffer((1,), scope="local")
        for i in range(4):
            m[0] = T.float32(0)
            s[0] = T.float32(0)
            for k in range(8):
                d[0] = x[i, k] - m[0]
                m[0] = m[0] + d[0] / T.Cast("float32", k + 1)
                s[0] = s[0] + d[0] * (x[i, k] - m[0])
            out[i] = s[0] / T.float32(8)
        """,
        "relax.variance",
        axis=[1],
    ),
    program(
        "mean as a running mean",
        "x 4,8; out 4",
        """
        m = T.alloc_buffer((1,), scope="local")
        for i in range(4):
            m[0] = T.float32(0)
            for k in range(8):
                m[0] = m[0] + (x[i, k] - m[0]) / T.Cast("float32", k + 1)
            out[i] = m[0]
        """,
        "relax.mean",
        axis=[1],
    ),
    program(
        "standard deviation in two passes",
        "x 4,8; out 4",
        """
        m = T.alloc_buffer((1,), scope="local")
        v = T.alloc_buffer((1,), scope="local")
        for i in range(4):
            m[0] = T.float32(0)
            for k in range(8):
                m[0] += x[i, k]
            m[0] = m[0] * T.float32(0.125)
            v[0] = T.float32(0)
            for k in range(8):
                v[0] += (x[i, k] - m[0]) * (x[i, k] - m[0])
            out[i] = T.sqrt(v[0] * T.float32(0.125))
        """,
        "relax.std",
        axis=[1],
    ),
]
