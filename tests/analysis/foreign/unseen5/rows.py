"""Softmax and norms, in blocks and lanes."""

from __future__ import annotations

from ..unseen3.programs import LOW, program

CASES = [
    program(
        "softmax of columns, maxima and totals in vectors",
        "x 7,5; out 7,5",
        f"""
        m = T.alloc_buffer((5,))
        s = T.alloc_buffer((5,))
        for j in range(5):
            m[j] = {LOW}
            s[j] = T.float32(0)
        for i, j in T.grid(7, 5):
            m[j] = T.max(m[j], x[i, j])
        for i, j in T.grid(7, 5):
            out[i, j] = T.exp(x[i, j] - m[j])
            s[j] = s[j] + out[i, j]
        for i, j in T.grid(7, 5):
            out[i, j] = out[i, j] / s[j]
        """,
        "relax.nn.softmax",
        axis=0,
    ),
    program(
        "softmax: four lanes of maxima and totals, joined by two steps",
        "x n,8; out n,8",
        f"""
        m = T.alloc_buffer((4,), scope="local")
        s = T.alloc_buffer((4,), scope="local")
        for i in range(n):
            for u in range(4):
                m[u] = {LOW}
                for k in range(2):
                    m[u] = T.max(m[u], x[i, k * 4 + u])
            m[0] = T.max(T.max(m[0], m[2]), T.max(m[1], m[3]))
            for u in range(4):
                s[u] = T.float32(0)
                for k in range(2):
                    s[u] += T.exp(x[i, k * 4 + u] - m[0])
            s[0] = (s[0] + s[2]) + (s[1] + s[3])
            for k in range(8):
                out[i, k] = T.exp(x[i, k] - m[0]) / s[0]
        """,
        "relax.nn.softmax",
        axis=1,
    ),
    program(
        "softmax: online in each half, the halves joined by their maxima",
        "x n,8; out n,8",
        f"""
        m = T.alloc_buffer((2,), scope="local")
        s = T.alloc_buffer((2,), scope="local")
        o = T.alloc_buffer((1,), scope="local")
        g = T.alloc_buffer((1,), scope="local")
        d = T.alloc_buffer((1,), scope="local")
        for i in range(n):
            for h in range(2):
                m[h] = {LOW}
                s[h] = T.float32(0)
                for k in range(4):
                    o[0] = m[h]
                    m[h] = T.max(m[h], x[i, h * 4 + k])
                    s[h] = s[h] * T.exp(o[0] - m[h]) + T.exp(x[i, h * 4 + k] - m[h])
            g[0] = T.max(m[0], m[1])
            d[0] = s[0] * T.exp(m[0] - g[0]) + s[1] * T.exp(m[1] - g[0])
            for k in range(8):
                out[i, k] = T.exp(x[i, k] - g[0]) / d[0]
        """,
        "relax.nn.softmax",
        axis=1,
    ),
    program(
        "logarithm of softmax with the shift kept, rows of a flat view",
        "x 3,4,6; out 3,4,6",
        """
        fx = T.decl_buffer((12, 6), data=x.data)
        fo = T.decl_buffer((12, 6), data=out.data)
        m = T.alloc_buffer((1,), scope="local")
        s = T.alloc_buffer((1,), scope="local")
        for r in range(12):
            m[0] = fx[r, 0]
            for k in range(1, 6):
                m[0] = T.max(m[0], fx[r, k])
            s[0] = T.float32(0)
            for k in range(6):
                fo[r, k] = fx[r, k] - m[0]
                s[0] += T.exp(fo[r, k])
            s[0] = T.log(s[0])
            for k in range(6):
                fo[r, k] = fo[r, k] - s[0]
        """,
        "relax.nn.log_softmax",
        axis=2,
    ),
    program(
        "layer norm: totals of four lanes, the variance from squares (equal up to rounding)",
        "x n,8; g 8; b 8; out n,8",
        """
        s = T.alloc_buffer((4,), scope="local")
        q = T.alloc_buffer((4,), scope="local")
        m = T.alloc_buffer((1,), scope="local")
        r = T.alloc_buffer((1,), scope="local")
        for i in range(n):
            for u in range(4):
                s[u] = x[i, u]
                q[u] = x[i, u] * x[i, u]
            for u in range(4):
                s[u] += x[i, u + 4]
                q[u] += x[i, u + 4] * x[i, u + 4]
            m[0] = (s[0] + s[1] + s[2] + s[3]) * T.float32(0.125)
            r[0] = (q[0] + q[1] + q[2] + q[3]) * T.float32(0.125) - m[0] * m[0]
            r[0] = T.float32(1) / T.sqrt(r[0] + T.float32(1e-5))
            for k in range(8):
                out[i, k] = (x[i, k] - m[0]) * r[0] * g[k] + b[k]
        """,
        "relax.nn.layer_norm",
        axes=[1],
        epsilon=1e-5,
    ),
    program(
        "layer norm of the channels of an image",
        "x 1,6,3,4; g 6; b 6; out 1,6,3,4",
        """
        m = T.alloc_buffer((12,))
        v = T.alloc_buffer((12,))
        for p in range(12):
            m[p] = T.float32(0)
            for c in range(6):
                m[p] += x[0, c, p // 4, p % 4]
            m[p] = m[p] / T.float32(6)
            v[p] = T.float32(0)
            for c in range(6):
                v[p] += (x[0, c, p // 4, p % 4] - m[p]) * (x[0, c, p // 4, p % 4] - m[p])
            v[p] = v[p] / T.float32(6)
        for c, p in T.grid(6, 12):
            out[0, c, p // 4, p % 4] = ((x[0, c, p // 4, p % 4] - m[p])
                / T.sqrt(v[p] + T.float32(1e-6)) * g[c] + b[c])
        """,
        "relax.nn.layer_norm",
        axes=[1],
        epsilon=1e-6,
    ),
    program(
        "group norm in two passes, one flat loop over a group",
        "x 2,6,3,3; g 6; b 6; out 2,6,3,3",
        """
        m = T.alloc_buffer((1,), scope="local")
        v = T.alloc_buffer((1,), scope="local")
        for q in range(6):
            m[0] = T.float32(0)
            for f in range(18):
                m[0] += x[q // 3, q % 3 * 2 + f // 9, f // 3 % 3, f % 3]
            m[0] = m[0] / T.float32(18)
            v[0] = T.float32(0)
            for f in range(18):
                v[0] += ((x[q // 3, q % 3 * 2 + f // 9, f // 3 % 3, f % 3] - m[0])
                    * (x[q // 3, q % 3 * 2 + f // 9, f // 3 % 3, f % 3] - m[0]))
            v[0] = T.rsqrt(v[0] / T.float32(18) + T.float32(1e-5))
            for f in range(18):
                out[q // 3, q % 3 * 2 + f // 9, f // 3 % 3, f % 3] = (
                    (x[q // 3, q % 3 * 2 + f // 9, f // 3 % 3, f % 3] - m[0]) * v[0]
                    * g[q % 3 * 2 + f // 9] + b[q % 3 * 2 + f // 9])
        """,
        "relax.nn.group_norm",
        num_groups=3,
        channel_axis=1,
        axes=[2, 3],
        epsilon=1e-5,
    ),
    program(
        "RMS norm: squares in four lanes, a tail of two",
        "x n,10; w 10; out n,10",
        """
        s = T.alloc_buffer((4,), scope="local")
        r = T.alloc_buffer((1,), scope="local")
        for i in range(n):
            for u in range(4):
                s[u] = T.float32(0)
            for k, u in T.grid(2, 4):
                s[u] += x[i, k * 4 + u] * x[i, k * 4 + u]
            r[0] = s[0] + s[1] + s[2] + s[3]
            for k in range(8, 10):
                r[0] += x[i, k] * x[i, k]
            r[0] = T.float32(1) / T.sqrt(r[0] * T.float32(0.1) + T.float32(1e-6))
            for k in range(10):
                out[i, k] = w[k] * (x[i, k] * r[0])
        """,
        "relax.nn.rms_norm",
        axes=[1],
        epsilon=1e-6,
    ),
]
