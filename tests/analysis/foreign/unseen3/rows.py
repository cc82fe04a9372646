"""Softmax, norms, moments and scans of rows, in one pass or in another order."""

from __future__ import annotations

from .programs import LOW, program

_XO = "x 4,8; out 4,8"
_LN = "x n,8; g 8; b 8; out n,8"

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
    program(
        "layer norm of a symbolic number of rows, scalars in registers",
        _LN,
        """
        m = T.alloc_buffer((1,), scope="local")
        v = T.alloc_buffer((1,), scope="local")
        for i in range(n):
            m[0] = T.float32(0)
            v[0] = T.float32(0)
            for k in range(8):
                m[0] = m[0] + x[i, k]
            m[0] = m[0] / T.float32(8)
            for k in range(8):
                v[0] = v[0] + (x[i, k] - m[0]) * (x[i, k] - m[0])
            v[0] = T.float32(1) / T.sqrt(v[0] / T.float32(8) + T.float32(1e-5))
            for k in range(8):
                out[i, k] = (x[i, k] - m[0]) * v[0] * g[k] + b[k]
        """,
        "relax.nn.layer_norm",
        axes=[1],
        epsilon=1e-5,
    ),
    program(
        "layer norm: sum and sum of squares in one loop, a scale and a shift",
        _LN,
        """
        s = T.alloc_buffer((2,), scope="local")
        for i in range(n):
            s[0] = T.float32(0)
            s[1] = T.float32(0)
            for k in range(8):
                s[0] += x[i, k]
                s[1] += x[i, k] * x[i, k]
            s[0] = s[0] * T.float32(0.125)
            s[1] = T.rsqrt(s[1] * T.float32(0.125) - s[0] * s[0] + T.float32(1e-5))
            for k in range(8):
                out[i, k] = x[i, k] * (s[1] * g[k]) + (b[k] - s[0] * (s[1] * g[k]))
        """,
        "relax.nn.layer_norm",
        axes=[1],
        epsilon=1e-5,
        also={
            "relax.nn.group_norm": {"num_groups": 1, "channel_axis": 1, "axes": [], "epsilon": 1e-5}
        },
    ),
    program(
        "RMS norm by a square root",
        "x n,8; w 8; out n,8",
        """
        q = T.alloc_buffer((1,), scope="local")
        for i in range(n):
            q[0] = T.float32(0)
            for k in range(8):
                q[0] += x[i, k] * x[i, k]
            q[0] = T.sqrt(q[0] * T.float32(0.125) + T.float32(1e-6))
            for k in range(8):
                out[i, k] = x[i, k] / q[0] * w[k]
        """,
        "relax.nn.rms_norm",
        axes=[1],
        epsilon=1e-6,
    ),
    program(
        "RMS norm of a sum, both stored in one loop nest",
        "x n,8; r n,8; w 8; out n,8; t n,8",
        """
        q = T.alloc_buffer((1,), scope="local")
        for i in range(n):
            q[0] = T.float32(0)
            for k in range(8):
                t[i, k] = x[i, k] + r[i, k]
                q[0] += t[i, k] * t[i, k]
            for k in range(8):
                out[i, k] = t[i, k] * T.rsqrt(q[0] * T.float32(0.125) + T.float32(1e-5)) * w[k]
        """,
        "relax.nn.add_rms_norm",
        axes=[1],
        epsilon=1e-5,
    ),
    program(
        "SwiGLU of the two halves of a row, by an exponential",
        "x n,16; out n,8",
        """
        for i, j in T.grid(n, 8):
            out[i, j] = x[i, j] / (T.float32(1) + T.exp(-x[i, j])) * x[i, j + 8]
        """,
        "relax.nn.gated_activation",
        activation="silu",
        axis=1,
        gate=0,
        paired=False,
    ),
    program(
        "instance norm with sums in one pass",
        "x 2,3,4,4; g 3; b 3; out 2,3,4,4",
        """
        s = T.alloc_buffer((1,), scope="local")
        v = T.alloc_buffer((1,), scope="local")
        for n, c in T.grid(2, 3):
            s[0] = T.float32(0)
            for f in range(16):
                s[0] += x[n, c, f // 4, f % 4]
            s[0] = s[0] / T.float32(16)
            v[0] = T.float32(0)
            for f in range(16):
                v[0] += (x[n, c, f // 4, f % 4] - s[0]) * (x[n, c, f // 4, f % 4] - s[0])
            for f in range(16):
                out[n, c, f // 4, f % 4] = (x[n, c, f // 4, f % 4] - s[0]) * T.rsqrt(
                    v[0] / T.float32(16) + T.float32(1e-5)) * g[c] + b[c]
        """,
        "relax.nn.instance_norm",
        channel_axis=1,
        axes=[2, 3],
        epsilon=1e-5,
    ),
    program(
        "product of complex numbers with tables half as wide as the data",
        "x n,2,8; c n,4; s n,4; out n,2,8",
        """
        re = T.alloc_buffer((1,), scope="local")
        im = T.alloc_buffer((1,), scope="local")
        for i, h, d in T.grid(n, 2, 4):
            re[0] = x[i, h, 2 * d]
            im[0] = x[i, h, 2 * d + 1]
            out[i, h, 2 * d] = re[0] * c[i, d] - im[0] * s[i, d]
            out[i, h, 2 * d + 1] = re[0] * s[i, d] + im[0] * c[i, d]
        """,
    ),
    program(
        "rotary embedding with wide tables, in pairs",
        "x n,2,8; c n,8; s n,8; out n,2,8",
        """
        re = T.alloc_buffer((1,), scope="local")
        im = T.alloc_buffer((1,), scope="local")
        for i, h, d in T.grid(n, 2, 4):
            re[0] = x[i, h, 2 * d]
            im[0] = x[i, h, 2 * d + 1]
            out[i, h, 2 * d] = re[0] * c[i, 2 * d] - im[0] * s[i, 2 * d]
            out[i, h, 2 * d + 1] = re[0] * s[i, 2 * d + 1] + im[0] * c[i, 2 * d + 1]
        """,
        "relax.nn.apply_rotary_embedding",
        rotary_dim=8,
        style="gptj",
    ),
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
