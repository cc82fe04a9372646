"""Reductions by hand and of the tensor operator inventory."""

from __future__ import annotations

from tvm import topi

from .case import Foreign, script, tensors

_LOW = "T.float32(-3.4028234663852886e+38)"

CASES = [
    Foreign(
        "sum of everything through one loop",
        script(
            "x 4,6; out ()",
            """
            out[()] = T.float32(0)
            for f in range(24):
                out[()] = out[()] + x[f // 6, f % 6]
            """,
        ),
        "relax.sum",
    ),
    Foreign(
        "sum of the middle axis, reduction outermost",
        script(
            "x 4,6,5; out 4,5",
            """
            for i, j in T.grid(4, 5):
                out[i, j] = T.float32(0)
            for k, i, j in T.grid(6, 4, 5):
                out[i, j] += x[i, k, j]
            """,
        ),
        "relax.sum",
        {"axis": [1]},
    ),
    Foreign(
        "sum started with the first element",
        script(
            "x 4,6; out 4",
            """
            for i in range(4):
                out[i] = x[i, 0]
                for k in range(5):
                    out[i] = out[i] + x[i, k + 1]
            """,
        ),
        "relax.sum",
        {"axis": [1]},
    ),
    Foreign(
        "sum of partial sums",
        script(
            "x 4,16; out 4",
            """
            p = T.alloc_buffer((4, 4))
            for i, l in T.grid(4, 4):
                p[i, l] = T.float32(0)
                for k in range(4):
                    p[i, l] += x[i, k * 4 + l]
            for i in range(4):
                out[i] = T.float32(0)
                for l in range(4):
                    out[i] += p[i, l]
            """,
        ),
        "relax.sum",
        {"axis": [1]},
    ),
    Foreign(
        "sum as a tree",
        script(
            "x 3,4; out 3",
            """
            for i in range(3):
                out[i] = (x[i, 0] + x[i, 1]) + (x[i, 2] + x[i, 3])
            """,
        ),
        "relax.sum",
        {"axis": [1]},
    ),
    Foreign(
        "backwards",
        script(
            "x 4,6; out 4,1",
            """
            for i in range(4):
                out[i, 0] = T.float32(0)
                for k in range(6):
                    out[i, 0] += x[i, 5 - k]
            """,
        ),
        "relax.sum",
        {"axis": [1], "keepdims": True},
    ),
    Foreign(
        "mean, each element scaled",
        script(
            "x 4,8; out 4",
            """
            for i in range(4):
                out[i] = T.float32(0)
                for k in range(8):
                    out[i] += x[i, k] * T.float32(0.125)
            """,
        ),
        "relax.mean",
        {"axis": [1]},
    ),
    Foreign(
        "mean of means",
        script(
            "x 3,4,8; out 3",
            """
            p = T.alloc_buffer((3, 4))
            for i, j in T.grid(3, 4):
                p[i, j] = T.float32(0)
                for k in range(8):
                    p[i, j] += x[i, j, k]
                p[i, j] = p[i, j] / T.float32(8)
            for i in range(3):
                out[i] = T.float32(0)
                for j in range(4):
                    out[i] += p[i, j]
                out[i] = out[i] / T.float32(4)
            """,
        ),
        "relax.mean",
        {"axis": [1, 2]},
    ),
    Foreign(
        "variance, E[x²] - E[x]²",
        script(
            "x 4,8; out 4",
            """
            s = T.alloc_buffer((4,))
            q = T.alloc_buffer((4,))
            for i in range(4):
                s[i] = T.float32(0)
                q[i] = T.float32(0)
                for k in range(8):
                    s[i] += x[i, k]
                    q[i] += x[i, k] * x[i, k]
                out[i] = q[i] / T.float32(8) - s[i] / T.float32(8) * (s[i] / T.float32(8))
            """,
        ),
        "relax.variance",
        {"axis": [1]},
    ),
    Foreign(
        "variance, two passes",
        script(
            "x 4,8; out 4",
            """
            m = T.alloc_buffer((4,))
            for i in range(4):
                m[i] = T.float32(0)
                for k in range(8):
                    m[i] += x[i, k]
                m[i] = m[i] / T.float32(8)
                out[i] = T.float32(0)
                for k in range(8):
                    out[i] += (x[i, k] - m[i]) * (x[i, k] - m[i])
                out[i] = out[i] / T.float32(8)
            """,
        ),
        "relax.variance",
        {"axis": [1]},
    ),
    Foreign(
        "maximum by comparison",
        script(
            "x 4,6; out 4",
            f"""
            for i in range(4):
                out[i] = {_LOW}
                for k in range(6):
                    if x[i, k] > out[i]:
                        out[i] = x[i, k]
            """,
        ),
        "relax.max",
        {"axis": [1]},
    ),
    Foreign(
        "minimum by Select, from infinity",
        script(
            "x 4,6; out 4",
            """
            for i in range(4):
                out[i] = T.infinity("float32")
                for k in range(6):
                    out[i] = T.Select(x[i, k] < out[i], x[i, k], out[i])
            """,
        ),
        "relax.min",
        {"axis": [1]},
    ),
    Foreign(
        "product of int32",
        script(
            "x int32 4,6; out int32 6",
            """
            for j in range(6):
                out[j] = 1
                for k in range(4):
                    out[j] = x[k, j] * out[j]
            """,
        ),
        "relax.prod",
        {"axis": [0]},
    ),
    Foreign(
        "largest index by comparison",
        script(
            "x 4,6; out int32 4",
            f"""
            m = T.alloc_buffer((4,))
            for i in range(4):
                m[i] = {_LOW}
                out[i] = -1
                for k in range(6):
                    if x[i, k] > m[i]:
                        m[i] = x[i, k]
                        out[i] = k
            """,
        ),
        "",  # relax.argmax yields int64
    ),
    Foreign(
        "largest index, int64, Select",
        script(
            "x 4,6; out int64 4",
            f"""
            m = T.alloc_buffer((4,))
            for i in range(4):
                m[i] = {_LOW}
                out[i] = T.int64(-1)
                for k in T.serial(T.int64(0), T.int64(6)):
                    out[i] = T.Select(m[i] > x[i, k] or (m[i] == x[i, k] and out[i] < k), out[i], k)
                    m[i] = T.Select(m[i] > x[i, k], m[i], x[i, k])
            """,
        ),
        "relax.argmax",
        {"axis": 1},
    ),
    Foreign(
        "sum of absolute values: two operators",
        script(
            "x 4,6; out 4",
            """
            for i in range(4):
                out[i] = T.float32(0)
                for k in range(6):
                    out[i] += T.fabs(x[i, k])
            """,
        ),
    ),
    Foreign(
        "topi sum, two axes",
        tensors(lambda x: topi.sum(x, (0, 2)), "3,4,5"),
        "relax.sum",
        {"axis": [0, 2]},
    ),
    Foreign("topi max, all", tensors(lambda x: topi.max(x), "3,4"), "relax.max"),
    Foreign(
        "topi min, kept",
        tensors(lambda x: topi.min(x, 1, True), "3,4"),
        "relax.min",
        {"axis": [1], "keepdims": True},
    ),
    Foreign("topi prod", tensors(lambda x: topi.prod(x, 0), "3,4"), "relax.prod", {"axis": [0]}),
    Foreign(
        "topi all: a product of bool",
        tensors(lambda x: topi.all(x, 1), "bool 3,4"),
        "relax.prod",
        {"axis": [1]},
    ),
    Foreign(
        "topi argmax yields int32: no operator",
        tensors(lambda x: topi.argmax(x, 1), "3,4"),
    ),
    Foreign(
        "topi collapse_sum",
        tensors(lambda x: topi.collapse_sum(x, (4, 1)), "3,4,5"),
        "relax.collapse_sum_to",
        {"shape": [4, 1]},
    ),
    Foreign(
        "topi cumsum-like scan by hand",
        script(
            "x 8; out 8",
            """
            out[0] = x[0]
            for i in range(7):
                out[i + 1] = out[i] + x[i + 1]
            """,
        ),
        "relax.cumsum",
        {"axis": 0},
    ),
]
