"""Programs that are nearly one of the others, and no operator."""

from __future__ import annotations

from typing import Any

from ..case import Foreign
from ..unseen3.programs import changed
from . import moves, pools, rows, rows_scanned, tiles, windows

_ALL = [c for part in (moves, pools, rows, rows_scanned, tiles, windows) for c in part.CASES]


def _near(why: str, form: str, *steps: tuple[str, str], op: str = "", **attrs: Any) -> Foreign:
    """The program whose form begins so, with parts of its text replaced."""
    (case,) = (c for c in _ALL if c.form.startswith(form))
    return changed(f"{case.form}: {why}", case, *steps, op=op, **attrs)


CASES = [
    _near("one panel one row off", "product: the second operand packed",
          ("b[k, jo * 4 + ji]", "b[(k + jo) % 5, jo * 4 + ji]")),
    _near("the last panel one short", "product: both operands packed",
          ("if jo * 4 + ji < 10", "if jo * 4 + ji < 9")),
    _near("the first k twice", "product: the first k peeled",
          ("a[i, k + 1] * b[k + 1, j]", "a[i, k] * b[k, j]")),
    _near("the next tile used", "product: two buffers in turn",
          ("t[ko % 2, k, j]", "t[(ko + 1) % 2, k, j]")),
    _near("one lane of another row", "product: lanes of four", ("a[i, k]", "a[i, (k + jo) % 5]")),
    _near("two bits exchanged on one side", "product: tiles of two by two",
          ("* b[k, (p >> 1 & 1) * 2 + (p >> 3 & 1) * 4 + j]",
           "* b[k, (p >> 3 & 1) * 2 + (p >> 1 & 1) * 4 + j]"),
          op="relax.einsum", subscripts="abcd,defg->abcfeg"),
    _near("the tail counted in two lanes", "matrix times vector: four totals",
          ("s[0] += a[i, k] * b[k]\n", "s[0] += a[i, k] * b[k]\n                s[1] += b[k]\n")),
    _near("one element twice", "sum of rows by a tree", ("x[i, 6] + x[i, 7]", "x[i, 6] + x[i, 6]")),
    _near("a corner that is read", "convolution: padded columns",
          ("p // 5 + k // 3 % 3 > 5", "p // 5 + k // 3 % 3 > 4")),
    _near("the right border's taps from the first", "convolution: left border",
          ("x[0, c, k + 7] * w[o, c, k]", "x[0, c, k + 7] * w[o, c, k + 1]")),
    _near("the last tap left out below", "depthwise convolution of channels last, taps",
          ("T.min(3, 8 - i * 2)", "T.min(3, 7 - i * 2)"),
          op="relax.nn.conv2d", strides=(2, 2), groups=4, data_layout="NHWC",
          kernel_layout="HWOI", padding=(1, 1, 2, 1)),  # over the first six rows
    _near("blocks of the kernel exchanged", "convolution: channels packed",
          ("w[oo * 2 + oi, co * 4 + ci, a, b]", "w[oo * 2 + oi, ci * 2 + co, a, b]"),
          op="relax.nn.conv2d"),  # over channels in another order
    _near("one phase with the other's kernel", "transposed convolution: each output",
          ("* w[c, o, a, b])", "* w[c, o, a, 3 - b])")),
    _near("two taps exchanged", "transposed convolution: zeros",
          ("w[c, o, 2 - k]", "w[c, o, (2 - k) * 2 % 3]")),
    _near("the first window without its last element", "maximum pool: the top row",
          ("T.max(x[0, c, 0], x[0, c, 1])", "x[0, c, 0]")),
    _near("three elements counted everywhere but left", "average pool: counts",
          ("T.min(t + 2, 5) - T.max(t - 1, 0)", "t + 2 - T.max(t - 1, 0)")),
    _near("the first total not subtracted", "average pool: differences",
          ("s[c, t + 4] - s[c, t]", "s[c, t + 4] - s[c, T.max(t, 1)]")),
    _near("one lane left out of the maximum's place", "softmax: four lanes",
          ("s[0] = (s[0] + s[2]) + (s[1] + s[3])", "s[0] = (s[0] + s[2]) + (s[1] + s[2])")),
    _near("parallel rows share a register", "logarithm of softmax",
          ("for r in range(12)", "for r in T.parallel(12)")),
    _near("one half not rescaled", "softmax: online in each half",
          ("s[1] * T.exp(m[1] - g[0])", "s[1]")),
    _near("a lane's squares left out", "layer norm: totals of four",
          ("(q[0] + q[1] + q[2] + q[3])", "(q[0] + q[1] + q[2] + q[2])")),
    _near("the totals of the next block", "running sums: blocks of four apart",
          ("out[b * 4 + k] + t[b]", "out[b * 4 + k] + t[2 - b]")),
    _near("the total begins anew in each block", "running sums: a total carried",
          ("            c[0] = T.float32(0)\n            for b in range(3):\n",
           "            for b in range(3):\n                c[0] = T.float32(0)\n"),
          op="relax.cumsum", axis=2),  # over rows of four
    _near("the later of two equal ones in a lane", "index of the largest: values",
          ("if x[i, u * 2 + k] > m[u]", "if x[i, u * 2 + k] >= m[u]")),
    _near("masked keys with a score of zero", "attention: tiles",
          ('T.float32("-inf"))', "T.float32(0))")),
    _near("the sign of the other half", "rotary embedding of two halves: the partner",
          ("T.float32(0) - x[i, h, d + 4]", "x[i, h, d + 4]")),
    _near("a shift of 30", "absolute values", ("- (x[i, j] >> 31)", "- (x[i, j] >> 30)")),
    _near("the smallest index one too large", "embedding: indices clamped",
          ("T.max(k[i], 0), 8)", "T.max(k[i], 1), 8)")),
    _near("weights of the corner exchanged", "bilinear resize by coordinates",
          ("* (z[0] - T.floor(z[0]))) * (T.float32(1) - (y[0]",
           "* (z[0] - T.floor(z[0]))) * (T.float32(1.5) - (y[0]")),
]  # fmt: skip
