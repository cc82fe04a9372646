"""Pools with borders peeled, tables of counts and of running sums."""

from __future__ import annotations

from ..unseen3.programs import LOW, program

CASES = [
    program(
        "maximum pool: four elements at once",
        "x 1,3,8,8; out 1,3,4,4",
        """
        for c, i, j in T.grid(3, 4, 4):
            out[0, c, i, j] = T.max(T.max(x[0, c, i * 2, j * 2], x[0, c, i * 2, j * 2 + 1]),
                T.max(x[0, c, i * 2 + 1, j * 2], x[0, c, i * 2 + 1, j * 2 + 1]))
        """,
        "relax.nn.max_pool2d",
        pool_size=(2, 2),
        strides=(2, 2),
    ),
    program(
        "maximum pool: the top row and the first column peeled",
        "x 1,2,6; out 1,2,3",
        f"""
        for c in range(2):
            out[0, c, 0] = T.max(x[0, c, 0], x[0, c, 1])
            for t in range(2):
                out[0, c, t + 1] = {LOW}
                for k in range(3):
                    out[0, c, t + 1] = T.max(out[0, c, t + 1], x[0, c, t * 2 + k + 1])
        """,
        "relax.nn.max_pool1d",
        pool_size=(3,),
        strides=(2,),
        padding=(1, 1),
    ),
    program(
        "average pool: counts of elements in a table, their reciprocals multiplied",
        "x 1,2,5; out 1,2,5",
        """
        d = T.alloc_buffer((5,))
        for t in range(5):
            d[t] = T.float32(1) / T.Cast("float32", T.min(t + 2, 5) - T.max(t - 1, 0))
        for c, t in T.grid(2, 5):
            out[0, c, t] = T.float32(0)
            for k in range(T.max(t - 1, 0), T.min(t + 2, 5)):
                out[0, c, t] += x[0, c, k]
            out[0, c, t] = out[0, c, t] * d[t]
        """,
        "relax.nn.avg_pool1d",
        pool_size=(3,),
        padding=(1, 1),
        count_include_pad=False,
    ),
    program(
        "average pool: differences of a table of running sums (equal up to rounding)",
        "x 1,3,9; out 1,3,6",
        """
        s = T.alloc_buffer((3, 10))
        for c in range(3):
            s[c, 0] = T.float32(0)
            for t in range(9):
                s[c, t + 1] = s[c, t] + x[0, c, t]
        for c, t in T.grid(3, 6):
            out[0, c, t] = (s[c, t + 4] - s[c, t]) * T.float32(0.25)
        """,
        "relax.nn.avg_pool1d",
        pool_size=(4,),
        count_include_pad=False,
    ),
]
