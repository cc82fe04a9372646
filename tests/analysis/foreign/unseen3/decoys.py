"""Programs that are nearly one of the others: none of them is that operator.

Three of them are another one, over other buffers or by another map.
"""

from __future__ import annotations

from typing import Any

import tvm

from ..case import Foreign
from . import kernels, moves, products, rows, scalars, schedules, windows
from .programs import changed, program

_ALL = [c for part in (kernels, moves, products, rows, scalars, windows) for c in part.CASES]


def _near(why: str, form: str, *steps: tuple[str, str], op: str = "", **attrs: Any) -> Foreign:
    (case,) = (c for c in _ALL if c.form == form)
    return changed(f"{form}: {why}", case, *steps, op=op, **attrs)


def _tiled(why: str, form: str, old: str, new: str) -> Foreign:
    """A scheduled program with a part of its script replaced."""
    (case,) = (c for c in schedules.CASES if c.form == form)

    def build() -> Any:
        text = case.build().script()
        assert old in text, (form, old)
        return tvm.script.from_source(text.replace(old, new))

    return Foreign(f"{form}: {why}", build)


CASES = [
    _tiled(
        "the last row of a tile is not staged",
        "convolution: padded at each tile of rows",
        "T.where(yy_0 * 3 + ax1 < 9)",
        "T.where(yy_0 * 3 + ax1 < 8)",
    ),
    _tiled(
        "a row too few for each tile",
        "convolution: padded at each tile of rows",
        "T.grid(4, 5, 9)",
        "T.grid(4, 4, 9)",
    ),
    _tiled(
        "the last row is not fetched",
        "product: uneven tiles in threads",
        "// 5 < 10 and",
        "// 5 < 9 and",
    ),
    _tiled(
        "the last column is not fetched",
        "product: uneven tiles in threads",
        "% 4 < 9 and",
        "% 4 < 8 and",
    ),
    _tiled(
        "steps of four for tiles of five",
        "product: uneven tiles in threads",
        "v_r = T.axis.reduce(15, r_0 * 5 + r_1)",
        "v_r = T.axis.reduce(15, r_0 * 4 + r_1)",
    ),
    _tiled(
        "the reduction is short by one",
        "product: uneven splits, vectors, decomposed",
        "r_0 * 7 + r_1 < 20",
        "r_0 * 7 + r_1 < 19",
    ),
    _tiled(
        "the reduction is short by one",
        "convolution: fused, predicated, threads",
        "rc_ry_rx_fused_0 * 5 + rc_ry_rx_fused_1 < 36",
        "rc_ry_rx_fused_0 * 5 + rc_ry_rx_fused_1 < 35",
    ),
    _near(
        "the tail is short by one",
        "k unrolled by four with a tail",
        (
            "for k in range(2):\n                c[i, j] += a[i, 8",
            "for k in range(1):\n                c[i, j] += a[i, 8",
        ),
    ),
    _near(
        "one of them twice", "two accumulators, of even and odd k", ("s[0] + s[1]", "s[0] + s[0]")
    ),
    _near(
        "the parts overlap",
        "split k: partial products in a buffer, summed at the end",
        ("a[i, h * 5 + k] * b[h * 5 + k", "a[i, h * 4 + k] * b[h * 4 + k"),
    ),
    _near(
        "filled with ones",
        "rows outside, zero fill of the whole result first",
        ("c[i, j] = T.float32(0)", "c[i, j] = T.float32(1)"),
    ),
    _near(
        "one operand in order",
        "k counting down, in a loop that begins at 3",
        ("b[12 - k", "b[k - 3"),
    ),
    _near(
        "the last tile is short by one",
        "tiles whose last is cut off by a minimum",
        ("T.min(4, 10 - ko * 4)", "T.min(4, 9 - ko * 4)"),
    ),
    _near(
        "the rest of two", "symbolic k by fours, and what is left", ("range(k % 4)", "range(k % 2)")
    ),
    _near(
        "one is read in the order of the other",
        "operands copied to flat buffers first",
        ("* fb[j * 10 + k]", "* fb[k * 5 + j]"),
        op="relax.nn.conv1d",
        dilation=(5,),
        data_layout="WCN",
        kernel_layout="WOI",
    ),  # the even and odd k are two taps
    _near(
        "a mask of three bits",
        "one loop for rows and columns, divided by shifts",
        ("b[k, f & 15]", "b[k, f & 7]"),
    ),
    _near("one step too few", "k in a while loop", ("k[0] < 10", "k[0] < 9")),
    _near("one sign", "Strassen's seven products (equal up to rounding)", ("+ m[6]", "- m[6]")),
    _near(
        "one product with another row",
        "four products of int8 at a time, as dot-product instructions have them",
        ("b[4 * k + 3, j]", "b[4 * k + 2, j]"),
    ),
    _near(
        "the predicate of a load is short by one",
        "product of shared tiles of 4 x 4 that do not divide, filled with zeros",
        ("ko * 4 + tx < 7", "ko * 4 + tx < 6"),
    ),
    _near(
        "filled with ones",
        "product of shared tiles of 4 x 4 that do not divide, filled with zeros",
        ("bx * 4 + tx], T.float32(0))", "bx * 4 + tx], T.float32(1))"),
        ("ko * 4 + tx], T.float32(0))", "ko * 4 + tx], T.float32(1))"),
    ),
    _near(
        "the first tile again",
        "product of shared tiles, two of them in turn",
        ("a[by * 4 + ty, 4 + tx]", "a[by * 4 + ty, tx]"),
    ),
    _near(
        "the guard is short by one", "sum of 21 numbers a thread block, guarded", ("< 21", "< 20")
    ),
    _near(
        "one block too few",
        "symbolic length, guarded",
        ("(n + T.int64(255)) // T.int64(256)", "n // T.int64(256)"),
    ),
    _near("one stride too few", "each thread strides over the grid", ("range(8)", "range(7)")),
    _near(
        "blocks transposed, not their elements",
        "transposed through a padded tile",
        ("= s[tx, ty]", "= s[ty, tx]"),
        op="relax.layout_transform",
        index_map="T.index_map(lambda i0, i1: (i1 // T.int64(4) * T.int64(4) + i0 % T.int64(4), "
        "i0 // T.int64(4) * T.int64(4) + i1 % T.int64(4)))",
    ),
    _near(
        "read by another swizzle",
        "transposed through a tile whose columns are swizzled by xor",
        ("s[tx, ty ^ tx]", "s[tx, ty ^ (tx & 3)]"),
    ),
    _near(
        "the last step is missing", "sum of rows by halving in shared memory", ("t < 1:", "t < 0:")
    ),
    _near(
        "one element of each thread is left out",
        "maximum of rows by halving, after a loop over the columns of each thread",
        ("range(3)", "range(2)"),
    ),
    _near(
        "the halo is off by one",
        "convolution of a shared row with a halo",
        ("b * 6 + t + 6]", "b * 6 + t + 5]"),
    ),
    _near(
        "the maximum of all but one",
        "softmax: a block for each row, a thread for each column",
        ("range(8):\n                        m[0]", "range(7):\n                        m[0]"),
    ),
    _near(
        "the sum is not rescaled",
        "softmax online, with scalars in registers",
        ("d[0] * T.exp(p[0] - m[0])", "d[0]"),
    ),
    _near(
        "rescaled the wrong way",
        "softmax online, with scalars in registers",
        ("d[0] * T.exp(p[0] - m[0])", "d[0] * T.exp(m[0] - p[0])"),
    ),
    _near(
        "the result is not rescaled",
        "attention of one head in one pass (flash), keys in two blocks",
        ("out[0, i, 0, h] * T.exp(p[0] - m[0])", "out[0, i, 0, h]"),
    ),
    _near(
        "squares of the first difference",
        "variance by Welford's recurrence",
        ("d[0] * (x[i, k] - m[0])", "d[0] * d[0]"),
    ),
    _near(
        "one degree of freedom fewer",
        "variance by Welford's recurrence",
        ("T.float32(8)", "T.float32(7)"),
    ),
    _near(
        "one degree of freedom fewer",
        "standard deviation in two passes",
        ("v[0] * T.float32(0.125)", "v[0] / T.float32(7)"),
    ),
    _near("divided by one more", "mean as a running mean", ("k + 1", "k + 2")),
    _near(
        "the square of the mean is missing",
        "layer norm: sum and sum of squares in one loop, a scale and a shift",
        (" - s[0] * s[0]", ""),
    ),
    _near(
        "all but one of the row",
        "layer norm of a symbolic number of rows, scalars in registers",
        ("range(8):\n                v[0]", "range(7):\n                v[0]"),
    ),
    _near(
        "the mean of seven",
        "RMS norm by a square root",
        ("q[0] * T.float32(0.125)", "q[0] / T.float32(7)"),
    ),
    _near(
        "squares of one operand",
        "RMS norm of a sum, both stored in one loop nest",
        ("q[0] += t[i, k] * t[i, k]", "q[0] += x[i, k] * x[i, k]"),
    ),
    _near(
        "the halves overlap",
        "SwiGLU of the two halves of a row, by an exponential",
        ("x[i, j + 8]", "x[i, j + 7]"),
    ),
    _near(
        "the mean of fifteen",
        "instance norm with sums in one pass",
        ("v[0] / T.float32(16)", "v[0] / T.float32(15)"),
    ),
    _near(
        "the sign of one product",
        "rotary embedding with wide tables, in pairs",
        ("c[i, 2 * d] - im[0]", "c[i, 2 * d] + im[0]"),
    ),
    _near(
        "the last of equals",
        "index of the largest, its value in a register",
        ("x[i, k] > m[0]", "x[i, k] >= m[0]"),
    ),
    _near(
        "the last of equals",
        "index of the smallest, a pair of scalars",
        ("x[i, k] < m[0]", "x[i, k] <= m[0]"),
    ),
    _near(
        "a step of three",
        "running sums by doubling, two buffers in turn",
        ("i >= 2, a[i] + a[i - 2]", "i >= 3, a[i] + a[i - 3]"),
    ),
    _near(
        "begun with one",
        "running sums with the total in a register",
        ("s[0] = T.float32(0)", "s[0] = T.float32(1)"),
    ),
    _near("all but the last", "running products in place", ("T.grid(3, 7)", "T.grid(3, 6)")),
    _near(
        "the second is left out",
        "largest of a row by Select, from the first element",
        ("range(1, 8)", "range(2, 8)"),
    ),
    _near("tanh of x", "sigmoid by tanh", ("T.tanh(x[i, j] * T.float32(0.5))", "T.tanh(x[i, j])")),
    _near(
        "tanh of x and one half",
        "tanh by sigmoid",
        ("T.sigmoid(T.float32(2) * x[i, j])", "T.sigmoid(x[i, j])"),
    ),
    _near("another root", "gelu, half of x first", ("0.70710678118654752", "0.7072")),
    _near(
        "another factor of the cube",
        "gelu by a sigmoid of twice the argument of tanh",
        ("0.044715", "0.0447"),
    ),
    _near("five", "relu6, nested if_then_else", ("T.float32(6), x", "T.float32(5), x")),
    _near(
        "one bound is stored on the wrong side",
        "clip by a chain of ifs",
        ("        out[i, j] = T.float32(3)", "        out[i, j] = T.float32(-2)"),
    ),
    _near("both are positive", "sign by two comparisons", ("< T.float32(0)", "> T.float32(1)")),
    _near("clamped to 126", "quantise by 0.1 with clamps", ("T.float32(127)", "T.float32(126)")),
    _near(
        "three bits",
        "eight values of four bits a word, shifted and then masked",
        ("T.uint32(15)", "T.uint32(7)"),
    ),
    _near(
        "a mask that is shifted less",
        "eight values of four bits a word, masked and then shifted",
        (
            'T.shift_left(T.uint32(15), T.Cast("uint32", j % 8 * 4))',
            'T.shift_left(T.uint32(15), T.Cast("uint32", j % 8 * 3))',
        ),
    ),
    _near(
        "the second scale of the first group",
        "two values of four bits a byte, stored in pairs",
        ("s[i, j >> 3]", "s[i, 1 - (j >> 3)]"),
    ),
    _near(
        "the largest value, not magnitude",
        "groups quantised to bytes by their largest magnitude, one loop nest",
        ("T.fabs(x[i, g * 16 + k])", "x[i, g * 16 + k]"),
    ),
    _near("a mask of two bits", "reshape by a shift and a mask", ("i & 7", "i & 3")),
    _near(
        "the parts of a channel exchanged",
        "pixel shuffle in one flat loop",
        ("f // 6 % 2 * 2 + f % 2", "f // 6 % 2 + f // 36 * f % 2"),
    ),
    _near(
        "the next index", "one hot by a comparison of every column", ("k[i] == j", "k[i] + i == j")
    ),
    _near("one part in reverse", "concatenation by an if", ("y[i, j - 3]", "y[i, 6 - j]")),
    _near(
        "one border of ones",
        "zero padding, borders filled one by one",
        ("out[0, c, 5, j] = T.float32(0)", "out[0, c, 5, j] = T.float32(1)"),
    ),
    _near(
        "read by another swizzle",
        "transpose through a flat swizzled buffer",
        ("(i ^ j)]", "(i ^ (j & 5))]"),
    ),
    _near(
        "the last row is left out",
        "padding with the bound tests hoisted",
        ("i == 0 or i == 5", "i == 0 or i >= 4"),
    ),
    _near(
        "a row of the kernel is left out",
        "depthwise convolution, bounds of the kernel's rows hoisted",
        ("i + a < 7", "i + a < 6"),
        op="relax.nn.conv2d",
        groups=3,
        padding=(1, 1, 2, 1),
    ),  # of five rows of the data
    _near(
        "one tap too few",
        "convolution over the part of the kernel that is inside",
        ("T.min(7 - i, 3)", "T.min(6 - i, 3)"),
    ),
    _near(
        "the columns of another kernel",
        "im2col and its product in one function",
        ("p % 4 + r % 3]", "p % 4 + r % 2]"),
    ),
    _near(
        "a quarter",
        "Winograd F(2, 3) of one dimension (equal up to rounding)",
        ("T.float32(0.5)", "T.float32(0.25)"),
    ),
    _near(
        "odd offsets",
        "transposed convolution, even offsets by a bit test",
        ("& 1 == 0", "& 1 == 1"),
    ),
    _near(
        "the kernel flipped",
        "transposed convolution scattered by hand",
        ("i * 2 + a]", "i * 2 + 2 - a]"),
    ),
    _near(
        "the second column is another one",
        "maximum pool by rows, then by columns",
        ("r[c, 2 * i + 1, j]", "r[c, 2 * i + 1, 3 - j]"),
    ),
    _near(
        "one too many",
        "average pool that counts the elements inside",
        ("n[0] = T.float32(0)", "n[0] = T.float32(1)"),
    ),
    _near(
        "divided by eight",
        "average pool by sums of rows, then of columns",
        ("T.float32(9)", "T.float32(8)"),
    ),
    _near(
        "the first tap is left out at the left",
        "causal convolution: guarded reads on the left",
        ("i + a >= 2", "i + a >= 3"),
    ),
    _near(
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
