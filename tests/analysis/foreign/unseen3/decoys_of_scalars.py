"""Nearly elementwise functions and moves of elements."""

from __future__ import annotations

from .near_programs import near

CASES = [
    near("tanh of x", "sigmoid by tanh", ("T.tanh(x[i, j] * T.float32(0.5))", "T.tanh(x[i, j])")),
    near(
        "tanh of x and one half",
        "tanh by sigmoid",
        ("T.sigmoid(T.float32(2) * x[i, j])", "T.sigmoid(x[i, j])"),
    ),
    near("another root", "gelu, half of x first", ("0.70710678118654752", "0.7072")),
    near(
        "another factor of the cube",
        "gelu by a sigmoid of twice the argument of tanh",
        ("0.044715", "0.0447"),
    ),
    near("five", "relu6, nested if_then_else", ("T.float32(6), x", "T.float32(5), x")),
    near(
        "one bound is stored on the wrong side",
        "clip by a chain of ifs",
        ("        out[i, j] = T.float32(3)", "        out[i, j] = T.float32(-2)"),
    ),
    near("both are positive", "sign by two comparisons", ("< T.float32(0)", "> T.float32(1)")),
    near("clamped to 126", "quantise by 0.1 with clamps", ("T.float32(127)", "T.float32(126)")),
    near(
        "three bits",
        "eight values of four bits a word, shifted and then masked",
        ("T.uint32(15)", "T.uint32(7)"),
    ),
    near(
        "a mask that is shifted less",
        "eight values of four bits a word, masked and then shifted",
        (
            'T.shift_left(T.uint32(15), T.Cast("uint32", j % 8 * 4))',
            'T.shift_left(T.uint32(15), T.Cast("uint32", j % 8 * 3))',
        ),
    ),
    near(
        "the second scale of the first group",
        "two values of four bits a byte, stored in pairs",
        ("s[i, j >> 3]", "s[i, 1 - (j >> 3)]"),
    ),
    near(
        "the largest value, not magnitude",
        "groups quantised to bytes by their largest magnitude, one loop nest",
        ("T.fabs(x[i, g * 16 + k])", "x[i, g * 16 + k]"),
    ),
    near("a mask of two bits", "reshape by a shift and a mask", ("i & 7", "i & 3")),
    near(
        "the parts of a channel exchanged",
        "pixel shuffle in one flat loop",
        ("f // 6 % 2 * 2 + f % 2", "f // 6 % 2 + f // 36 * f % 2"),
    ),
    near(
        "the next index", "one hot by a comparison of every column", ("k[i] == j", "k[i] + i == j")
    ),
    near("one part in reverse", "concatenation by an if", ("y[i, j - 3]", "y[i, 6 - j]")),
    near(
        "one border of ones",
        "zero padding, borders filled one by one",
        ("out[0, c, 5, j] = T.float32(0)", "out[0, c, 5, j] = T.float32(1)"),
    ),
    near(
        "read by another swizzle",
        "transpose through a flat swizzled buffer",
        ("(i ^ j)]", "(i ^ (j & 5))]"),
    ),
    near(
        "the last row is left out",
        "padding with the bound tests hoisted",
        ("i == 0 or i == 5", "i == 0 or i >= 4"),
    ),
]
