"""Kernels of threads, with shared memory, guards and reductions by halving."""

from __future__ import annotations

from .programs import LOW, program

_B = 'T.thread_binding({0}, "blockIdx.x")'.format
_BY = 'T.thread_binding({0}, "blockIdx.y")'.format
_T = 'T.thread_binding({0}, "threadIdx.x")'.format
_TY = 'T.thread_binding({0}, "threadIdx.y")'.format


def _sum_by_halves(store: str) -> str:
    """Eight threads add up ``red``, in three steps."""
    steps = ""
    for stride in (4, 2, 1):
        steps += f"""
    for t in {_T(8)}:
        if t < {stride}:
            red[t] = {store.format(f"red[t], red[t + {stride}]")}"""
    return steps


_ADD, _MAX = "T.Add({0})", "T.max({0})"

CASES = [
    program(
        "product of shared tiles of 4 x 4 that do not divide, filled with zeros",
        "a 10,7; b 7,9; c 10,9",
        f"""
        sa = T.alloc_buffer((4, 4), scope="shared")
        sb = T.alloc_buffer((4, 4), scope="shared")
        r = T.alloc_buffer((1,), scope="local")
        for by in {_BY(3)}:
            for bx in {_B(3)}:
                for ty in {_TY(4)}:
                    for tx in {_T(4)}:
                        r[0] = T.float32(0)
                        for ko in range(2):
                            sa[ty, tx] = T.if_then_else(
                                by * 4 + ty < 10 and ko * 4 + tx < 7,
                                a[by * 4 + ty, ko * 4 + tx], T.float32(0))
                            sb[ty, tx] = T.if_then_else(
                                ko * 4 + ty < 7 and bx * 4 + tx < 9,
                                b[ko * 4 + ty, bx * 4 + tx], T.float32(0))
                            for ki in range(4):
                                r[0] += sa[ty, ki] * sb[ki, tx]
                        if by * 4 + ty < 10 and bx * 4 + tx < 9:
                            c[by * 4 + ty, bx * 4 + tx] = r[0]
        """,
        "relax.matmul",
    ),
    program(
        "product of shared tiles, two of them in turn",
        "a 8,8; b 8,8; c 8,8",
        f"""
        sa = T.alloc_buffer((2, 4, 4), scope="shared")
        sb = T.alloc_buffer((2, 4, 4), scope="shared")
        r = T.alloc_buffer((1,), scope="local")
        for by in {_BY(2)}:
            for bx in {_B(2)}:
                for ty in {_TY(4)}:
                    for tx in {_T(4)}:
                        r[0] = T.float32(0)
                        sa[0, ty, tx] = a[by * 4 + ty, tx]
                        sb[0, ty, tx] = b[ty, bx * 4 + tx]
                        for ki in range(4):
                            r[0] += sa[0, ty, ki] * sb[0, ki, tx]
                        sa[1, ty, tx] = a[by * 4 + ty, 4 + tx]
                        sb[1, ty, tx] = b[4 + ty, bx * 4 + tx]
                        for ki in range(4):
                            r[0] += sa[1, ty, ki] * sb[1, ki, tx]
                        c[by * 4 + ty, bx * 4 + tx] = r[0]
        """,
        "relax.matmul",
    ),
    program(
        "sum of 21 numbers a thread block, guarded",
        "x 21; y 21; out 21",
        f"""
        for b in {_B(3)}:
            for t in {_T(8)}:
                if b * 8 + t < 21:
                    out[b * 8 + t] = x[b * 8 + t] + y[b * 8 + t]
        """,
        "relax.add",
    ),
    program(
        "symbolic length, guarded",
        "x n; y n; out n",
        """
        for b in T.thread_binding((n + T.int64(255)) // T.int64(256), "blockIdx.x"):
            for t in T.thread_binding(T.int64(256), "threadIdx.x"):
                if b * T.int64(256) + t < n:
                    out[b * T.int64(256) + t] = x[b * T.int64(256) + t] * y[b * T.int64(256) + t]
        """,
        "relax.multiply",
    ),
    program(
        "each thread strides over the grid",
        "x 1000; out 1000",
        f"""
        for b in {_B(2)}:
            for t in {_T(64)}:
                for k in range(8):
                    if k * 128 + b * 64 + t < 1000:
                        out[k * 128 + b * 64 + t] = T.exp(x[k * 128 + b * 64 + t])
        """,
        "relax.exp",
    ),
    program(
        "transposed through a padded tile",
        "x 8,12; out 12,8",
        f"""
        s = T.alloc_buffer((4, 5), scope="shared")
        for by in {_BY(2)}:
            for bx in {_B(3)}:
                for ty in {_TY(4)}:
                    for tx in {_T(4)}:
                        s[ty, tx] = x[by * 4 + ty, bx * 4 + tx]
                for ty in {_TY(4)}:
                    for tx in {_T(4)}:
                        out[bx * 4 + ty, by * 4 + tx] = s[tx, ty]
        """,
        "relax.permute_dims",
        axes=[1, 0],
    ),
    program(
        "transposed through a tile whose columns are swizzled by xor",
        "x 8,8; out 8,8",
        f"""
        s = T.alloc_buffer((8, 8), scope="shared")
        for b in {_B(1)}:
            for ty in {_TY(8)}:
                for tx in {_T(8)}:
                    s[ty, tx ^ ty] = x[ty, tx]
            for ty in {_TY(8)}:
                for tx in {_T(8)}:
                    out[ty, tx] = s[tx, ty ^ tx]
        """,
        "relax.permute_dims",
        axes=[1, 0],
    ),
    program(
        "sum of rows by halving in shared memory",
        "x 5,8; out 5",
        f"""
        red = T.alloc_buffer((8,), scope="shared")
        for b in {_B(5)}:
            for t in {_T(8)}:
                red[t] = x[b, t]
        """.rstrip()
        + _sum_by_halves(_ADD).replace("\n    ", "\n            ")
        + f"""
            for t in {_T(8)}:
                if t == 0:
                    out[b] = red[0]
        """,
        "relax.sum",
        axis=[1],
    ),
    program(
        "maximum of rows by halving, after a loop over the columns of each thread",
        "x 5,24; out 5",
        f"""
        red = T.alloc_buffer((8,), scope="shared")
        for b in {_B(5)}:
            for t in {_T(8)}:
                red[t] = {LOW}
                for k in range(3):
                    red[t] = T.max(red[t], x[b, k * 8 + t])
        """.rstrip()
        + _sum_by_halves(_MAX).replace("\n    ", "\n            ")
        + f"""
            for t in {_T(8)}:
                if t == 0:
                    out[b] = red[0]
        """,
        "relax.max",
        axis=[1],
    ),
    program(
        "convolution of a shared row with a halo",
        "x 1,2,20; w 3,2,3; out 1,3,18",
        f"""
        s = T.alloc_buffer((2, 8), scope="shared")
        for b in {_B(3)}:
            for t in {_T(6)}:
                for c in range(2):
                    s[c, t] = x[0, c, b * 6 + t]
                    if t < 2:
                        s[c, t + 6] = x[0, c, b * 6 + t + 6]
            for t in {_T(6)}:
                for o in range(3):
                    out[0, o, b * 6 + t] = T.float32(0)
                    for c, k in T.grid(2, 3):
                        out[0, o, b * 6 + t] += s[c, t + k] * w[o, c, k]
        """,
        "relax.nn.conv1d",
    ),
    program(
        "softmax: a block for each row, a thread for each column",
        "x 5,8; out 5,8",
        f"""
        m = T.alloc_buffer((1,), scope="shared")
        s = T.alloc_buffer((1,), scope="shared")
        for b in {_B(5)}:
            for t in {_T(8)}:
                if t == 0:
                    m[0] = {LOW}
                    for k in range(8):
                        m[0] = T.max(m[0], x[b, k])
            for t in {_T(8)}:
                if t == 0:
                    s[0] = T.float32(0)
                    for k in range(8):
                        s[0] += T.exp(x[b, k] - m[0])
            for t in {_T(8)}:
                out[b, t] = T.exp(x[b, t] - m[0]) / s[0]
        """,
        "relax.nn.softmax",
        axis=1,
    ),
    program(
        "four elements a thread, as a vector",
        "x 6,64; out 6,64",
        f"""
        for b in {_B(6)}:
            for t in {_T(16)}:
                for v in T.vectorized(4):
                    out[b, t * 4 + v] = T.max(x[b, t * 4 + v], T.float32(0))
        """,
        "relax.nn.relu",
    ),
    program(
        "blocks from one index by division and remainder",
        "x 2,3,4,4; out 2,3,2,2",
        f"""
        for b in {_B(6)}:
            for t in {_T(4)}:
                out[b // 3, b % 3, t // 2, t % 2] = {LOW}
                for i, j in T.grid(2, 2):
                    out[b // 3, b % 3, t // 2, t % 2] = T.max(out[b // 3, b % 3, t // 2, t % 2],
                        x[b // 3, b % 3, t // 2 * 2 + i, t % 2 * 2 + j])
        """,
        "relax.nn.max_pool2d",
        pool_size=(2, 2),
        strides=(2, 2),
    ),
]
