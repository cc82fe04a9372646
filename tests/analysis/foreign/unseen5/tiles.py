"""Products and sums in the tiles of tensor compilers: packed, peeled, staged, in lanes."""

from __future__ import annotations

from ..unseen3.programs import program

_MM = "relax.matmul"

CASES = [
    program(
        "product: the second operand packed into panels of four columns",
        "a 6,5; b 5,12; c 6,12",
        """
        p = T.alloc_buffer((3, 5, 4))
        for jo, k, ji in T.grid(3, 5, 4):
            p[jo, k, ji] = b[k, jo * 4 + ji]
        for jo, i in T.grid(3, 6):
            for ji in range(4):
                c[i, jo * 4 + ji] = T.float32(0)
            for k in range(5):
                for ji in range(4):
                    c[i, jo * 4 + ji] = c[i, jo * 4 + ji] + a[i, k] * p[jo, k, ji]
        """,
        _MM,
    ),
    program(
        "product: both operands packed, zeros in the last panels",
        "a 6,5; b 5,10; c 6,10",
        """
        pa = T.alloc_buffer((2, 5, 4))
        pb = T.alloc_buffer((3, 5, 4))
        r = T.alloc_buffer((4, 4))
        for io, k, ii in T.grid(2, 5, 4):
            pa[io, k, ii] = T.float32(0)
            if io * 4 + ii < 6:
                pa[io, k, ii] = a[io * 4 + ii, k]
        for jo, k, ji in T.grid(3, 5, 4):
            pb[jo, k, ji] = T.float32(0)
            if jo * 4 + ji < 10:
                pb[jo, k, ji] = b[k, jo * 4 + ji]
        for io, jo in T.grid(2, 3):
            for ii, ji in T.grid(4, 4):
                r[ii, ji] = T.float32(0)
            for k, ii, ji in T.grid(5, 4, 4):
                r[ii, ji] += pa[io, k, ii] * pb[jo, k, ji]
            for ii in range(T.min(4, 6 - io * 4)):
                for ji in range(T.min(4, 10 - jo * 4)):
                    c[io * 4 + ii, jo * 4 + ji] = r[ii, ji]
        """,
        _MM,
    ),
    program(
        "product: the first k peeled",
        "a n,7; b 7,5; c n,5",
        """
        for i in range(n):
            for j in range(5):
                c[i, j] = a[i, 0] * b[0, j]
            for k in range(6):
                for j in range(5):
                    c[i, j] += a[i, k + 1] * b[k + 1, j]
        """,
        _MM,
    ),
    program(
        "product: two buffers in turn, the next tile loaded before the present is used",
        "a 4,12; b 12,6; c 4,6",
        """
        t = T.alloc_buffer((2, 4, 6), scope="shared")
        for i, j in T.grid(4, 6):
            c[i, j] = T.float32(0)
        for k, j in T.grid(4, 6):
            t[0, k, j] = b[k, j]
        for ko in range(3):
            if ko < 2:
                for k, j in T.grid(4, 6):
                    t[(ko + 1) % 2, k, j] = b[(ko + 1) * 4 + k, j]
            for i, j, k in T.grid(4, 6, 4):
                c[i, j] += a[i, ko * 4 + k] * t[ko % 2, k, j]
        """,
        _MM,
    ),
    program(
        "product: lanes of four columns, as vectors",
        "a 6,5; b 5,8; c 6,8",
        """
        for i, jo in T.grid(6, 2):
            c[i, T.Ramp(jo * 4, 1, 4)] = T.Broadcast(T.float32(0), 4)
            for k in range(5):
                c[i, T.Ramp(jo * 4, 1, 4)] = (c[i, T.Ramp(jo * 4, 1, 4)]
                    + T.Broadcast(a[i, k], 4) * b[k, T.Ramp(jo * 4, 1, 4)])
        """,
        _MM,
    ),
    program(
        "product: tiles of two by two along a Morton curve",
        "a 8,6; b 6,8; c 8,8",
        """
        for p in range(16):
            for i, j in T.grid(2, 2):
                c[(p & 1) * 2 + (p >> 2 & 1) * 4 + i, (p >> 1 & 1) * 2 + (p >> 3 & 1) * 4 + j
                    ] = T.float32(0)
            for k, i, j in T.grid(6, 2, 2):
                c[(p & 1) * 2 + (p >> 2 & 1) * 4 + i, (p >> 1 & 1) * 2 + (p >> 3 & 1) * 4 + j
                    ] += (a[(p & 1) * 2 + (p >> 2 & 1) * 4 + i, k]
                    * b[k, (p >> 1 & 1) * 2 + (p >> 3 & 1) * 4 + j])
        """,
        _MM,
    ),
    program(
        "product: blocks of columns of a symbolic number, the last cut by a minimum",
        "a 6,5; b 5,n; c 6,n",
        """
        for jo in range((n + 7) // 8):
            for i in range(6):
                for ji in range(T.min(8, n - jo * 8)):
                    c[i, jo * 8 + ji] = T.float32(0)
                for k in range(5):
                    for ji in range(T.min(8, n - jo * 8)):
                        c[i, jo * 8 + ji] += a[i, k] * b[k, jo * 8 + ji]
        """,
        _MM,
    ),
    program(
        "matrix times vector: four totals, a tail, then a tree",
        "a n,11; b 11; c n",
        """
        s = T.alloc_buffer((4,), scope="local")
        for i in range(n):
            for u in range(4):
                s[u] = T.float32(0)
            for ko in range(2):
                for u in range(4):
                    s[u] += a[i, ko * 4 + u] * b[ko * 4 + u]
            for k in range(8, 11):
                s[0] += a[i, k] * b[k]
            c[i] = (s[0] + s[1]) + (s[2] + s[3])
        """,
        _MM,
    ),
    program(
        "batched product with the second operand by rows, one loop over batch and rows",
        "q 2,4,8; k 2,5,8; s 2,4,5",
        """
        for f in T.parallel(8):
            for j in range(5):
                s[f // 4, f % 4, j] = T.float32(0)
                for do in range(2):
                    for di in range(4):
                        s[f // 4, f % 4, j] += (q[f // 4, f % 4, do * 4 + di]
                            * k[f // 4, j, do * 4 + di])
        """,
        "relax.einsum",
        subscripts="abc,adc->abd",
        also={"relax.nn.transposed_matmul": {"transposed": [False, True]}},
    ),
    program(
        "product of int8 with zero points subtracted first: no operator takes them",
        "a int8 6,8; b int8 8,5; c int32 6,5",
        """
        for i, j in T.grid(6, 5):
            c[i, j] = 0
            for k in range(8):
                c[i, j] += (T.Cast("int32", a[i, k]) - 3) * T.Cast("int32", b[k, j])
        """,
    ),
    program(
        "product with a bias in the first value of the total: two operators",
        "a n,6; b 6,5; d 5; c n,5",
        """
        for i, j in T.grid(n, 5):
            c[i, j] = d[j]
            for k in range(6):
                c[i, j] += a[i, k] * b[k, j]
        """,
    ),
    program(
        "sum of rows by a tree of eight, written out",
        "x n,8; out n",
        """
        for i in range(n):
            out[i] = (((x[i, 0] + x[i, 1]) + (x[i, 2] + x[i, 3]))
                + ((x[i, 4] + x[i, 5]) + (x[i, 6] + x[i, 7])))
        """,
        "relax.sum",
        axis=[1],
    ),
    program(
        "mean of all pixels: sums of rows in a buffer, then one total",
        "x 2,3,5,4; out 2,3,1,1",
        """
        r = T.alloc_buffer((6, 5))
        for p, i in T.grid(6, 5):
            r[p, i] = T.float32(0)
            for j in range(4):
                r[p, i] += x[p // 3, p % 3, i, j]
        for p in range(6):
            out[p // 3, p % 3, 0, 0] = T.float32(0)
            for i in range(5):
                out[p // 3, p % 3, 0, 0] += r[p, i]
            out[p // 3, p % 3, 0, 0] *= T.float32(0.05)
        """,
        "relax.mean",
        axis=[2, 3],
        keepdims=True,
        also={
            "relax.nn.adaptive_avg_pool2d": {"output_size": (1, 1)},
            "relax.nn.avg_pool2d": {"pool_size": (5, 4)},
        },
    ),
    program(
        "products of rows in two halves, then one by the other",
        "x n,8; out n",
        """
        s = T.alloc_buffer((2,), scope="local")
        for i in range(n):
            for h in range(2):
                s[h] = x[i, h * 4]
                for k in range(1, 4):
                    s[h] = s[h] * x[i, h * 4 + k]
            out[i] = s[0] * s[1]
        """,
        "relax.prod",
        axis=[1],
    ),
]
