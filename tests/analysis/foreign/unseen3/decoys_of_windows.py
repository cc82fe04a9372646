"""Nearly convolutions and pools, and programs that are not an operator at all."""

from __future__ import annotations

from .near_programs import near
from .programs import program

CASES = [
    near(
        "a row of the kernel is left out",
        "depthwise convolution, bounds of the kernel's rows hoisted",
        ("i + a < 7", "i + a < 6"),
        op="relax.nn.conv2d",
        groups=3,
        padding=(1, 1, 2, 1),
    ),  # of five rows of the data
    near(
        "one tap too few",
        "convolution over the part of the kernel that is inside",
        ("T.min(7 - i, 3)", "T.min(6 - i, 3)"),
        op="relax.nn.conv1d",
        padding=(1, 2),
    ),  # of five elements of the data
    near(
        "the kernel from its first tap",
        "convolution over the part of the kernel that is inside",
        ("w[o, c, a + T.max(1 - i, 0)]", "w[o, c, a]"),
    ),
    near(
        "the columns of another kernel",
        "im2col and its product in one function",
        ("p % 4 + r % 3]", "p % 4 + r % 2]"),
    ),
    near(
        "a quarter",
        "Winograd F(2, 3) of one dimension (equal up to rounding)",
        ("T.float32(0.5)", "T.float32(0.25)"),
    ),
    near(
        "odd offsets",
        "transposed convolution, even offsets by a bit test",
        ("& 1 == 0", "& 1 == 1"),
    ),
    near(
        "the kernel flipped",
        "transposed convolution scattered by hand",
        ("i * 2 + a]", "i * 2 + 2 - a]"),
    ),
    near(
        "the second column is another one",
        "maximum pool by rows, then by columns",
        ("r[c, 2 * i + 1, j]", "r[c, 2 * i + 1, 3 - j]"),
    ),
    near(
        "one too many",
        "average pool that counts the elements inside",
        ("n[0] = T.float32(0)", "n[0] = T.float32(1)"),
    ),
    near(
        "divided by eight",
        "average pool by sums of rows, then of columns",
        ("T.float32(9)", "T.float32(8)"),
    ),
    near(
        "the first tap is left out at the left",
        "causal convolution: guarded reads on the left",
        ("i + a >= 2", "i + a >= 3"),
    ),
    near(
        "groups taken by remainder",
        "convolution of int8, zero point of the data in int32 (zero)",
        ("o // 2 * 2 + c", "o % 2 * 2 + c"),
    ),
    program(
        "erf by a polynomial (Abramowitz and Stegun 7.1.26)",
        "x 5,7; out 5,7",
        """
        t = T.alloc_buffer((1,), scope="local")
        for i, j in T.grid(5, 7):
            t[0] = T.float32(1) / (T.float32(1) + T.float32(0.3275911) * T.fabs(x[i, j]))
            out[i, j] = T.float32(1) - ((((T.float32(1.061405429) * t[0] - T.float32(1.453152027))
                * t[0] + T.float32(1.421413741)) * t[0] - T.float32(0.284496736)) * t[0]
                + T.float32(0.254829592)) * t[0] * T.exp(-(x[i, j] * x[i, j]))
            if x[i, j] < T.float32(0):
                out[i, j] = T.float32(0) - out[i, j]
        """,
    ),
    program(
        "quick gelu: a sigmoid of 1.702 x",
        "x 5,7; out 5,7",
        "for i, j in T.grid(5, 7):\n"
        "    out[i, j] = x[i, j] * T.sigmoid(T.float32(1.702) * x[i, j])",
    ),
    program(
        "softplus without a threshold",
        "x 5,7; out 5,7",
        "for i, j in T.grid(5, 7):\n    out[i, j] = T.log(T.float32(1) + T.exp(x[i, j]))",
    ),
    program(
        "bfloat16 in 16 bits made float32",
        "x uint16 5,7; out 5,7",
        'for i, j in T.grid(5, 7):\n    out[i, j] = T.reinterpret("float32", '
        'T.shift_left(T.Cast("uint32", x[i, j]), T.uint32(16)))',
    ),
    program(
        "float32 cut to the bits of bfloat16",
        "x 5,7; out uint16 5,7",
        'for i, j in T.grid(5, 7):\n    out[i, j] = T.Cast("uint16", '
        'T.shift_right(T.reinterpret("uint32", x[i, j]), T.uint32(16)))',
    ),
    program(
        "product by an external routine",
        "a 4,8; b 8,4; c 4,4",
        """
            for i in range(4):
                T.evaluate(T.call_extern("int32", "gemv_update", c.access_ptr("w"),
                    a.access_ptr("r"), b.access_ptr("r"), i))
            """,
    ),
    program(
        "SwiGLU of two tensors: two operators",
        "x n,8; y n,8; out n,8",
        "for i, j in T.grid(n, 8):\n    out[i, j] = x[i, j] * T.sigmoid(x[i, j]) * y[i, j]",
    ),
    program(
        "scaled to int8 after a product: two operators",
        "a int8 4,8; b int8 8,4; c int8 4,4",
        """
            s = T.alloc_buffer((1,), "int32", scope="local")
            for i, j in T.grid(4, 4):
                s[0] = 0
                for k in range(8):
                    s[0] += T.Cast("int32", a[i, k]) * T.Cast("int32", b[k, j])
                c[i, j] = T.Cast("int8", T.max(T.min(T.round(T.Cast("float32", s[0])
                    * T.float32(0.01)), T.float32(127)), T.float32(-128)))
            """,
    ),
    program(
        "rows rolled by three",
        "x n,8; out n,8",
        "for i, j in T.grid(n, 8):\n    out[i, (j + 3) % 8] = x[i, j] + T.float32(1)",
    ),
]
