"""Norms, gates and rotary embeddings of rows, in one pass or in another order."""

from __future__ import annotations

from .programs import program

_LN = "x n,8; g 8; b 8; out n,8"

CASES = [
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
        "x n,2,8; c n,1,8; s n,1,8; out n,2,8",
        """
        re = T.alloc_buffer((1,), scope="local")
        im = T.alloc_buffer((1,), scope="local")
        for i, h, d in T.grid(n, 2, 4):
            re[0] = x[i, h, 2 * d]
            im[0] = x[i, h, 2 * d + 1]
            out[i, h, 2 * d] = re[0] * c[i, 0, 2 * d] - im[0] * s[i, 0, 2 * d]
            out[i, h, 2 * d + 1] = re[0] * s[i, 0, 2 * d + 1] + im[0] * c[i, 0, 2 * d + 1]
        """,
        "relax.nn.apply_rotary_embedding",
        rotary_dim=8,
        style="gptj",
    ),
]
