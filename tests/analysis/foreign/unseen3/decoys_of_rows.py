"""Nearly softmax, norms, moments and scans of rows."""

from __future__ import annotations

from .near_programs import near

CASES = [
    near(
        "the sum is not rescaled",
        "softmax online, with scalars in registers",
        ("d[0] * T.exp(p[0] - m[0])", "d[0]"),
    ),
    near(
        "rescaled the wrong way",
        "softmax online, with scalars in registers",
        ("d[0] * T.exp(p[0] - m[0])", "d[0] * T.exp(m[0] - p[0])"),
    ),
    near(
        "the result is not rescaled",
        "attention of one head in one pass (flash), keys in two blocks",
        ("out[0, i, 0, h] * T.exp(p[0] - m[0])", "out[0, i, 0, h]"),
    ),
    near(
        "squares of the first difference",
        "variance by Welford's recurrence",
        ("d[0] * (x[i, k] - m[0])", "d[0] * d[0]"),
    ),
    near(
        "one degree of freedom fewer",
        "variance by Welford's recurrence",
        ("T.float32(8)", "T.float32(7)"),
    ),
    near(
        "one degree of freedom fewer",
        "standard deviation in two passes",
        ("v[0] * T.float32(0.125)", "v[0] / T.float32(7)"),
    ),
    near("divided by one more", "mean as a running mean", ("k + 1", "k + 2")),
    near(
        "the square of the mean is missing",
        "layer norm: sum and sum of squares in one loop, a scale and a shift",
        (" - s[0] * s[0]", ""),
    ),
    near(
        "all but one of the row",
        "layer norm of a symbolic number of rows, scalars in registers",
        ("range(8):\n                v[0]", "range(7):\n                v[0]"),
    ),
    near(
        "the mean of seven",
        "RMS norm by a square root",
        ("q[0] * T.float32(0.125)", "q[0] / T.float32(7)"),
    ),
    near(
        "squares of one operand",
        "RMS norm of a sum, both stored in one loop nest",
        ("q[0] += t[i, k] * t[i, k]", "q[0] += x[i, k] * x[i, k]"),
    ),
    near(
        "the halves overlap",
        "SwiGLU of the two halves of a row, by an exponential",
        ("x[i, j + 8]", "x[i, j + 7]"),
    ),
    near(
        "the mean of fifteen",
        "instance norm with sums in one pass",
        ("v[0] / T.float32(16)", "v[0] / T.float32(15)"),
    ),
    near(
        "the sign of one product",
        "rotary embedding with wide tables, in pairs",
        ("c[i, 0, 2 * d] - im[0]", "c[i, 0, 2 * d] + im[0]"),
    ),
    near(
        "the last of equals",
        "index of the largest, its value in a register",
        ("x[i, k] > m[0]", "x[i, k] >= m[0]"),
    ),
    near(
        "the last of equals",
        "index of the smallest, a pair of scalars",
        ("x[i, k] < m[0]", "x[i, k] <= m[0]"),
    ),
    near(
        "a step of three",
        "running sums by doubling, two buffers in turn",
        ("i >= 2, a[i] + a[i - 2]", "i >= 3, a[i] + a[i - 3]"),
    ),
    near(
        "begun with one",
        "running sums with the total in a register",
        ("s[0] = T.float32(0)", "s[0] = T.float32(1)"),
    ),
    near("all but the last", "running products in place", ("T.grid(3, 7)", "T.grid(3, 6)")),
    near(
        "the second is left out",
        "largest of a row by Select, from the first element",
        ("range(1, 8)", "range(2, 8)"),
    ),
]
