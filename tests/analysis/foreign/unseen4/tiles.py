"""Kernels in the manner of Triton and CUDA: tiles in registers, masks, flat thread numbers."""

from __future__ import annotations

from ..unseen3.programs import LOW, program

_B = 'T.thread_binding({0}, "blockIdx.x")'.format
_BZ = 'T.thread_binding({0}, "blockIdx.z")'.format
_T = 'T.thread_binding({0}, "threadIdx.x")'.format

CASES = [
    program(
        "product: programs in groups of two rows of tiles, masked tiles in registers",
        "a 14,6; b 6,10; c 14,10",
        f"""
        acc = T.alloc_buffer((4, 4), scope="local")
        for p in {_B(12)}:
            for i, j in T.grid(4, 4):
                acc[i, j] = T.float32(0)
            for ko in range(2):
                for i, j, k in T.grid(4, 4, 4):
                    acc[i, j] = acc[i, j] + T.if_then_else(
                        (p // 6 * 2 + p % 2) * 4 + i < 14 and ko * 4 + k < 6,
                        a[(p // 6 * 2 + p % 2) * 4 + i, ko * 4 + k], T.float32(0)
                    ) * T.if_then_else(
                        ko * 4 + k < 6 and p % 6 // 2 * 4 + j < 10,
                        b[ko * 4 + k, p % 6 // 2 * 4 + j], T.float32(0))
            for i, j in T.grid(4, 4):
                if (p // 6 * 2 + p % 2) * 4 + i < 14 and p % 6 // 2 * 4 + j < 10:
                    c[(p // 6 * 2 + p % 2) * 4 + i, p % 6 // 2 * 4 + j] = acc[i, j]
        """,
        "relax.matmul",
    ),
    program(
        "product: sixteen flat threads, two by two results in registers of each",
        "a 8,8; b 8,8; c 8,8",
        f"""
        sa = T.alloc_buffer((32,), scope="shared")
        sb = T.alloc_buffer((32,), scope="shared")
        r = T.alloc_buffer((4,), scope="local")
        for bid in {_B(1)}:
            for t in {_T(16)}:
                for u in range(4):
                    r[u] = T.float32(0)
                for ko in range(2):
                    for u in range(2):
                        sa[t + u * 16] = a[(t + u * 16) // 4, ko * 4 + (t + u * 16) % 4]
                        sb[t + u * 16] = b[ko * 4 + (t + u * 16) // 8, (t + u * 16) % 8]
                    for k in range(4):
                        for u, v in T.grid(2, 2):
                            r[u * 2 + v] += (sa[(t // 4 * 2 + u) * 4 + k]
                                * sb[k * 8 + t % 4 * 2 + v])
                for u, v in T.grid(2, 2):
                    c[t // 4 * 2 + u, t % 4 * 2 + v] = r[u * 2 + v]
        """,
        "relax.matmul",
    ),
    program(
        "product: k split over blocks, partial sums added by a second kernel",
        "a 6,12; b 12,5; c 6,5",
        f"""
        p = T.alloc_buffer((3, 6, 5))
        for s in {_BZ(3)}:
            for t in {_T(30)}:
                p[s, t // 5, t % 5] = T.float32(0)
                for k in range(4):
                    p[s, t // 5, t % 5] += a[t // 5, s * 4 + k] * b[s * 4 + k, t % 5]
        for t in {_T(30)}:
            c[t // 5, t % 5] = T.float32(0)
            for s in range(3):
                c[t // 5, t % 5] = c[t // 5, t % 5] + p[s, t // 5, t % 5]
        """,
        "relax.matmul",
    ),
    program(
        "softmax: a row padded to a power of two with minus infinity",
        "x 5,6; out 5,6",
        f"""
        v = T.alloc_buffer((8,), scope="local")
        m = T.alloc_buffer((1,), scope="local")
        s = T.alloc_buffer((1,), scope="local")
        for p in {_B(5)}:
            for k in range(8):
                v[k] = T.if_then_else(k < 6, x[p, k], T.float32("-inf"))
            m[0] = T.float32("-inf")
            for k in range(8):
                m[0] = T.max(m[0], v[k])
            s[0] = T.float32(0)
            for k in range(8):
                v[k] = T.exp(v[k] - m[0])
                s[0] = s[0] + v[k]
            for k in range(8):
                if k < 6:
                    out[p, k] = v[k] / s[0]
        """,
        "relax.nn.softmax",
        axis=1,
    ),
    program(
        "layer norm: a row padded to a power of two, centred under a mask",
        "x n,6; g 6; b 6; out n,6",
        """
        v = T.alloc_buffer((8,), scope="local")
        m = T.alloc_buffer((1,), scope="local")
        r = T.alloc_buffer((1,), scope="local")
        for p in range(n):
            m[0] = T.float32(0)
            for k in range(8):
                m[0] += T.if_then_else(k < 6, x[p, k], T.float32(0))
            m[0] = m[0] / T.float32(6)
            for k in range(8):
                v[k] = T.if_then_else(k < 6, x[p, k] - m[0], T.float32(0))
            r[0] = T.float32(0)
            for k in range(8):
                r[0] += v[k] * v[k]
            r[0] = T.rsqrt(r[0] / T.float32(6) + T.float32(1e-5))
            for k in range(8):
                if k < 6:
                    out[p, k] = v[k] * r[0] * g[k] + b[k]
        """,
        "relax.nn.layer_norm",
        axes=[1],
        epsilon=1e-5,
    ),
    program(
        "sum of rows: partners by xor, two buffers in turn",
        "x 4,8; out 4",
        f"""
        a = T.alloc_buffer((8,), scope="shared")
        b = T.alloc_buffer((8,), scope="shared")
        for p in {_B(4)}:
            for t in {_T(8)}:
                a[t] = x[p, t]
            for t in {_T(8)}:
                b[t] = a[t] + a[t ^ 4]
            for t in {_T(8)}:
                a[t] = b[t] + b[t ^ 2]
            for t in {_T(8)}:
                b[t] = a[t] + a[t ^ 1]
            for t in {_T(8)}:
                if t == 0:
                    out[p] = b[t]
        """,
        "relax.sum",
        axis=[1],
    ),
    program(
        "convolution: one flat thread an output, decoded by division",
        "x 2,3,6,6; w 4,3,3,3; out 2,4,4,4",
        f"""
        s = T.alloc_buffer((1,), scope="local")
        for bid in {_B(4)}:
            for t in {_T(32)}:
                s[0] = T.float32(0)
                for c, i, j in T.grid(3, 3, 3):
                    s[0] += x[(bid * 32 + t) // 64, c, (bid * 32 + t) // 4 % 4 + i,
                        (bid * 32 + t) % 4 + j] * w[(bid * 32 + t) // 16 % 4, c, i, j]
                out[(bid * 32 + t) // 64, (bid * 32 + t) // 16 % 4, (bid * 32 + t) // 4 % 4,
                    (bid * 32 + t) % 4] = s[0]
        """,
        "relax.nn.conv2d",
    ),
    program(
        "depthwise convolution: a shared tile with its halo loaded by a strided loop",
        "x 1,3,8,8; w 3,1,3,3; out 1,3,6,6",
        f"""
        s = T.alloc_buffer((25,), scope="shared")
        for c in {_BZ(3)}:
            for bid in {_B(4)}:
                for t in {_T(9)}:
                    for u in range(3):
                        if u * 9 + t < 25:
                            s[u * 9 + t] = x[0, c, bid // 2 * 3 + (u * 9 + t) // 5,
                                bid % 2 * 3 + (u * 9 + t) % 5]
                for t in {_T(9)}:
                    out[0, c, bid // 2 * 3 + t // 3, bid % 2 * 3 + t % 3] = T.float32(0)
                    for i, j in T.grid(3, 3):
                        out[0, c, bid // 2 * 3 + t // 3, bid % 2 * 3 + t % 3] += (
                            s[(t // 3 + i) * 5 + t % 3 + j] * w[c, 0, i, j])
        """,
        "relax.nn.conv2d",
        groups=3,
    ),
    program(
        "softmax online over two blocks of a row",
        "x n,8; out n,8",
        f"""
        m = T.alloc_buffer((1,), scope="local")
        o = T.alloc_buffer((1,), scope="local")
        s = T.alloc_buffer((1,), scope="local")
        for p in range(n):
            m[0] = {LOW}
            s[0] = T.float32(0)
            for h in range(2):
                o[0] = m[0]
                for k in range(4):
                    m[0] = T.max(m[0], x[p, h * 4 + k])
                s[0] = s[0] * T.exp(o[0] - m[0])
                for k in range(4):
                    s[0] += T.exp(x[p, h * 4 + k] - m[0])
            for k in range(8):
                out[p, k] = T.exp(x[p, k] - m[0]) / s[0]
        """,
        "relax.nn.softmax",
        axis=1,
    ),
    program(
        "product of int8 in fours, as a dot product instruction adds them",
        "a int8 6,8; b int8 8,5; c int32 6,5",
        "".join(
            [
                "for i, j in T.grid(6, 5):\n    c[i, j] = 0\n    for k in range(2):\n",
                "        c[i, j] = c[i, j] + (",
                " + ".join(
                    f'T.Cast("int32", a[i, k * 4 + {u}]) * T.Cast("int32", b[k * 4 + {u}, j])'
                    for u in range(4)
                ),
                ")",
            ]
        ),
        "relax.matmul",
        out_dtype="int32",
    ),
    program(
        "attention scores of all heads, a flat thread for each pair",
        "q 2,4,3,8; k 2,5,3,8; s 2,3,4,5",
        f"""
        for bid in {_B(6)}:
            for t in {_T(20)}:
                s[bid // 3, bid % 3, t // 5, t % 5] = T.float32(0)
                for d in range(8):
                    s[bid // 3, bid % 3, t // 5, t % 5] += (
                        q[bid // 3, t // 5, bid % 3, d] * k[bid // 3, t % 5, bid % 3, d])
        """,
        "relax.einsum",
        subscripts="abcd,aecd->acbe",
    ),
    program(
        "batched product, a block for each batch of a symbolic number",
        "a n,4,6; b n,6,5; c n,4,5",
        f"""
        r = T.alloc_buffer((1,), scope="local")
        for bid in {_B("n")}:
            for t in {_T("T.int64(20)")}:
                r[0] = T.float32(0)
                for k in range(6):
                    r[0] += a[bid, t // 5, k] * b[bid, k, t % 5]
                c[bid, t // 5, t % 5] = r[0]
        """,
        "relax.matmul",
    ),
]
