"""Programs that are nearly one of the others, and no operator; one is another operator."""

from __future__ import annotations

from typing import Any

from ..case import Foreign
from ..unseen3.programs import changed
from . import loops, moves, rows, scalars, tiles, windows

_ALL = [c for part in (loops, moves, rows, scalars, tiles, windows) for c in part.CASES]


def _near(why: str, form: str, *steps: tuple[str, str], op: str = "", **attrs: Any) -> Foreign:
    """The program whose form begins so, with parts of its text replaced."""
    (case,) = (c for c in _ALL if c.form.startswith(form))
    return changed(f"{case.form}: {why}", case, *steps, op=op, **attrs)


CASES = [
    _near("zeros for the masked", "softmax: a row padded", ('T.float32("-inf"))', "T.float32(0))")),
    _near(
        "the mean left in the masked",
        "layer norm: a row padded",
        ("T.if_then_else(k < 6, x[p, k] - m[0], T.float32(0))",
         "T.if_then_else(k < 6, x[p, k], T.float32(0)) - m[0]"),
    ),
    _near("one part left out", "product: k split", ("for s in range(3)", "for s in range(2)")),
    _near("the first partner twice", "sum of rows: partners", ("b[t ^ 2]", "b[t ^ 4]")),
    _near("the total not rescaled", "softmax online over two",
          ("s[0] = s[0] * T.exp(o[0] - m[0])", "s[0] = s[0]")),
    _near("one pair of the four crossed", "product of int8 in fours",
          ("b[k * 4 + 3, j]", "b[k * 4 + 2, j]")),
    _near("the bound one short", "product: skewed", ("T.max(0, t - 3)", "T.max(0, t - 2)")),
    _near("the last strip one short", "product: k strip-mined", ("T.min(10, ", "T.min(9, ")),
    _near("a pointer's step one short", "product through flat views, pointers",
          ("pb[0] + 5", "pb[0] + 4"),
          op="relax.nn.conv1d", dilation=(4,), data_layout="WCN", kernel_layout="WOI"),
    # over the first 17 elements of the second operand, as one row
    _near("two columns from one pointer", "product through flat views, pointers",
          ("pb[0] = j\n", "pb[0] = j // 2\n")),
    _near("a step that grows", "product through flat views, pointers", ("pa[0] + 1", "pa[0] + k")),
    _near("one element left out on the way", "every second column from the last",
          ("p[0] - 2", "p[0] - 2 + p[0] % 2")),
    _near("registers shifted in the wrong order", "convolution of one dimension: three",
          ("r[0] = r[1]\n                r[1] = r[2]", "r[1] = r[2]\n                r[0] = r[1]")),
    _near("the wrong element subtracted", "average pool: a running total",
          ("- x[n, c, t]", "- x[n, c, t + 1]")),
    _near("only the block before added", "running sums in blocks",
          ("e[0] = out[h * 4 + 3]", "e[0] = x[h * 4 + 3]")),
    _near("divided by the count before", "layer norm with Welford", ("k + 1)", "k + 2)")),
    _near("the square of the sum not divided", "variance from data shifted",
          ("s[0] * s[0] / T.float32(8)", "s[0] * s[0]")),
    _near("the logarithm of two as one half", "softmax of channels by powers",
          ("1.4426950408889634", "1.5")),
    _near("the sums of values not rescaled", "attention in blocks of two",
          ("a[e] = a[e] * T.exp(o[0] - m[0])", "a[e] = a[e]")),
    _near("the totals not rescaled", "attention in blocks of two",
          ("d[0] = d[0] * T.exp(o[0] - m[0])", "d[0] = d[0]")),
    _near("the key of the row itself left out of the total", "causal attention",
          ("for j in range(i + 1):\n                p[j] = T.exp",
           "for j in range(i):\n                p[j] = T.exp")),
    _near("the sign of a sine", "rotary embedding of two halves, one loop",
          ("= x[i, h, d] * s[i, 0, d + 4] +", "= -x[i, h, d] * s[i, 0, d + 4] +")),
    _near("the second half's index from its own start", "index of the largest in two halves",
          ('p[h] = T.Cast("int64", h * 4 + k)', 'p[h] = T.Cast("int64", k)')),
    _near("a sixth of all but one row", "mean of the first dimension", ("range(5)", "range(4)")),
    _near("the root of one half as 0.7", "gelu, the product", ("0.70710678", "0.7")),
    _near("a half of the half exchanged", "transpose in place", ("range(i)", "range(i // 2)")),
    _near("one side too wide", "sigmoid, exponentials",
          ("T.exp(x[i, j]) / (T.float32(1) + T.exp(x[i, j]))", "T.exp(x[i, j])")),
    _near("a factor of one", "tanh by the exponential", ("- T.float32(2) /", "- T.float32(1) /")),
    _near("the edge twice on one side", "reflected borders", ("6 - T.abs(6 -", "6 - T.abs(5 -")),
    _near("the weights exchanged in one phase", "bilinear upsampling",
          ("x[0, c, i, j] * T.float32(0.75)\n                + x[0, c, T.min",
           "x[0, c, i, j] * T.float32(0.25)\n                + T.float32(3) * x[0, c, T.min")),
    _near("zero is left out", "rows by index, a sum over", ("k[i] == r", "k[i] == r and r > 0")),
    _near("an even phase with the odd tap", "transposed convolution by phases",
          ("w[c, o, 3]", "w[c, o, 0]")),
    _near("the last row of a window left out", "maximum pool: the window",
          ("T.min(i * 2 + 2, 7)", "T.min(i * 2 + 2, 6)")),
    _near("divided by the whole window once", "average pool: the window",
          ("* (T.min(j * 2 + 2, 7) - T.max(j * 2 - 1, 0))", "* 3")),
    _near("the end rounded down", "adaptive average pool",
          ("(i * 7 + 9) // 3", "(i * 7 + 7) // 3")),
    _near("a border tap read", "convolution as a product with implicit",
          ("m % 25 // 5 + k % 9 // 3 >= 1", "m % 25 // 5 + k % 9 // 3 >= 2")),
    _near("the present left out", "causal convolution", ("t - 2 * k >= 0", "t - 2 * k > 0")),
]  # fmt: skip
