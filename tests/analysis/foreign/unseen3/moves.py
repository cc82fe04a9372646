"""Data movement by index arithmetic, bits, guards and order of stores."""

from __future__ import annotations

from typing import Any

from .programs import program

_TAKE: dict[str, Any] = {"axis": 0, "mode": "fast"}

CASES = [
    program(
        "reshape by a shift and a mask",
        "x 6,8; out 48",
        "for i in range(48):\n    out[i] = x[i >> 3, i & 7]",
        "relax.reshape",
        shape=[48],
        also={"relax.flatten": {}},
    ),
    program(
        "reshape of rows, by bits of the column",
        "x 6,8; out 6,2,4",
        "for i, j in T.grid(6, 8):\n    out[i, j >> 2, j & 3] = x[i, j]",
        "relax.reshape",
        shape=[6, 2, 4],
    ),
    program(
        "pixel shuffle in one flat loop",
        "x 1,8,3,3; out 1,2,6,6",
        """
            for f in range(72):
                out[0, f // 36, f // 6 % 6, f % 6] = x[
                    0, f // 36 * 4 + f // 6 % 2 * 2 + f % 2, f % 36 // 12, f % 6 // 2]
            """,
        "relax.nn.pixel_shuffle",
        upscale_factor=2,
        also={
            "relax.layout_transform": {
                "index_map": "T.index_map(lambda i0, i1, i2, i3: (i0, i1 // T.int64(4), "
                "i2 * T.int64(2) + "
                "i1 // T.int64(2) % T.int64(2), i3 * T.int64(2) + i1 % T.int64(2)))"
            }
        },
    ),
    program(
        "one hot by a comparison of every column",
        "k int32 5; out 5,7",
        """
            for i, j in T.grid(5, 7):
                if k[i] == j:
                    out[i, j] = T.float32(1)
                else:
                    out[i, j] = T.float32(0)
            """,
        "relax.one_hot",
        depth=7,
        axis=1,
        on_value=1.0,
        off_value=0.0,
    ),
    program(
        "one hot by a cast",
        "k int32 5; out 5,7",
        'for i, j in T.grid(5, 7):\n    out[i, j] = T.Cast("float32", k[i] == j)',
        "relax.one_hot",
        depth=7,
        axis=1,
        on_value=1.0,
        off_value=0.0,
    ),
    program(
        "rows in reverse, counted down",
        "x n,4; out n,4",
        "for i, j in T.grid(n, 4):\n    out[i, j] = x[n - 1 - i, j]",
        "relax.flip",
        axis=0,
    ),
    program(
        "every second column from the first, a loop with a step",
        "x 5,8; out 5,4",
        """
            for i in range(5):
                for j in T.serial(1, 9, step=2):
                    out[i, j // 2] = x[i, j]
            """,
        "relax.strided_slice",
        axes=[1],
        begin=[1],
        end=[8],
        strides=[2],
    ),
    program(
        "copy of a window in loops that begin where it does",
        "x 8,9; out 3,4",
        """
            for i in range(2, 5):
                for j in range(3, 7):
                    out[i - 2, j - 3] = x[i, j]
            """,
        "relax.strided_slice",
        axes=[0, 1],
        begin=[2, 3],
        end=[5, 7],
        strides=[1, 1],
    ),
    program(
        "concatenation by an if",
        "x n,3; y n,4; out n,7",
        """
            for i, j in T.grid(n, 7):
                if j < 3:
                    out[i, j] = x[i, j]
                else:
                    out[i, j] = y[i, j - 3]
            """,
        "relax.concat",
        axis=1,
    ),
    program(
        "concatenation of three, a flat loop with guards",
        "x 2,3; y 4,3; z 1,3; out 7,3",
        """
            for f in range(21):
                if f < 6:
                    out[f // 3, f % 3] = x[f // 3, f % 3]
                if f >= 6 and f < 18:
                    out[f // 3, f % 3] = y[f // 3 - 2, f % 3]
                if 18 <= f:
                    out[f // 3, f % 3] = z[0, f - 18]
            """,
        "relax.concat",
        axis=0,
    ),
    program(
        "a stack, stored at even and odd places",
        "x n,4; y n,4; out n,4,2",
        """
            for i, j in T.grid(n, 4):
                out[i, j, 0] = x[i, j]
                out[i, j, 1] = y[i, j]
            """,
        "relax.stack",
        axis=2,
    ),
    program(
        "zero padding, borders filled one by one",
        "x 1,2,4,4; out 1,2,6,6",
        """
            for c in range(2):
                for j in range(6):
                    out[0, c, 0, j] = T.float32(0)
                    out[0, c, 5, j] = T.float32(0)
                for i in range(4):
                    out[0, c, i + 1, 0] = T.float32(0)
                    out[0, c, i + 1, 5] = T.float32(0)
                    for j in range(4):
                        out[0, c, i + 1, j + 1] = x[0, c, i, j]
            """,
        "relax.nn.pad",
        pad_width=[0, 0, 0, 0, 1, 1, 1, 1],
    ),
    program(
        "padding with the bound tests hoisted",
        "x 4,n; out 6,n",
        """
            for i in range(6):
                if i == 0 or i == 5:
                    for j in range(n):
                        out[i, j] = T.float32(0)
                else:
                    for j in range(n):
                        out[i, j] = x[i - 1, j]
            """,
        "relax.nn.pad",
        pad_width=[1, 1, 0, 0],
    ),
    program(
        "tile by a mask",
        "x 4,3; out 16,3",
        "for i, j in T.grid(16, 3):\n    out[i, j] = x[i & 3, j]",
        "relax.tile",
        repeats=[4, 1],
    ),
    program(
        "repeat by a shift",
        "x n,4; out n,16",
        "for i, j in T.grid(n, 16):\n    out[i, j] = x[i, j >> 2]",
        "relax.repeat",
        repeats=4,
        axis=1,
    ),
    program(
        "upper triangle by loops that begin at the diagonal",
        "x 6,6; out 6,6",
        """
            for i, j in T.grid(6, 6):
                out[i, j] = T.float32(0)
            for i in range(6):
                for j in range(6 - i):
                    out[i, i + j] = x[i, i + j]
            """,
        "relax.triu",
        k=0,
    ),
    program(
        "lower triangle by two loops a row",
        "x 6,6; out 6,6",
        """
            for i in range(6):
                for j in range(i + 1):
                    out[i, j] = x[i, j]
                for j in range(5 - i):
                    out[i, i + 1 + j] = T.float32(0)
            """,
        "relax.tril",
        k=0,
    ),
    program(
        "identity matrix: zeros and a diagonal",
        "out 6,6",
        """
            for i, j in T.grid(6, 6):
                out[i, j] = T.float32(0)
            for i in range(6):
                out[i, i] = T.float32(1)
            """,
        "relax.eye",
        n=6,
        m=6,
        k=0,
        dtype="float32",
    ),
    program(
        "numbers in order, counted in a register",
        "out int32 9",
        """
            v = T.alloc_buffer((1,), "int32", scope="local")
            v[0] = 3
            for i in range(9):
                out[i] = v[0]
                v[0] = v[0] + 2
            """,
        "relax.arange",
        start=3,
        end=21,
        step=2,
        dtype="int32",
    ),
    program(
        "rows by index, a while loop over columns",
        "t 9,4; k int32 3; out 3,4",
        """
            j = T.alloc_buffer((1,), "int32", scope="local")
            for i in range(3):
                j[0] = 0
                while j[0] < 4:
                    out[i, j[0]] = t[k[i], j[0]]
                    j[0] = j[0] + 1
            """,
        "relax.take",
        **_TAKE,
    ),
    program(
        "rows by index, chosen by comparison",
        "t 3,4; k int32 5; out 5,4",
        """
            for i, j in T.grid(5, 4):
                out[i, j] = T.Select(k[i] == 0, t[0, j], T.Select(k[i] == 1, t[1, j], t[2, j]))
            """,
        "relax.take",
        **_TAKE,
    ),
    program(
        "transpose through a flat swizzled buffer",
        "x 8,8; out 8,8",
        """
            s = T.alloc_buffer((64,))
            for i, j in T.grid(8, 8):
                s[i * 8 + (j ^ i)] = x[i, j]
            for i, j in T.grid(8, 8):
                out[i, j] = s[j * 8 + (i ^ j)]
            """,
        "relax.permute_dims",
        axes=[1, 0],
    ),
    program(
        "transpose in blocks of 4 x 4, symbolic blocks",
        "x m,8; out 8,m",
        """
            for jo, i, ji in T.grid(2, m, 4):
                out[jo * 4 + ji, i] = x[i, jo * 4 + ji]
            """,
        "relax.permute_dims",
        axes=[1, 0],
    ),
    program(
        "where, by two guarded stores",
        "c bool 4,6; x 4,6; y 4,6; out 4,6",
        """
            for i, j in T.grid(4, 6):
                if c[i, j]:
                    out[i, j] = x[i, j]
                if not c[i, j]:
                    out[i, j] = y[i, j]
            """,
        "relax.where",
    ),
    program(
        "broadcast of a column, by blocks",
        "x 6,1; out 6,8",
        "for i, jo, ji in T.grid(6, 2, 4):\n    out[i, jo * 4 + ji] = x[i, 0]",
        "relax.broadcast_to",
        shape=[6, 8],
        also={"relax.tile": {"repeats": [1, 8]}, "relax.repeat": {"repeats": 8, "axis": 1}},
    ),
    program(
        "a full tensor in words of bits",
        "out int32 4,6",
        "for f in range(24):\n    out[f // 6, f % 6] = 5 ^ 2",
        "relax.full",
        shape=[4, 6],
        fill_value=7,
        dtype="int32",
    ),
]
