"""Data movement: gathers, scatters, borders, resizing, and places that are computed."""

from __future__ import annotations

from ..unseen3.programs import program

CASES = [
    program(
        "rows by index through flat views",
        "t 9,4; k int32 5; out 5,4",
        """
        ft = T.decl_buffer((36,), data=t.data)
        fo = T.decl_buffer((20,), data=out.data)
        for f in range(20):
            fo[f] = ft[k[f // 4] * 4 + f % 4]
        """,
        "relax.take",
        axis=0,
        mode="fast",
    ),
    program(
        "elements by index, a flat loop",
        "x 4,6; k int32 4,3; out 4,3",
        """
        for f in range(12):
            out[f // 3, f % 3] = x[f // 3, k[f // 3, f % 3]]
        """,
        "relax.gather_elements",
        axis=1,
    ),
    program(
        "a copy, then updates added at their places",
        "x 6,4; k int32 3,4; u 3,4; out 6,4",
        """
        for i, j in T.grid(6, 4):
            out[i, j] = x[i, j]
        for i, j in T.grid(3, 4):
            out[k[i, j], j] = out[k[i, j], j] + u[i, j]
        """,
        "relax.scatter_elements",
        axis=0,
        reduction="add",
    ),
    program(
        "one hot: zeros, then a one at each place",
        "k int32 5; out 5,7",
        """
        for i, j in T.grid(5, 7):
            out[i, j] = T.float32(0)
        for i in range(5):
            out[i, k[i]] = T.float32(1)
        """,
        "relax.one_hot",
        depth=7,
        axis=1,
        on_value=1.0,
        off_value=0.0,
    ),
    program(
        "rows by index, a sum over a comparison",
        "t 6,4; k int32 5; out 5,4",
        """
        for i, j in T.grid(5, 4):
            out[i, j] = T.float32(0)
            for r in range(6):
                if k[i] == r:
                    out[i, j] = t[r, j]
        """,
        "relax.take",
        axis=0,
        mode="fast",
    ),
    program(
        "reflected borders by absolute values",
        "x 3,7; out 3,11",
        """
        for i, j in T.grid(3, 11):
            out[i, j] = x[i, 6 - T.abs(6 - T.abs(j - 2))]
        """,
        "relax.nn.pad",
        pad_width=[0, 0, 2, 2],
        pad_mode="reflect",
    ),
    program(
        "symmetric borders by three loops: no mode of the operator",
        "x 3,7; out 3,10",
        """
        for i in range(3):
            for j in range(2):
                out[i, 1 - j] = x[i, j]
            for j in range(7):
                out[i, j + 2] = x[i, j]
            out[i, 9] = x[i, 6]
        """,
    ),
    program(
        "circular borders, three guarded stores",
        "x n,6; out n,9",
        """
        for i, j in T.grid(n, 9):
            if j < 2:
                out[i, j] = x[i, j + 4]
            if 2 <= j and j < 8:
                out[i, j] = x[i, j - 2]
            if j >= 8:
                out[i, j] = x[i, j - 8]
        """,
        "relax.nn.pad",
        pad_width=[0, 0, 2, 1],
        pad_mode="circular",
    ),
    program(
        "edges repeated by two ifs on the index",
        "x 1,2,5,5; out 1,2,7,7",
        """
        r = T.alloc_buffer((1,), "int32", scope="local")
        q = T.alloc_buffer((1,), "int32", scope="local")
        for c, i, j in T.grid(2, 7, 7):
            r[0] = i - 1
            q[0] = j - 1
            if r[0] < 0:
                r[0] = 0
            if r[0] > 4:
                r[0] = 4
            if q[0] < 0:
                q[0] = 0
            if q[0] > 4:
                q[0] = 4
            out[0, c, i, j] = x[0, c, r[0], q[0]]
        """,
        "relax.nn.pad",
        pad_width=[0, 0, 0, 0, 1, 1, 1, 1],
        pad_mode="replicate",
    ),
    program(
        "bilinear upsampling by two, weights of three quarters and a quarter",
        "x 1,2,4,5; out 1,2,8,10",
        """
        t = T.alloc_buffer((1, 2, 8, 5))
        for c, i, j in T.grid(2, 4, 5):
            t[0, c, i * 2, j] = (x[0, c, i, j] * T.float32(0.75)
                + x[0, c, T.max(i - 1, 0), j] * T.float32(0.25))
            t[0, c, i * 2 + 1, j] = (x[0, c, i, j] * T.float32(0.75)
                + x[0, c, T.min(i + 1, 3), j] * T.float32(0.25))
        for c, i, j in T.grid(2, 8, 5):
            out[0, c, i, j * 2] = (t[0, c, i, j] * T.float32(0.75)
                + t[0, c, i, T.max(j - 1, 0)] * T.float32(0.25))
            out[0, c, i, j * 2 + 1] = (t[0, c, i, j] * T.float32(0.75)
                + t[0, c, i, T.min(j + 1, 4)] * T.float32(0.25))
        """,
        "relax.image.resize2d",
        size=[8, 10],
        method="linear",
        coordinate_transformation_mode="half_pixel",
    ),
    program(
        "nearest neighbour with a ratio of floats",
        "x 1,2,4,5; out 1,2,8,10",
        """
        for f in range(160):
            out[0, f // 80, f // 10 % 8, f % 10] = x[0, f // 80,
                T.min(T.Cast("int32", T.floor(T.Cast("float32", f // 10 % 8) * T.float32(0.5))), 3),
                T.min(T.Cast("int32", T.floor(T.Cast("float32", f % 10) * T.float32(0.5))), 4)]
        """,
        "relax.image.resize2d",
        size=[8, 10],
        method="nearest_neighbor",
        coordinate_transformation_mode="asymmetric",
        rounding_method="floor",
    ),
    program(
        "every second column from the last, counted down in a while loop",
        "x 3,8; out 3,4",
        """
        p = T.alloc_buffer((1,), "int32", scope="local")
        q = T.alloc_buffer((1,), "int32", scope="local")
        for i in range(3):
            p[0] = 7
            q[0] = 0
            while p[0] >= 0:
                out[i, q[0]] = x[i, p[0]]
                p[0] = p[0] - 2
                q[0] = q[0] + 1
        """,
        "relax.strided_slice",
        axes=[1],
        begin=[7],
        end=[-9],
        strides=[-2],
    ),
    program(
        "three parts of a row in one loop",
        "x n,9; a n,2; b n,3; c n,4",
        """
        for i, j in T.grid(n, 9):
            if j < 2:
                a[i, j] = x[i, j]
            else:
                if j < 5:
                    b[i, j - 2] = x[i, j]
                else:
                    c[i, j - 5] = x[i, j]
        """,
        "relax.split",
        indices_or_sections=[2, 5],
        axis=1,
    ),
    program(
        "each element three times, stored next to each other",
        "x n,4; out n,12",
        """
        for i, j in T.grid(n, 4):
            out[i, j * 3] = x[i, j]
            out[i, j * 3 + 1] = x[i, j]
            out[i, j * 3 + 2] = x[i, j]
        """,
        "relax.repeat",
        repeats=3,
        axis=1,
    ),
]
