"""Loops as polyhedral tools and C programmers write them: skewed, strip-mined, counted pointers."""

from __future__ import annotations

from ..unseen3.programs import program

CASES = [
    program(
        "product: skewed by i + k, bounds by minimum and maximum",
        "a 6,4; b 4,5; c 6,5",
        """
        for i, j in T.grid(6, 5):
            c[i, j] = T.float32(0)
        for t in range(9):
            for i in range(T.max(0, t - 3), T.min(6, t + 1)):
                for j in range(5):
                    c[i, j] = c[i, j] + a[i, t - i] * b[t - i, j]
        """,
        "relax.matmul",
    ),
    program(
        "product: k strip-mined, the last strip cut by a minimum",
        "a 6,10; b 10,5; c 6,5",
        """
        for i, j in T.grid(6, 5):
            c[i, j] = T.float32(0)
            for ko in range(3):
                for k in range(ko * 4, T.min(10, ko * 4 + 4)):
                    c[i, j] += a[i, k] * b[k, j]
        """,
        "relax.matmul",
    ),
    program(
        "product through flat views",
        "a 6,4; b 4,5; c 6,5",
        """
        fa = T.decl_buffer((24,), data=a.data)
        fb = T.decl_buffer((20,), data=b.data)
        fc = T.decl_buffer((30,), data=c.data)
        for i in range(6):
            for j in range(5):
                fc[i * 5 + j] = T.float32(0)
            for k in range(4):
                for j in range(5):
                    fc[i * 5 + j] += fa[i * 4 + k] * fb[k * 5 + j]
        """,
        "relax.matmul",
    ),
    program(
        "product through flat views, pointers that are counted up",
        "a 6,4; b 4,5; c 6,5",
        """
        fa = T.decl_buffer((24,), data=a.data)
        fb = T.decl_buffer((20,), data=b.data)
        fc = T.decl_buffer((30,), data=c.data)
        pa = T.alloc_buffer((1,), "int32", scope="local")
        pb = T.alloc_buffer((1,), "int32", scope="local")
        s = T.alloc_buffer((1,), scope="local")
        for i in range(6):
            for j in range(5):
                pa[0] = i * 4
                pb[0] = j
                s[0] = T.float32(0)
                for k in range(4):
                    s[0] += fa[pa[0]] * fb[pb[0]]
                    pa[0] = pa[0] + 1
                    pb[0] = pb[0] + 5
                fc[i * 5 + j] = s[0]
        """,
        "relax.matmul",
    ),
    program(
        "reshape by one counted place in the result",
        "x 6,4; out 24",
        """
        p = T.alloc_buffer((1,), "int32", scope="local")
        p[0] = 0
        for i in range(6):
            for j in range(4):
                out[p[0]] = x[i, j]
                p[0] = p[0] + 1
        """,
        "relax.reshape",
        shape=[24],
        also={"relax.flatten": {}},
    ),
    program(
        "channels to the front, source and target in flat views",
        "x 2,3,4,5; out 2,5,3,4",
        """
        fx = T.decl_buffer((120,), data=x.data)
        fo = T.decl_buffer((120,), data=out.data)
        for n, c, p in T.grid(2, 5, 12):
            fo[n * 60 + c * 12 + p] = fx[(n * 12 + p) * 5 + c]
        """,
        "relax.permute_dims",
        axes=[0, 3, 1, 2],
    ),
    program(
        "convolution of one dimension: three registers that are shifted along",
        "x 1,1,10; w 4,1,3; out 1,4,8",
        """
        r = T.alloc_buffer((3,), scope="local")
        for o in range(4):
            r[0] = x[0, 0, 0]
            r[1] = x[0, 0, 1]
            for t in range(8):
                r[2] = x[0, 0, t + 2]
                out[0, o, t] = r[0] * w[o, 0, 0] + r[1] * w[o, 0, 1] + r[2] * w[o, 0, 2]
                r[0] = r[1]
                r[1] = r[2]
        """,
        "relax.nn.conv1d",
    ),
    program(
        "average pool: a running total, the element that leaves subtracted (equal up to rounding)",
        "x 2,3,9; out 2,3,6",
        """
        s = T.alloc_buffer((1,), scope="local")
        for n, c in T.grid(2, 3):
            s[0] = x[n, c, 0] + x[n, c, 1] + x[n, c, 2] + x[n, c, 3]
            out[n, c, 0] = s[0] * T.float32(0.25)
            for t in range(5):
                s[0] = s[0] + x[n, c, t + 4] - x[n, c, t]
                out[n, c, t + 1] = s[0] * T.float32(0.25)
        """,
        "relax.nn.avg_pool1d",
        pool_size=(4,),
        count_include_pad=False,
    ),
    program(
        "running sums in blocks of four, the total of the blocks before added",
        "x 12; out 12",
        """
        e = T.alloc_buffer((1,), scope="local")
        for h in range(3):
            out[h * 4] = x[h * 4]
            for k in range(3):
                out[h * 4 + k + 1] = out[h * 4 + k] + x[h * 4 + k + 1]
        e[0] = T.float32(0)
        for h in range(2):
            e[0] = out[h * 4 + 3]
            for k in range(4):
                out[h * 4 + 4 + k] = out[h * 4 + 4 + k] + e[0]
        """,
        "relax.cumsum",
        axis=0,
    ),
    program(
        "running sums, each a sum of its own",
        "x n,7; out n,7",
        """
        for i, j in T.grid(n, 7):
            out[i, j] = T.float32(0)
            for k in range(j + 1):
                out[i, j] += x[i, k]
        """,
        "relax.cumsum",
        axis=1,
    ),
    program(
        "transpose in place: a copy, then the two halves exchanged",
        "x 6,6; out 6,6",
        """
        v = T.alloc_buffer((1,), scope="local")
        for i, j in T.grid(6, 6):
            out[i, j] = x[i, j]
        for i in range(6):
            for j in range(i):
                v[0] = out[i, j]
                out[i, j] = out[j, i]
                out[j, i] = v[0]
        """,
        "relax.permute_dims",
        axes=[1, 0],
    ),
    program(
        "sum of rows, from the last element to the first, in two chains",
        "x n,8; out n",
        """
        s = T.alloc_buffer((2,), scope="local")
        for i in range(n):
            s[0] = T.float32(0)
            s[1] = T.float32(0)
            for k in range(4):
                s[0] = x[i, 7 - 2 * k] + s[0]
                s[1] = x[i, 6 - 2 * k] + s[1]
            out[i] = s[1] + s[0]
        """,
        "relax.sum",
        axis=[1],
    ),
    program(
        "matrix times vector: four rows at a time, a tail of two",
        "a 10,6; b 6; c 10",
        """
        s = T.alloc_buffer((4,), scope="local")
        for io in range(2):
            for u in range(4):
                s[u] = T.float32(0)
            for k in range(6):
                s[0] = s[0] + a[io * 4, k] * b[k]
                s[1] = s[1] + a[io * 4 + 1, k] * b[k]
                s[2] = s[2] + a[io * 4 + 2, k] * b[k]
                s[3] = s[3] + a[io * 4 + 3, k] * b[k]
            for u in range(4):
                c[io * 4 + u] = s[u]
        for i in range(2):
            c[8 + i] = T.float32(0)
            for k in range(6):
                c[8 + i] += a[8 + i, k] * b[k]
        """,
        "relax.matmul",
    ),
    program(
        "product of three dimensions and two in one flat loop over rows",
        "a 2,3,6; b 6,5; c 2,3,5",
        """
        for r, j in T.grid(6, 5):
            c[r // 3, r % 3, j] = T.float32(0)
            for k in range(6):
                c[r // 3, r % 3, j] += a[r // 3, r % 3, k] * b[k, j]
        """,
        "relax.matmul",
    ),
]
