"""Softmax and its relatives: two passes, online, fused, log-sum-exp."""

from __future__ import annotations

from tvm import topi

from .case import Foreign, script, tensors

nn = topi.nn
_LOW = "T.float32(-3.4028234663852886e+38)"
_XO = "x 4,6; out 4,6"

CASES = [
    Foreign(
        "a row at a time, scalars for maximum and sum",
        script(
            _XO,
            f"""
            m = T.alloc_buffer((1,), scope="local")
            s = T.alloc_buffer((1,), scope="local")
            for i in range(4):
                m[0] = {_LOW}
                for k in range(6):
                    m[0] = T.max(m[0], x[i, k])
                s[0] = T.float32(0)
                for k in range(6):
                    s[0] = s[0] + T.exp(x[i, k] - m[0])
                for k in range(6):
                    out[i, k] = T.exp(x[i, k] - m[0]) / s[0]
            """,
        ),
        "relax.nn.softmax",
        {"axis": 1},
    ),
    Foreign(
        "exponentials kept in the output",
        script(
            _XO,
            f"""
            m = T.alloc_buffer((4,))
            s = T.alloc_buffer((4,))
            for i in range(4):
                m[i] = {_LOW}
                s[i] = T.float32(0)
            for i, k in T.grid(4, 6):
                m[i] = T.max(m[i], x[i, k])
            for i, k in T.grid(4, 6):
                out[i, k] = T.exp(x[i, k] - m[i])
            for i, k in T.grid(4, 6):
                s[i] = s[i] + out[i, k]
            for i, k in T.grid(4, 6):
                out[i, k] = out[i, k] / s[i]
            """,
        ),
        "relax.nn.softmax",
        {"axis": 1},
    ),
    Foreign(
        "multiplied with the reciprocal of the sum",
        script(
            _XO,
            f"""
            m = T.alloc_buffer((4,))
            s = T.alloc_buffer((4,))
            for i in range(4):
                m[i] = {_LOW}
                for k in range(6):
                    m[i] = T.max(m[i], x[i, k])
                s[i] = T.float32(0)
                for k in range(6):
                    s[i] += T.exp(x[i, k] - m[i])
                s[i] = T.float32(1) / s[i]
                for k in range(6):
                    out[i, k] = T.exp(x[i, k] - m[i]) * s[i]
            """,
        ),
        "relax.nn.softmax",
        {"axis": 1},
    ),
    Foreign(
        "over the first of three axes",
        script(
            "x 5,2,3; out 5,2,3",
            f"""
            m = T.alloc_buffer((2, 3))
            s = T.alloc_buffer((2, 3))
            for i, j in T.grid(2, 3):
                m[i, j] = {_LOW}
                s[i, j] = T.float32(0)
            for k, i, j in T.grid(5, 2, 3):
                m[i, j] = T.max(x[k, i, j], m[i, j])
            for k, i, j in T.grid(5, 2, 3):
                s[i, j] += T.exp(x[k, i, j] - m[i, j])
            for k, i, j in T.grid(5, 2, 3):
                out[k, i, j] = T.exp(x[k, i, j] - m[i, j]) / s[i, j]
            """,
        ),
        "relax.nn.softmax",
        {"axis": 0},
    ),
    Foreign(
        "maximum by comparison",
        script(
            _XO,
            f"""
            m = T.alloc_buffer((4,))
            s = T.alloc_buffer((4,))
            for i in range(4):
                m[i] = {_LOW}
                s[i] = T.float32(0)
            for i, k in T.grid(4, 6):
                if m[i] < x[i, k]:
                    m[i] = x[i, k]
            for i, k in T.grid(4, 6):
                s[i] += T.exp(x[i, k] - m[i])
            for i, k in T.grid(4, 6):
                out[i, k] = T.exp(x[i, k] - m[i]) / s[i]
            """,
        ),
        "relax.nn.softmax",
        {"axis": 1},
    ),
    Foreign(
        "logarithm, two passes",
        script(
            _XO,
            f"""
            m = T.alloc_buffer((4,))
            s = T.alloc_buffer((4,))
            for i in range(4):
                m[i] = {_LOW}
                for k in range(6):
                    m[i] = T.max(m[i], x[i, k])
                s[i] = T.float32(0)
                for k in range(6):
                    s[i] += T.exp(x[i, k] - m[i])
                for k in range(6):
                    out[i, k] = x[i, k] - m[i] - T.log(s[i])
            """,
        ),
        "relax.nn.log_softmax",
        {"axis": 1},
    ),
    Foreign(
        "logarithm, maximum and log-sum subtracted at once",
        script(
            _XO,
            f"""
            m = T.alloc_buffer((4,))
            s = T.alloc_buffer((4,))
            for i in range(4):
                m[i] = {_LOW}
                for k in range(6):
                    m[i] = T.max(m[i], x[i, k])
                s[i] = T.float32(0)
                for k in range(6):
                    s[i] += T.exp(x[i, k] - m[i])
                for k in range(6):
                    out[i, k] = x[i, k] - (m[i] + T.log(s[i]))
            """,
        ),
        "relax.nn.log_softmax",
        {"axis": 1},
    ),
    Foreign(
        "online: maximum and sum in one pass",
        script(
            _XO,
            f"""
            m = T.alloc_buffer((4,))
            n = T.alloc_buffer((4,))
            s = T.alloc_buffer((4,))
            for i in range(4):
                m[i] = {_LOW}
                s[i] = T.float32(0)
                for k in range(6):
                    n[i] = T.max(m[i], x[i, k])
                    s[i] = s[i] * T.exp(m[i] - n[i]) + T.exp(x[i, k] - n[i])
                    m[i] = n[i]
                for k in range(6):
                    out[i, k] = T.exp(x[i, k] - m[i]) / s[i]
            """,
        ),
        "relax.nn.softmax",
        {"axis": 1},
    ),
    Foreign(
        "no maximum subtracted: overflows where softmax does not",
        script(
            _XO,
            """
            s = T.alloc_buffer((4,))
            for i in range(4):
                s[i] = T.float32(0)
                for k in range(6):
                    s[i] += T.exp(x[i, k])
                for k in range(6):
                    out[i, k] = T.exp(x[i, k]) / s[i]
            """,
        ),
    ),
    Foreign(
        "powers of two",
        script(
            _XO,
            f"""
            m = T.alloc_buffer((4,))
            s = T.alloc_buffer((4,))
            for i in range(4):
                m[i] = {_LOW}
                for k in range(6):
                    m[i] = T.max(m[i], x[i, k])
                s[i] = T.float32(0)
                for k in range(6):
                    s[i] += T.exp2(x[i, k] - m[i])
                for k in range(6):
                    out[i, k] = T.exp2(x[i, k] - m[i]) / s[i]
            """,
        ),
    ),
    Foreign(
        "log-sum-exp alone: no operator",
        script(
            "x 4,6; out 4",
            f"""
            m = T.alloc_buffer((4,))
            s = T.alloc_buffer((4,))
            for i in range(4):
                m[i] = {_LOW}
                for k in range(6):
                    m[i] = T.max(m[i], x[i, k])
                s[i] = T.float32(0)
                for k in range(6):
                    s[i] += T.exp(x[i, k] - m[i])
                out[i] = m[i] + T.log(s[i])
            """,
        ),
    ),
    Foreign(
        "topi softmax",
        tensors(lambda x: nn.softmax(x, 1), "2,5,3"),
        "relax.nn.softmax",
        {"axis": 1},
    ),
    Foreign(
        "topi log_softmax",
        tensors(lambda x: nn.log_softmax(x, -1), "4,5"),
        "relax.nn.log_softmax",
        {"axis": 1},
    ),
    Foreign(
        "fast_softmax: a polynomial in place of the exponential",
        tensors(lambda x: nn.fast_softmax(x, -1), "4,5"),
    ),
]
