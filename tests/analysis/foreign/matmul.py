"""Matrix products by hand and of the tensor operator inventory."""

from __future__ import annotations

from tvm import topi

from .case import Foreign, script, tensors

nn = topi.nn
_AB = "a 8,6; b 6,10; c 8,10"

CASES = [
    Foreign(
        "three loops, init outside",
        script(
            _AB,
            """
            for i, j in T.grid(8, 10):
                c[i, j] = T.float32(0)
            for k, i, j in T.grid(6, 8, 10):
                c[i, j] = c[i, j] + a[i, k] * b[k, j]
            """,
        ),
        "relax.matmul",
    ),
    Foreign(
        "tiled with tails",
        script(
            _AB,
            """
            for io, jo, ii, ji in T.grid(2, 3, 5, 4):
                if io * 5 + ii < 8 and jo * 4 + ji < 10:
                    c[io * 5 + ii, jo * 4 + ji] = T.float32(0)
                    for ko, ki in T.grid(2, 4):
                        if ko * 4 + ki < 6:
                            c[io * 5 + ii, jo * 4 + ji] += (
                                a[io * 5 + ii, ko * 4 + ki] * b[ko * 4 + ki, jo * 4 + ji])
            """,
        ),
        "relax.matmul",
    ),
    Foreign(
        "B packed into panels first",
        script(
            "a 8,6; b 6,12; c 8,12",
            """
            p = T.alloc_buffer((3, 6, 4))
            for jo, k, ji in T.grid(3, 6, 4):
                p[jo, k, ji] = b[k, jo * 4 + ji]
            for i, jo, ji in T.grid(8, 3, 4):
                c[i, jo * 4 + ji] = T.float32(0)
                for k in range(6):
                    c[i, jo * 4 + ji] += a[i, k] * p[jo, k, ji]
            """,
        ),
        "relax.matmul",
    ),
    Foreign(
        "B packed into panels with a padded tail",
        script(
            _AB,
            """
            p = T.alloc_buffer((3, 6, 4))
            for jo, k, ji in T.grid(3, 6, 4):
                p[jo, k, ji] = T.if_then_else(jo * 4 + ji < 10, b[k, jo * 4 + ji], T.float32(0))
            for i, j in T.grid(8, 10):
                c[i, j] = T.float32(0)
                for k in range(6):
                    c[i, j] += a[i, k] * p[j // 4, k, j % 4]
            """,
        ),
        "relax.matmul",
    ),
    Foreign(
        "a tile of the result in registers",
        script(
            "a 8,6; b 6,12; c 8,12",
            """
            t = T.alloc_buffer((4, 4), scope="local")
            for io, jo in T.grid(2, 3):
                for ii, ji in T.grid(4, 4):
                    t[ii, ji] = T.float32(0)
                for k, ii, ji in T.grid(6, 4, 4):
                    t[ii, ji] += a[io * 4 + ii, k] * b[k, jo * 4 + ji]
                for ii, ji in T.grid(4, 4):
                    c[io * 4 + ii, jo * 4 + ji] = t[ii, ji]
            """,
        ),
        "relax.matmul",
    ),
    Foreign(
        "sums over halves of k added",
        script(
            _AB,
            """
            h = T.alloc_buffer((2, 8, 10))
            for s, i, j in T.grid(2, 8, 10):
                h[s, i, j] = T.float32(0)
                for k in range(3):
                    h[s, i, j] += a[i, s * 3 + k] * b[s * 3 + k, j]
            for i, j in T.grid(8, 10):
                c[i, j] = h[0, i, j] + h[1, i, j]
            """,
        ),
        "relax.matmul",
    ),
    Foreign(
        "inner loop unrolled by two",
        script(
            _AB,
            """
            for i, j in T.grid(8, 10):
                c[i, j] = T.float32(0)
                for k in range(3):
                    c[i, j] = (c[i, j] + a[i, 2 * k] * b[2 * k, j]
                               + a[i, 2 * k + 1] * b[2 * k + 1, j])
            """,
        ),
        "relax.matmul",
    ),
    Foreign(
        "B given transposed",
        script(
            "a 8,6; b 10,6; c 8,10",
            """
            for i, j in T.grid(8, 10):
                c[i, j] = T.float32(0)
                for k in range(6):
                    c[i, j] += a[i, k] * b[j, k]
            """,
        ),
        "relax.nn.transposed_matmul",
        {"transposed": [False, True]},
    ),
    Foreign(
        "both given transposed",
        script(
            "a 6,8; b 10,6; c 8,10",
            """
            for i, j in T.grid(8, 10):
                c[i, j] = T.float32(0)
                for k in range(6):
                    c[i, j] += a[k, i] * b[j, k]
            """,
        ),
        "relax.nn.transposed_matmul",
        {"transposed": [True, True]},
    ),
    Foreign(
        "parameters the other way round",
        script(
            "b 6,10; a 8,6; c 8,10",
            """
            for i, j in T.grid(8, 10):
                c[i, j] = T.float32(0)
                for k in range(6):
                    c[i, j] += a[i, k] * b[k, j]
            """,
        ),
        "relax.matmul",
        operands=(1, 0),
    ),
    Foreign(
        "half precision into float32",
        script(
            "a float16 8,6; b float16 6,10; c 8,10",
            """
            for i, j in T.grid(8, 10):
                c[i, j] = T.float32(0)
                for k in range(6):
                    c[i, j] += T.cast(a[i, k], "float32") * T.cast(b[k, j], "float32")
            """,
        ),
        "relax.matmul",
        {"out_dtype": "float32"},
    ),
    Foreign(
        "batches and a shared right side",
        script(
            "a 3,8,6; b 6,10; c 3,8,10",
            """
            for r, j in T.grid(24, 10):
                c[r // 8, r % 8, j] = T.float32(0)
                for k in range(6):
                    c[r // 8, r % 8, j] += a[r // 8, r % 8, k] * b[k, j]
            """,
        ),
        "relax.matmul",
    ),
    Foreign(
        "matrix times vector",
        script(
            "a 8,6; v 6; c 8",
            """
            for i in range(8):
                c[i] = T.float32(0)
                for k in range(6):
                    c[i] += v[k] * a[i, k]
            """,
        ),
        "relax.matmul",
        operands=(0, 1),
    ),
    Foreign(
        "dot product",
        script(
            "a 8; b 8; c ()",
            """
            c[()] = T.float32(0)
            for k in range(8):
                c[()] = c[()] + a[k] * b[k]
            """,
        ),
        "relax.matmul",
    ),
    Foreign(
        "an SBlock with fused axes",
        script(
            _AB,
            """
            for ij, k in T.grid(80, 6):
                with T.sblock("c"):
                    vi = T.axis.spatial(8, ij // 10)
                    vj = T.axis.spatial(10, ij % 10)
                    vk = T.axis.reduce(6, k)
                    T.reads()
                    T.writes()
                    with T.init():
                        c[vi, vj] = T.float32(0)
                    c[vi, vj] += a[vi, vk] * b[vk, vj]
            """,
        ),
        "relax.matmul",
    ),
    Foreign(
        "outer product",
        script("a 8; b 6; c 8,6", "for i, j in T.grid(8, 6):\n    c[i, j] = a[i] * b[j]"),
        "relax.outer",
        also=("relax.einsum", "relax.multiply"),
    ),
    Foreign(
        "a triangle of k only: no operator",
        script(
            "a 8,8; b 8,8; c 8,8",
            """
            for i, j in T.grid(8, 8):
                c[i, j] = T.float32(0)
                for k in range(8):
                    if k <= i:
                        c[i, j] += a[i, k] * b[k, j]
            """,
        ),
    ),
    Foreign("topi.matmul", tensors(topi.matmul, "8,6", "6,10"), "relax.matmul"),
    Foreign(
        "topi.nn.matmul, A transposed",
        tensors(lambda a, b: nn.matmul(a, b, transpose_a=True), "6,8", "6,10"),
        "relax.nn.transposed_matmul",
        {"transposed": [True, False]},
    ),
    Foreign(
        "dense",
        tensors(nn.dense, "8,6", "10,6"),
        "relax.nn.transposed_matmul",
        {"transposed": [False, True]},
    ),
    Foreign(
        "the right side given in panels",
        script(
            "a 8,6; b 3,6,4; c 8,12",
            """
            for i, j in T.grid(8, 12):
                c[i, j] = T.float32(0)
                for k in range(6):
                    c[i, j] += a[i, k] * b[j // 4, k, j % 4]
            """,
        ),
        "relax.nn.transposed_matmul",
        {"transposed": [False, True]},
        layouts=("AB", "AB4a", "AB"),
    ),
    Foreign(
        "batch_matmul, B transposed",
        tensors(lambda a, b: nn.batch_matmul(a, b), "3,8,6", "3,10,6"),
        "relax.nn.transposed_matmul",
        {"transposed": [False, True]},
    ),
    Foreign(
        "batch_matmul",
        tensors(lambda a, b: nn.batch_matmul(a, b, transpose_b=False), "3,8,6", "3,6,10"),
        "relax.matmul",
    ),
    Foreign(
        "tensordot over two axes",
        tensors(lambda a, b: topi.tensordot(a, b, 2), "2,3,4", "3,4,5"),
        "relax.einsum",
        {"subscripts": "abc,bcd->ad"},
    ),
    Foreign(
        "einsum with a batch",
        tensors(lambda a, b: topi.einsum("bhid,bhjd->bhij", a, b), "2,3,4,5", "2,3,6,5"),
        "relax.einsum",
        {"subscripts": "abcd,abed->abce"},
        also={"relax.nn.transposed_matmul": {"transposed": [False, True]}},
    ),
]
