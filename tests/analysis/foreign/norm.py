"""Normalisations by hand and of the tensor operator inventory."""

from __future__ import annotations

from tvm import topi

from .case import Foreign, script, tensors

nn = topi.nn
_LN = "x 4,8; g 8; b 8; out 4,8"
_LN_ATTRS = {"axes": [1], "epsilon": 1e-5}

CASES = [
    Foreign(
        "layer_norm, two passes over the row",
        script(
            _LN,
            """
            m = T.alloc_buffer((4,))
            v = T.alloc_buffer((4,))
            for i in range(4):
                m[i] = T.float32(0)
                for k in range(8):
                    m[i] += x[i, k]
                m[i] = m[i] / T.float32(8)
                v[i] = T.float32(0)
                for k in range(8):
                    v[i] += (x[i, k] - m[i]) * (x[i, k] - m[i])
                v[i] = v[i] / T.float32(8)
                for k in range(8):
                    out[i, k] = (x[i, k] - m[i]) * T.rsqrt(v[i] + T.float32(1e-5)) * g[k] + b[k]
            """,
        ),
        "relax.nn.layer_norm",
        _LN_ATTRS,
    ),
    Foreign(
        "layer_norm, E[x²] - E[x]²",
        script(
            _LN,
            """
            s = T.alloc_buffer((4,))
            q = T.alloc_buffer((4,))
            for i in range(4):
                s[i] = T.float32(0)
                q[i] = T.float32(0)
                for k in range(8):
                    s[i] += x[i, k]
                    q[i] += x[i, k] * x[i, k]
                for k in range(8):
                    out[i, k] = (x[i, k] - s[i] / T.float32(8)) * T.rsqrt(
                        q[i] / T.float32(8) - s[i] / T.float32(8) * (s[i] / T.float32(8))
                        + T.float32(1e-5)) * g[k] + b[k]
            """,
        ),
        "relax.nn.layer_norm",
        _LN_ATTRS,
        # TVM lowers group_norm in just these words: one group, no further axes.
        also={
            "relax.nn.group_norm": {"num_groups": 1, "channel_axis": 1, "axes": [], "epsilon": 1e-5}
        },
    ),
    Foreign(
        "layer_norm, divided by a square root",
        script(
            _LN,
            """
            m = T.alloc_buffer((4,))
            v = T.alloc_buffer((4,))
            for i in range(4):
                m[i] = T.float32(0)
                for k in range(8):
                    m[i] += x[i, k]
                v[i] = T.float32(0)
                for k in range(8):
                    v[i] += (x[i, k] - m[i] / T.float32(8)) * (x[i, k] - m[i] / T.float32(8))
                for k in range(8):
                    out[i, k] = (x[i, k] - m[i] / T.float32(8)) / T.sqrt(
                        v[i] / T.float32(8) + T.float32(1e-5)) * g[k] + b[k]
            """,
        ),
        "relax.nn.layer_norm",
        _LN_ATTRS,
    ),
    Foreign(
        "layer_norm, sums multiplied with 1/8",
        script(
            _LN,
            """
            m = T.alloc_buffer((4,))
            v = T.alloc_buffer((4,))
            for i in range(4):
                m[i] = T.float32(0)
                v[i] = T.float32(0)
            for i, k in T.grid(4, 8):
                m[i] += x[i, k] * T.float32(0.125)
            for i, k in T.grid(4, 8):
                v[i] += (x[i, k] - m[i]) * (x[i, k] - m[i]) * T.float32(0.125)
            for i, k in T.grid(4, 8):
                out[i, k] = g[k] * ((x[i, k] - m[i]) * T.rsqrt(v[i] + T.float32(1e-5))) + b[k]
            """,
        ),
        "relax.nn.layer_norm",
        _LN_ATTRS,
    ),
    Foreign(
        "rms_norm by hand",
        script(
            "x 4,8; w 8; out 4,8",
            """
            q = T.alloc_buffer((4,))
            for i in range(4):
                q[i] = T.float32(0)
                for k in range(8):
                    q[i] += x[i, k] * x[i, k]
                for k in range(8):
                    out[i, k] = x[i, k] * w[k] * T.rsqrt(q[i] / T.float32(8) + T.float32(1e-6))
            """,
        ),
        "relax.nn.rms_norm",
        {"axes": [1], "epsilon": 1e-6},
    ),
    Foreign(
        "rms_norm, weight last, divided by the root",
        script(
            "x 4,8; w 8; out 4,8",
            """
            q = T.alloc_buffer((4,))
            for i in range(4):
                q[i] = T.float32(0)
                for k in range(8):
                    q[i] += x[i, k] * x[i, k]
                for k in range(8):
                    out[i, k] = x[i, k] / T.sqrt(q[i] / T.float32(8) + T.float32(1e-6)) * w[k]
            """,
        ),
        "relax.nn.rms_norm",
        {"axes": [1], "epsilon": 1e-6},
    ),
    Foreign(
        "batch_norm in inference",
        script(
            "x 2,3,4,4; g 3; b 3; m 3; v 3; out 2,3,4,4",
            """
            for n, c, i, j in T.grid(2, 3, 4, 4):
                out[n, c, i, j] = (x[n, c, i, j] - m[c]) / T.sqrt(
                    v[c] + T.float32(1e-5)) * g[c] + b[c]
            """,
        ),
        # The operator also returns the two moving statistics: this is its first output alone.
        "",
    ),
    Foreign(
        "group_norm by hand",
        script(
            "x 2,6,5; g 6; b 6; out 2,6,5",
            """
            m = T.alloc_buffer((2, 2))
            v = T.alloc_buffer((2, 2))
            for n, h in T.grid(2, 2):
                m[n, h] = T.float32(0)
                for c, i in T.grid(3, 5):
                    m[n, h] += x[n, h * 3 + c, i]
                m[n, h] = m[n, h] / T.float32(15)
                v[n, h] = T.float32(0)
                for c, i in T.grid(3, 5):
                    v[n, h] += (x[n, h * 3 + c, i] - m[n, h]) * (x[n, h * 3 + c, i] - m[n, h])
                v[n, h] = v[n, h] / T.float32(15)
            for n, c, i in T.grid(2, 6, 5):
                out[n, c, i] = (x[n, c, i] - m[n, c // 3]) * T.rsqrt(
                    v[n, c // 3] + T.float32(1e-5)) * g[c] + b[c]
            """,
        ),
        "relax.nn.group_norm",
        {"num_groups": 2, "channel_axis": 1, "axes": [2], "epsilon": 1e-5},
    ),
    Foreign(
        "L2 norm over rows: a root of a sum, no single operator",
        script(
            "x 4,8; out 4",
            """
            for i in range(4):
                out[i] = T.float32(0)
                for k in range(8):
                    out[i] += x[i, k] * x[i, k]
                out[i] = T.sqrt(out[i])
            """,
        ),
    ),
    Foreign(
        "topi layer_norm",
        tensors(lambda x, g, b: nn.layer_norm(x, g, b, (2,), 1e-5), "2,3,8", "8", "8"),
        "relax.nn.layer_norm",
        {"axes": [2], "epsilon": 1e-5},
    ),
    Foreign(
        "topi rms_norm",
        tensors(lambda x, w: nn.rms_norm(x, w, (1,), 1e-5), "4,8", "8"),
        "relax.nn.rms_norm",
        {"axes": [1], "epsilon": 1e-5},
    ),
    Foreign(
        "topi group_norm",
        tensors(lambda x, g, b: nn.group_norm(x, g, b, 2, 1, (2, 3), 1e-5), "2,4,5,5", "4", "4"),
        "relax.nn.group_norm",
        {"num_groups": 2, "channel_axis": 1, "axes": [2, 3], "epsilon": 1e-5},
    ),
    Foreign(
        "topi instance_norm",
        tensors(lambda x, g, b: nn.instance_norm(x, g, b, 1, (2, 3), 1e-5), "2,4,5,5", "4", "4"),
        "relax.nn.instance_norm",
        {"channel_axis": 1, "axes": [2, 3], "epsilon": 1e-5},
    ),
    Foreign(
        "topi lrn: no operator",
        tensors(lambda x: nn.lrn(x, 5, 1, 1e-4, 0.75, 2.0), "1,8,5,5"),
    ),
    Foreign(
        "topi scale_shift: two operators",
        tensors(lambda x, s, b: nn.scale_shift_nchw(x, s, b), "1,4,5,5", "4", "4"),
    ),
]
