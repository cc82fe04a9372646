"""Matrix products with the loops, accumulators and tails that hand-written kernels have."""

from __future__ import annotations

from .programs import program

_ABC = "a 6,10; b 10,5; c 6,5"
_MATMUL = "relax.matmul"

CASES = [
    program(
        "k unrolled by four with a tail",
        _ABC,
        """
        for i, j in T.grid(6, 5):
            c[i, j] = T.float32(0)
            for k in range(2):
                c[i, j] += (a[i, 4 * k] * b[4 * k, j] + a[i, 4 * k + 1] * b[4 * k + 1, j]
                    + a[i, 4 * k + 2] * b[4 * k + 2, j] + a[i, 4 * k + 3] * b[4 * k + 3, j])
            for k in range(2):
                c[i, j] += a[i, 8 + k] * b[8 + k, j]
        """,
        _MATMUL,
    ),
    program(
        "two accumulators, of even and odd k",
        _ABC,
        """
        s = T.alloc_buffer((2,), scope="local")
        for i, j in T.grid(6, 5):
            s[0] = T.float32(0)
            s[1] = T.float32(0)
            for k in range(5):
                s[0] += a[i, 2 * k] * b[2 * k, j]
                s[1] += a[i, 2 * k + 1] * b[2 * k + 1, j]
            c[i, j] = s[0] + s[1]
        """,
        _MATMUL,
    ),
    program(
        "split k: partial products in a buffer, summed at the end",
        _ABC,
        """
        p = T.alloc_buffer((2, 6, 5))
        for h, i, j in T.grid(2, 6, 5):
            p[h, i, j] = T.float32(0)
            for k in range(5):
                p[h, i, j] += a[i, h * 5 + k] * b[h * 5 + k, j]
        for i, j in T.grid(6, 5):
            c[i, j] = p[0, i, j] + p[1, i, j]
        """,
        _MATMUL,
    ),
    program(
        "rows outside, zero fill of the whole result first",
        "a n,10; b 10,5; c n,5",
        """
        for i, j in T.grid(n, 5):
            c[i, j] = T.float32(0)
        for k, i, j in T.grid(10, n, 5):
            c[i, j] = c[i, j] + a[i, k] * b[k, j]
        """,
        _MATMUL,
    ),
    program(
        "a register tile of 2 x 5, k outside it",
        "a 6,k; b k,5; c 6,5",
        """
        r = T.alloc_buffer((2, 5), scope="local")
        for io in range(3):
            for ii, j in T.grid(2, 5):
                r[ii, j] = T.float32(0)
            for q in range(k):
                for ii in T.unroll(2):
                    for j in T.vectorized(5):
                        r[ii, j] += a[io * 2 + ii, q] * b[q, j]
            for ii, j in T.grid(2, 5):
                c[io * 2 + ii, j] = r[ii, j]
        """,
        _MATMUL,
    ),
    program(
        "k counting down, in a loop that begins at 3",
        _ABC,
        """
        for i, j in T.grid(6, 5):
            c[i, j] = T.float32(0)
            for k in range(3, 13):
                c[i, j] += a[i, 12 - k] * b[12 - k, j]
        """,
        _MATMUL,
    ),
    program(
        "k in steps of two, both parts in one iteration",
        _ABC,
        """
        for i, j in T.grid(6, 5):
            c[i, j] = T.float32(0)
            for k in T.serial(0, 10, step=2):
                c[i, j] += a[i, k] * b[k, j] + a[i, k + 1] * b[k + 1, j]
        """,
        _MATMUL,
    ),
    program(
        "one loop for rows and columns, divided by shifts",
        "a 4,8; b 8,16; c 4,16",
        """
        for f in range(64):
            c[f >> 4, f & 15] = T.float32(0)
            for k in range(8):
                c[f >> 4, f & 15] += a[f >> 4, k] * b[k, f & 15]
        """,
        _MATMUL,
    ),
    program(
        "operands copied to flat buffers first",
        _ABC,
        """
        fa = T.alloc_buffer((60,))
        fb = T.alloc_buffer((50,))
        fc = T.alloc_buffer((30,))
        for i, k in T.grid(6, 10):
            fa[i * 10 + k] = a[i, k]
        for k, j in T.grid(10, 5):
            fb[j * 10 + k] = b[k, j]
        for i, j in T.grid(6, 5):
            fc[i * 5 + j] = T.float32(0)
            for k in range(10):
                fc[i * 5 + j] += fa[i * 10 + k] * fb[j * 10 + k]
        for f in range(30):
            c[f // 5, f % 5] = fc[f]
        """,
        _MATMUL,
    ),
    program(
        "int8 with int32 accumulators, casts of each element",
        "a int8 6,8; b int8 8,5; c int32 6,5",
        """
        for i, j in T.grid(6, 5):
            c[i, j] = 0
            for k in range(8):
                c[i, j] += T.Cast("int32", a[i, k]) * T.Cast("int32", b[k, j])
        """,
        _MATMUL,
        out_dtype="int32",
    ),
    program(
        "four products of int8 at a time, as dot-product instructions have them",
        "a int8 6,8; b int8 8,5; c int32 6,5",
        """
        for i, j in T.grid(6, 5):
            c[i, j] = 0
            for k in range(2):
                c[i, j] = c[i, j] + (
                    T.Cast("int32", a[i, 4 * k]) * T.Cast("int32", b[4 * k, j])
                    + T.Cast("int32", a[i, 4 * k + 1]) * T.Cast("int32", b[4 * k + 1, j])
                    + T.Cast("int32", a[i, 4 * k + 2]) * T.Cast("int32", b[4 * k + 2, j])
                    + T.Cast("int32", a[i, 4 * k + 3]) * T.Cast("int32", b[4 * k + 3, j]))
        """,
        _MATMUL,
        out_dtype="int32",
    ),
    program(
        "float16 with float32 accumulators in registers",
        "a float16 6,8; b float16 8,5; c float32 6,5",
        """
        s = T.alloc_buffer((1,), "float32", scope="local")
        for i, j in T.grid(6, 5):
            s[0] = T.float32(0)
            for k in range(8):
                s[0] = s[0] + T.Cast("float32", a[i, k]) * T.Cast("float32", b[k, j])
            c[i, j] = s[0]
        """,
        _MATMUL,
        out_dtype="float32",
    ),
    program(
        "k in a while loop",
        _ABC,
        """
        k = T.alloc_buffer((1,), "int32", scope="local")
        for i, j in T.grid(6, 5):
            c[i, j] = T.float32(0)
            k[0] = 0
            while k[0] < 10:
                c[i, j] += a[i, k[0]] * b[k[0], j]
                k[0] = k[0] + 1
        """,
        _MATMUL,
    ),
    program(
        "tiles whose last is cut off by a minimum",
        "a 6,10; b 10,5; c 6,5",
        """
        for i, j in T.grid(6, 5):
            c[i, j] = T.float32(0)
        for io, ko in T.grid(2, 3):
            for i, k, j in T.grid(T.min(4, 6 - io * 4), T.min(4, 10 - ko * 4), 5):
                c[io * 4 + i, j] += a[io * 4 + i, ko * 4 + k] * b[ko * 4 + k, j]
        """,
        _MATMUL,
    ),
    program(
        "symbolic k by fours, and what is left",
        "a 6,k; b k,5; c 6,5",
        """
        for i, j in T.grid(6, 5):
            c[i, j] = T.float32(0)
            for q, r in T.grid(k // 4, 4):
                c[i, j] += a[i, q * 4 + r] * b[q * 4 + r, j]
            for r in range(k % 4):
                c[i, j] += a[i, k // 4 * 4 + r] * b[k // 4 * 4 + r, j]
        """,
        _MATMUL,
    ),
    program(
        "Strassen's seven products (equal up to rounding)",
        "a 2,2; b 2,2; c 2,2",
        """
        m = T.alloc_buffer((7,))
        for u in range(1):
            m[0] = (a[0, 0] + a[1, 1]) * (b[0, 0] + b[1, 1])
            m[1] = (a[1, 0] + a[1, 1]) * b[0, 0]
            m[2] = a[0, 0] * (b[0, 1] - b[1, 1])
            m[3] = a[1, 1] * (b[1, 0] - b[0, 0])
            m[4] = (a[0, 0] + a[0, 1]) * b[1, 1]
            m[5] = (a[1, 0] - a[0, 0]) * (b[0, 0] + b[0, 1])
            m[6] = (a[0, 1] - a[1, 1]) * (b[1, 0] + b[1, 1])
            c[0, 0] = m[0] + m[3] - m[4] + m[6]
            c[0, 1] = m[2] + m[4]
            c[1, 0] = m[1] + m[3]
            c[1, 1] = m[0] - m[1] + m[2] + m[5]
        """,
        _MATMUL,
    ),
]
