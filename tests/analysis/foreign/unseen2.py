"""More programs that were written after the analysis; their attributes are from the definitions."""

from __future__ import annotations

from typing import Any

from opinfo.analysis import Constant

from .case import Foreign, script


def _loops(form: str, params: str, head: str, body: str, op: str = "", **attrs: Any) -> Foreign:
    text = f"for {head}:\n" + "\n".join("    " + line for line in body.splitlines())
    operands, also = attrs.pop("operands", None), attrs.pop("also", ())
    return Foreign(form, script(params, text), op, attrs, operands, also=also)


CASES = [
    _loops(
        "matmul with k split in two loops",
        "a 4,12; b 12,5; c 4,5",
        "i, j in T.grid(4, 5)",
        "c[i, j] = T.float32(0)\nfor ko in range(3):\n    for ki in range(4):\n"
        "        c[i, j] += a[i, ko * 4 + ki] * b[ko * 4 + ki, j]",
        "relax.matmul",
    ),
    _loops(
        "maximum pool over NHWC",
        "x 1,6,8,3; out 1,3,4,3",
        "n, i, j, c in T.grid(1, 3, 4, 3)",
        "out[n, i, j, c] = T.float32(-3.4028234663852886e+38)\nfor a, b in T.grid(2, 2):\n"
        "    out[n, i, j, c] = T.max(out[n, i, j, c], x[n, i * 2 + a, j * 2 + b, c])",
        "relax.nn.max_pool2d",
        pool_size=(2, 2),
        strides=(2, 2),
        layout="NHWC",
    ),
    _loops(
        "depthwise convolution, two outputs a channel",
        "x 1,3,6,6; w 6,1,3,3; out 1,6,4,4",
        "g, m, i, j in T.grid(3, 2, 4, 4)",
        "out[0, g * 2 + m, i, j] = T.float32(0)\nfor a, b in T.grid(3, 3):\n"
        "    out[0, g * 2 + m, i, j] += x[0, g, i + a, j + b] * w[g * 2 + m, 0, a, b]",
        "relax.nn.conv2d",
        groups=3,
    ),
    _loops(
        "cast down and up: no operator",
        "x 4,6; out 4,6",
        "i, j in T.grid(4, 6)",
        'out[i, j] = T.Cast("float32", T.Cast("float16", x[i, j]))',
    ),
    _loops(
        "cast through a wider type",
        "x int8 4,6; out float32 4,6",
        "i, j in T.grid(4, 6)",
        'out[i, j] = T.Cast("float32", T.Cast("int32", x[i, j]))',
        "relax.dequantize",  # or relax.astype: the wider type holds every value
        operands=(0, Constant(1.0, "float32"), Constant(0, "int8")),
        out_dtype="float32",
    ),
    _loops(
        "leaky relu by a maximum",
        "x 4,6; out 4,6",
        "i, j in T.grid(4, 6)",
        "out[i, j] = T.max(x[i, j], T.float32(0.2) * x[i, j])",
        "relax.nn.leakyrelu",
        alpha=0.2,
    ),
    _loops(
        "hard swish: no single operator",
        "x 4,6; out 4,6",
        "i, j in T.grid(4, 6)",
        "out[i, j] = x[i, j] * T.min(T.max(x[i, j] + T.float32(3), T.float32(0)), "
        "T.float32(6)) / T.float32(6)",
    ),
    _loops(
        "mean over two axes in one pass",
        "x 3,4,5; out 3",
        "n in range(3)",
        "s = T.alloc_buffer((1,))\ns[0] = T.float32(0)\nfor k in range(20):\n"
        "    s[0] += x[n, k // 5, k % 5]\nout[n] = s[0] * T.float32(0.05)",
        "relax.mean",
        axis=[1, 2],
    ),
    _loops(
        "top left crop",
        "x 2,8,8; out 2,5,6",
        "n, i, j in T.grid(2, 5, 6)",
        "out[n, i, j] = x[n, i, j]",
        "relax.strided_slice",
        axes=[1, 2],
        begin=[0, 0],
        end=[5, 6],
        strides=[1, 1],
    ),
    _loops(
        "a scalar buffer added",
        "x 4,6; s (); out 4,6",
        "i, j in T.grid(4, 6)",
        "out[i, j] = s[()] + x[i, j]",
        "relax.add",
    ),
    _loops(
        "embedding lookup",
        "t 10,4; k int32 2,3; out 2,3,4",
        "b, i, d in T.grid(2, 3, 4)",
        "out[b, i, d] = t[k[b, i], d]",
        "relax.take",
        axis=0,
        mode="fast",
    ),
    _loops(
        "scores of attention, keys transposed",
        "q 2,4,8; k 2,6,8; out 2,4,6",
        "b, i, j in T.grid(2, 4, 6)",
        "out[b, i, j] = T.float32(0)\nfor d in range(8):\n"
        "    out[b, i, j] += q[b, i, d] * k[b, j, d]",
        "relax.einsum",
        subscripts="abc,adc->abd",
        also={"relax.nn.transposed_matmul": {"transposed": [False, True]}},
    ),
    _loops(
        "values weighted by attention",
        "p 2,4,6; v 2,6,8; out 2,4,8",
        "b, i, d in T.grid(2, 4, 8)",
        "out[b, i, d] = T.float32(0)\nfor j in range(6):\n"
        "    out[b, i, d] += p[b, i, j] * v[b, j, d]",
        "relax.matmul",
    ),
    _loops(
        "largest of a matrix in a flat loop",
        "x 4,6; out ()",
        "k in range(24)",
        "if k == 0:\n    out[()] = T.float32(-3.4028234663852886e+38)\n"
        "out[()] = T.max(out[()], x[k // 6, k % 6])",
        "relax.max",
    ),
    _loops(
        "rows in reverse order",
        "x 5,4; out 5,4",
        "i, j in T.grid(5, 4)",
        "out[4 - i, j] = x[i, j]",
        "relax.flip",
        axis=0,
    ),
    _loops(
        "a row repeated",
        "x 1,6; out 4,6",
        "i, j in T.grid(4, 6)",
        "out[i, j] = x[0, j]",
        "relax.broadcast_to",
        shape=[4, 6],
    ),
    _loops(
        "clipped by two ifs",
        "x 4,6; out 4,6",
        "i, j in T.grid(4, 6)",
        "out[i, j] = x[i, j]\nif x[i, j] < T.float32(-1):\n    out[i, j] = T.float32(-1)\n"
        "if x[i, j] > T.float32(1):\n    out[i, j] = T.float32(1)",
        "relax.clip",
        min=-1.0,
        max=1.0,
    ),
    _loops(
        "squares of differences: no operator",
        "x 4,6; y 4,6; out 4,6",
        "i, j in T.grid(4, 6)",
        "out[i, j] = (x[i, j] - y[i, j]) * (x[i, j] - y[i, j])",
    ),
    _loops(
        "linear layer with its bias: no single operator",
        "x 4,6; w 5,6; b 5; out 4,5",
        "i, j in T.grid(4, 5)",
        "out[i, j] = b[j]\nfor k in range(6):\n    out[i, j] += x[i, k] * w[j, k]",
    ),
    _loops(
        "channel shuffle",
        "x 1,6,4; out 1,6,4",
        "c, i in T.grid(6, 4)",
        "out[0, c, i] = x[0, c % 2 * 3 + c // 2, i]",
        "relax.layout_transform",
        index_map="T.index_map(lambda i0, i1, i2: (i0, i1 % T.int64(3) * T.int64(2) + "
        "i1 // T.int64(3), i2))",
    ),
    _loops(
        "im2col: no operator",
        "x 6,6; out 16,9",
        "p, q in T.grid(16, 9)",
        "out[p, q] = x[p // 4 + q // 3, p % 4 + q % 3]",
    ),
]
