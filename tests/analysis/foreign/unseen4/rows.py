"""Normalisations, attention, and places of the largest, by recurrences and in parts."""

from __future__ import annotations

from ..unseen3.programs import LOW, program

_QKV = "q 1,4,2,8; k 1,6,2,8; v 1,6,2,8; out 1,4,2,8"

CASES = [
    program(
        "layer norm with Welford's recurrence",
        "x n,8; g 8; b 8; out n,8",
        """
        m = T.alloc_buffer((1,), scope="local")
        q = T.alloc_buffer((1,), scope="local")
        d = T.alloc_buffer((1,), scope="local")
        for i in range(n):
            m[0] = T.float32(0)
            q[0] = T.float32(0)
            for k in range(8):
                d[0] = x[i, k] - m[0]
                m[0] = m[0] + d[0] / T.Cast("float32", k + 1)
                q[0] = q[0] + d[0] * (x[i, k] - m[0])
            for k in range(8):
                out[i, k] = (x[i, k] - m[0]) * T.rsqrt(q[0] / T.float32(8) + T.float32(1e-5)
                    ) * g[k] + b[k]
        """,
        "relax.nn.layer_norm",
        axes=[1],
        epsilon=1e-5,
    ),
    program(
        "variance from data shifted by the first element (equal up to rounding)",
        "x 4,8; out 4",
        """
        s = T.alloc_buffer((1,), scope="local")
        q = T.alloc_buffer((1,), scope="local")
        for i in range(4):
            s[0] = T.float32(0)
            q[0] = T.float32(0)
            for k in range(8):
                s[0] += x[i, k] - x[i, 0]
                q[0] += (x[i, k] - x[i, 0]) * (x[i, k] - x[i, 0])
            out[i] = (q[0] - s[0] * s[0] / T.float32(8)) / T.float32(8)
        """,
        "relax.variance",
        axis=[1],
    ),
    program(
        "RMS norm of half precision, computed in float32",
        "x float16 n,8; w float16 8; out float16 n,8",
        """
        q = T.alloc_buffer((1,), scope="local")
        for i in range(n):
            q[0] = T.float32(0)
            for k in range(8):
                q[0] += T.Cast("float32", x[i, k]) * T.Cast("float32", x[i, k])
            q[0] = T.rsqrt(q[0] / T.float32(8) + T.float32(1e-6))
            for k in range(8):
                out[i, k] = T.Cast("float16", T.Cast("float32", x[i, k]) * q[0]
                    * T.Cast("float32", w[k]))
        """,
        "relax.nn.rms_norm",
        axes=[1],
        epsilon=1e-6,
    ),
    program(
        "group norm: a scale and a shift for each channel, flat groups",
        "x 2,4,3,3; g 4; b 4; out 2,4,3,3",
        """
        s = T.alloc_buffer((2,), scope="local")
        a = T.alloc_buffer((2, 4))
        h = T.alloc_buffer((2, 4))
        for n, e in T.grid(2, 2):
            s[0] = T.float32(0)
            s[1] = T.float32(0)
            for f in range(18):
                s[0] += x[n, e * 2 + f // 9, f % 9 // 3, f % 3]
                s[1] += (x[n, e * 2 + f // 9, f % 9 // 3, f % 3]
                    * x[n, e * 2 + f // 9, f % 9 // 3, f % 3])
            s[0] = s[0] / T.float32(18)
            s[1] = T.rsqrt(s[1] / T.float32(18) - s[0] * s[0] + T.float32(1e-5))
            for c in range(2):
                a[n, e * 2 + c] = s[1] * g[e * 2 + c]
                h[n, e * 2 + c] = b[e * 2 + c] - s[0] * a[n, e * 2 + c]
        for n, c, f in T.grid(2, 4, 9):
            out[n, c, f // 3, f % 3] = x[n, c, f // 3, f % 3] * a[n, c] + h[n, c]
        """,
        "relax.nn.group_norm",
        num_groups=2,
        channel_axis=1,
        axes=[2, 3],
        epsilon=1e-5,
    ),
    program(
        "instance norm of pixels last, sums per channel in buffers",
        "x 2,9,3; g 3; b 3; out 2,9,3",
        """
        m = T.alloc_buffer((3,))
        v = T.alloc_buffer((3,))
        for n in range(2):
            for c in range(3):
                m[c] = T.float32(0)
                v[c] = T.float32(0)
            for p in range(9):
                for c in range(3):
                    m[c] += x[n, p, c] / T.float32(9)
            for p in range(9):
                for c in range(3):
                    v[c] += (x[n, p, c] - m[c]) * (x[n, p, c] - m[c]) / T.float32(9)
            for p in range(9):
                for c in range(3):
                    out[n, p, c] = (x[n, p, c] - m[c]) / T.sqrt(v[c] + T.float32(1e-5)
                        ) * g[c] + b[c]
        """,
        "relax.nn.instance_norm",
        channel_axis=2,
        axes=[1],
        epsilon=1e-5,
    ),
    program(
        "softmax of channels by powers of two",
        "x 2,5,4; out 2,5,4",
        """
        m = T.alloc_buffer((1,), scope="local")
        s = T.alloc_buffer((1,), scope="local")
        for n, p in T.grid(2, 4):
            m[0] = x[n, 0, p]
            for c in range(1, 5):
                m[0] = T.max(m[0], x[n, c, p])
            s[0] = T.float32(0)
            for c in range(5):
                out[n, c, p] = T.exp2((x[n, c, p] - m[0]) * T.float32(1.4426950408889634))
                s[0] = s[0] + out[n, c, p]
            for c in range(5):
                out[n, c, p] = out[n, c, p] / s[0]
        """,
        "relax.nn.softmax",
        axis=1,
    ),
    program(
        "logarithm of softmax, the log-sum kept beside the maximum",
        "x n,6; out n,6",
        f"""
        m = T.alloc_buffer((1,), scope="local")
        s = T.alloc_buffer((1,), scope="local")
        for i in range(n):
            m[0] = {LOW}
            for k in range(6):
                m[0] = T.if_then_else(x[i, k] > m[0], x[i, k], m[0])
            s[0] = T.float32(0)
            for k in range(6):
                s[0] += T.exp(x[i, k] - m[0])
            m[0] = m[0] + T.log(s[0])
            for k in range(6):
                out[i, k] = x[i, k] - m[0]
        """,
        "relax.nn.log_softmax",
        axis=1,
    ),
    program(
        "attention of two heads, a row of scores in registers",
        _QKV,
        f"""
        p = T.alloc_buffer((6,), scope="local")
        m = T.alloc_buffer((1,), scope="local")
        d = T.alloc_buffer((1,), scope="local")
        for h, i in T.grid(2, 4):
            m[0] = {LOW}
            for j in range(6):
                p[j] = T.float32(0)
                for e in range(8):
                    p[j] += q[0, i, h, e] * k[0, j, h, e]
                p[j] = p[j] * T.float32(0.35355338)
                m[0] = T.max(m[0], p[j])
            d[0] = T.float32(0)
            for j in range(6):
                p[j] = T.exp(p[j] - m[0])
                d[0] += p[j]
            for e in range(8):
                out[0, i, h, e] = T.float32(0)
                for j in range(6):
                    out[0, i, h, e] += p[j] * v[0, j, h, e]
                out[0, i, h, e] = out[0, i, h, e] / d[0]
        """,
        "relax.nn.attention",
    ),
    program(
        "attention in blocks of two keys, totals rescaled for each block",
        _QKV,
        f"""
        p = T.alloc_buffer((2,), scope="local")
        m = T.alloc_buffer((1,), scope="local")
        o = T.alloc_buffer((1,), scope="local")
        d = T.alloc_buffer((1,), scope="local")
        a = T.alloc_buffer((8,), scope="local")
        for h, i in T.grid(2, 4):
            m[0] = {LOW}
            d[0] = T.float32(0)
            for e in range(8):
                a[e] = T.float32(0)
            for jo in range(3):
                o[0] = m[0]
                for j in range(2):
                    p[j] = T.float32(0)
                    for e in range(8):
                        p[j] += q[0, i, h, e] * k[0, jo * 2 + j, h, e]
                    p[j] = p[j] * T.float32(0.35355338)
                    m[0] = T.max(m[0], p[j])
                d[0] = d[0] * T.exp(o[0] - m[0])
                for e in range(8):
                    a[e] = a[e] * T.exp(o[0] - m[0])
                for j in range(2):
                    p[j] = T.exp(p[j] - m[0])
                    d[0] += p[j]
                    for e in range(8):
                        a[e] += p[j] * v[0, jo * 2 + j, h, e]
            for e in range(8):
                out[0, i, h, e] = a[e] / d[0]
        """,
        "relax.nn.attention",
    ),
    program(
        "causal attention, later keys left out by the loop",
        "q 1,5,1,4; k 1,5,1,4; v 1,5,1,4; out 1,5,1,4",
        f"""
        p = T.alloc_buffer((5,), scope="local")
        m = T.alloc_buffer((1,), scope="local")
        d = T.alloc_buffer((1,), scope="local")
        for i in range(5):
            m[0] = {LOW}
            for j in range(i + 1):
                p[j] = T.float32(0)
                for e in range(4):
                    p[j] += q[0, i, 0, e] * k[0, j, 0, e]
                p[j] = p[j] * T.float32(0.5)
                m[0] = T.max(m[0], p[j])
            d[0] = T.float32(0)
            for j in range(i + 1):
                p[j] = T.exp(p[j] - m[0])
                d[0] += p[j]
            for e in range(4):
                out[0, i, 0, e] = T.float32(0)
                for j in range(i + 1):
                    out[0, i, 0, e] += p[j] / d[0] * v[0, j, 0, e]
        """,
        "relax.nn.attention",
        causal_mask="TopLeft",
    ),
    program(
        "index of the largest in two halves, then of the two",
        "x n,8; out int64 n",
        f"""
        m = T.alloc_buffer((2,), scope="local")
        p = T.alloc_buffer((2,), "int64", scope="local")
        for i in range(n):
            for h in range(2):
                m[h] = {LOW}
                p[h] = T.int64(h) * T.int64(4)
                for k in range(4):
                    if x[i, h * 4 + k] > m[h]:
                        m[h] = x[i, h * 4 + k]
                        p[h] = T.Cast("int64", h * 4 + k)
            out[i] = T.if_then_else(m[1] > m[0], p[1], p[0])
        """.replace("T.int64(h) * T.int64(4)", 'T.Cast("int64", h * 4)'),
        "relax.argmax",
        axis=1,
    ),
    program(
        "mean of the first dimension, each row added as it comes",
        "x 6,n; out n",
        """
        for j in range(n):
            out[j] = x[0, j] * T.float32(0.16666667)
        for i in range(5):
            for j in range(n):
                out[j] = out[j] + x[i + 1, j] * T.float32(0.16666667)
        """,
        "relax.mean",
        axis=[0],
    ),
    program(
        "rotary embedding of two halves, one loop over pairs",
        "x n,2,8; c n,1,8; s n,1,8; out n,2,8",
        """
        for i, h, d in T.grid(n, 2, 4):
            out[i, h, d] = x[i, h, d] * c[i, 0, d] - x[i, h, d + 4] * s[i, 0, d]
            out[i, h, d + 4] = x[i, h, d] * s[i, 0, d + 4] + x[i, h, d + 4] * c[i, 0, d + 4]
        """,
        "relax.nn.apply_rotary_embedding",
        rotary_dim=8,
        style="neox",
    ),
    program(
        "rotary embedding of two halves, tables half as wide: no operator takes them",
        "x n,2,8; c n,4; s n,4; out n,2,8",
        """
        for i, h, d in T.grid(n, 2, 4):
            out[i, h, d] = x[i, h, d] * c[i, d] - x[i, h, d + 4] * s[i, d]
            out[i, h, d + 4] = x[i, h, d + 4] * c[i, d] + x[i, h, d] * s[i, d]
        """,
    ),
]
