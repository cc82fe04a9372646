"""Programs that were written after the analysis, to see what it makes of them at first sight."""

from __future__ import annotations

from typing import Any

from .case import Foreign, script

_LOW = "T.float32(-3.4028234663852886e+38)"


def _map(form: str, value: str, op: str = "", **attrs: Any) -> Foreign:
    body = f"for i, j in T.grid(5, 7):\n    out[i, j] = {value.replace('@', 'x[i, j]')}"
    return Foreign(form, script("x 5,7; out 5,7", body), op, attrs)


def _loops(form: str, params: str, head: str, body: str, op: str = "", **attrs: Any) -> Foreign:
    text = f"for {head}:\n" + "\n".join("    " + line for line in body.splitlines())
    return Foreign(form, script(params, text), op, attrs)


CASES = [
    _map("relu6 by two Selects",
         "T.Select(@ < T.float32(0), T.float32(0), T.Select(@ > T.float32(6), T.float32(6), @))",
         "relax.nn.relu6"),
    _map("half plus half", "T.float32(0.5) * @ + T.float32(0.5) * @", "relax.maximum"),
    _map("tanh by exponentials",
         "(T.exp(@) - T.exp(T.float32(0) - @)) / (T.exp(@) + T.exp(T.float32(0) - @))",
         "relax.tanh"),
    _map("cube: no operator", "@ * @ * @"),
    _map("leaky relu by two parts",
         "T.max(@, T.float32(0)) + T.float32(0.25) * T.min(@, T.float32(0))",
         "relax.nn.leakyrelu", alpha=0.25),
    _map("square root by a power", "T.pow(@, T.float32(0.5))", "relax.power", x2=0.5),
    _map("reciprocal", "T.float32(1) / @", "relax.divide", x1=1.0),
    _map("absolute value as a maximum", "T.max(@, T.float32(0) - @)", "relax.abs"),
    _map("silu, sigmoid first", "T.sigmoid(@) * @", "relax.nn.silu"),
    _loops("pairwise maximum pool", "x 2,3,8; out 2,3,4", "n, c, i in T.grid(2, 3, 4)",
           "out[n, c, i] = T.max(x[n, c, 2 * i], x[n, c, 2 * i + 1])", "relax.nn.max_pool1d",
           pool_size=(2,), strides=(2,)),
    _loops("average of two neighbours", "x 2,3,8; out 2,3,7", "n, c, i in T.grid(2, 3, 7)",
           "out[n, c, i] = (x[n, c, i] + x[n, c, i + 1]) * T.float32(0.5)",
           "relax.nn.avg_pool1d", pool_size=(2,), count_include_pad=False),
    _loops("a 2x2 convolution written out", "x 1,1,5,5; w 1,1,2,2; out 1,1,4,4",
           "i, j in T.grid(4, 4)",
           "out[0, 0, i, j] = (x[0, 0, i, j] * w[0, 0, 0, 0] + x[0, 0, i, j + 1] * w[0, 0, 0, 1]\n"
           "    + x[0, 0, i + 1, j] * w[0, 0, 1, 0] + x[0, 0, i + 1, j + 1] * w[0, 0, 1, 1])",
           "relax.nn.conv2d"),
    _loops("rows summed by fours", "x 3,8; out 3", "i in range(3)",
           "out[i] = T.float32(0)\nfor k in range(2):\n"
           "    out[i] += x[i, 4 * k] + x[i, 4 * k + 1] + x[i, 4 * k + 2] + x[i, 4 * k + 3]",
           "relax.sum", axis=[1]),
    _loops("even and odd elements apart", "x 3,8; out 3", "i in range(3)",
           "out[i] = T.float32(0)\nfor k in range(4):\n    out[i] += x[i, 2 * k]\n"
           "for k in range(4):\n    out[i] += x[i, 2 * k + 1]",
           "relax.sum", axis=[1]),
    _loops("mean by a running sum over the column", "x 6,4; out 1,4", "j in range(4)",
           "out[0, j] = x[0, j]\nfor k in range(5):\n    out[0, j] += x[k + 1, j]\n"
           "out[0, j] = out[0, j] / T.float32(6)",
           "relax.mean", axis=[0], keepdims=True),
    _loops("standard deviation from moments", "x 3,8; out 3", "i in range(3)",
           "s = T.alloc_buffer((2,))\ns[0] = T.float32(0)\ns[1] = T.float32(0)\n"
           "for k in range(8):\n    s[0] += x[i, k]\n    s[1] += x[i, k] * x[i, k]\n"
           "out[i] = T.sqrt((s[1] - s[0] * s[0] / T.float32(8)) / T.float32(8))",
           "relax.std", axis=[1]),
    _loops("minimum from the last element", "x 3,6; out 3", "i in range(3)",
           "out[i] = x[i, 5]\nfor k in range(6):\n    out[i] = T.min(x[i, k], out[i])",
           "relax.min", axis=[1]),
    _loops("matrix product from the end", "a 4,6; b 6,5; c 4,5", "i, j in T.grid(4, 5)",
           "c[i, j] = T.float32(0)\nfor k in range(6):\n    c[i, j] += b[5 - k, j] * a[i, 5 - k]",
           "relax.matmul"),
    _loops("matrix product, first term outside", "a 4,6; b 6,5; c 4,5", "i, j in T.grid(4, 5)",
           "c[i, j] = a[i, 0] * b[0, j]\nfor k in range(5):\n"
           "    c[i, j] += a[i, k + 1] * b[k + 1, j]",
           "relax.matmul"),
    _loops("rms norm, scaled before", "x 4,8; w 8; out 4,8", "i in range(4)",
           "q = T.alloc_buffer((1,))\nq[0] = T.float32(0)\nfor k in range(8):\n"
           "    q[0] += x[i, k] * x[i, k] * T.float32(0.125)\nfor k in range(8):\n"
           "    out[i, k] = w[k] / T.sqrt(q[0] + T.float32(1e-5)) * x[i, k]",
           "relax.nn.rms_norm", axes=[1], epsilon=1e-5),
    _loops("softmax, maximum from the first element", "x 4,6; out 4,6", "i in range(4)",
           "m = T.alloc_buffer((2,))\nm[0] = x[i, 0]\nm[1] = T.float32(0)\nfor k in range(6):\n"
           "    m[0] = T.max(m[0], x[i, k])\nfor k in range(6):\n"
           "    m[1] += T.exp(x[i, k] - m[0])\nfor k in range(6):\n"
           "    out[i, k] = T.exp(x[i, k] - m[0]) / m[1]",
           "relax.nn.softmax", axis=1),
    _loops("transposed twice", "x 4,6; out 4,6", "i, j in T.grid(4, 6)",
           "t = T.alloc_buffer((6, 4))\nt[j, i] = x[i, j]\nout[i, j] = t[j, i]",
           "relax.astype", dtype="float32"),
    _loops("roll by two: no single operator", "x 8; out 8", "i in range(8)",
           "out[i] = x[(i + 2) % 8]"),
    _loops("interleaved pairs: a stack seen flat", "a 6; b 6; out 12", "i in range(6)",
           "out[2 * i] = a[i]\nout[2 * i + 1] = b[i]", "relax.stack", axis=1),
    _loops("every third row, backwards", "x 9,4; out 3,4",
           "i, j in T.grid(3, 4)", "out[i, j] = x[8 - 3 * i, j]",
           "relax.strided_slice", axes=[0], begin=[8], end=[-10], strides=[-3]),
    _loops("upper triangle by Select", "x 5,5; out 5,5", "i, j in T.grid(5, 5)",
           "out[i, j] = T.Select(i <= j, x[i, j], T.float32(0))", "relax.triu", k=0),
    _loops("padded by clamps and a mask", "x 6; out 8", "i in range(8)",
           "out[i] = T.if_then_else(i < 6, x[T.min(i, 5)], T.float32(0))",
           "relax.nn.pad", pad_width=[0, 2], pad_value=0.0),
    _loops("broadcast row added", "x 4,6; b 6; out 4,6", "j, i in T.grid(6, 4)",
           "out[i, j] = b[j] + x[i, j]", "relax.add"),
    _loops("dilated depthwise, channels last", "x 1,9,9,4; w 3,3,4,1; out 1,5,5,4",
           "i, j, c in T.grid(5, 5, 4)",
           "out[0, i, j, c] = T.float32(0)\nfor a, b in T.grid(3, 3):\n"
           "    out[0, i, j, c] += w[a, b, c, 0] * x[0, i + 2 * a, j + 2 * b, c]",
           "relax.nn.conv2d", groups=4, dilation=(2, 2), data_layout="NHWC",
           kernel_layout="HWOI"),
    _loops("maximum of absolute values: two operators", "x 3,6; out 3", "i in range(3)",
           f"out[i] = {_LOW}\nfor k in range(6):\n    out[i] = T.max(out[i], T.fabs(x[i, k]))"),
]  # fmt: skip
