"""Elementwise operators in other words, quantisation, and logic by branches."""

from __future__ import annotations

from typing import Any

from opinfo.analysis import Constant

from ..case import Foreign
from ..unseen3.programs import program


def _map(form: str, expr: str, op: str = "", params: str = "x 4,6", **attrs: Any) -> Foreign:
    """One loop nest of 4 x 6; ``@`` is the first parameter's element, ``%`` the second's."""
    body = expr.replace("@", "x[i, j]").replace("%", "y[i, j]")
    result = attrs.pop("result", "float32")
    text = f"for i, j in T.grid(4, 6):\n    out[i, j] = {body}"
    return program(form, f"{params}; out {result} 4,6", text, op, **attrs)


_TWO = "x 4,6; y 4,6"

CASES = [
    _map(
        "gelu, the product with one half multiplied out",
        "@ * T.float32(0.5) + @ * T.float32(0.5) * T.erf(@ * T.float32(0.70710678))",
        "relax.nn.gelu",
    ),
    _map(
        "silu by a tangent",
        "@ * (T.float32(0.5) * T.tanh(T.float32(0.5) * @) + T.float32(0.5))",
        "relax.nn.silu",
    ),
    _map("minimum by a maximum of negatives", "-T.max(-@, -%)", "relax.minimum", _TWO),
    _map(
        "not a number: differs from itself",
        "@ != @",
        "relax.isnan",
        result="bool",
        also=("relax.not_equal",),
    ),
    _map(
        "sigmoid, exponentials of negative numbers only",
        "T.if_then_else(@ >= T.float32(0), T.float32(1) / (T.float32(1) + T.exp(-@)), "
        "T.exp(@) / (T.float32(1) + T.exp(@)))",
        "relax.sigmoid",
    ),
    _map(
        "tanh by the exponential of twice the argument",
        "T.float32(1) - T.float32(2) / (T.exp(T.float32(2) * @) + T.float32(1))",
        "relax.tanh",
    ),
    _map(
        "leaky relu by a comparison and a factor",
        "@ * T.if_then_else(@ > T.float32(0), T.float32(1), T.float32(0.1))",
        "relax.nn.leakyrelu",
        alpha=0.1,
    ),
    _map(
        "clip by a minimum of maxima of negatives",
        "-T.min(-T.min(@, T.float32(2)), T.float32(1))",
        "relax.clip",
        min=-1.0,
        max=2.0,
    ),
    program(
        "and of bools by nested ifs",
        "x bool 4,6; y bool 4,6; out bool 4,6",
        """
        for i, j in T.grid(4, 6):
            out[i, j] = T.bool(False)
            if x[i, j]:
                if y[i, j]:
                    out[i, j] = T.bool(True)
        """,
        "relax.logical_and",
        also=("relax.bitwise_and",),
    ),
    program(
        "exclusive or of bools by branches",
        "x bool 4,6; y bool 4,6; out bool 4,6",
        """
        for i, j in T.grid(4, 6):
            if x[i, j]:
                out[i, j] = not y[i, j]
            else:
                out[i, j] = y[i, j]
        """,
        "relax.logical_xor",
        also=("relax.bitwise_xor", "relax.not_equal"),
    ),
    _map(
        "product of half precision in float32",
        'T.Cast("float16", T.Cast("float32", @) * T.Cast("float32", %))',
        "relax.multiply",
        "x float16 4,6; y float16 4,6",
        result="float16",
    ),
    _map(
        "sum of bytes in int32, wrapped by the cast",
        'T.Cast("uint8", T.Cast("int32", @) + T.Cast("int32", %))',
        "relax.add",
        "x uint8 4,6; y uint8 4,6",
        result="uint8",
    ),
    program(
        "quantise by a scale and a zero point of each column",
        "x n,6; s 6; z int8 6; out int8 n,6",
        """
        for i, j in T.grid(n, 6):
            out[i, j] = T.Cast("int8", T.min(T.max(T.round(x[i, j] / s[j])
                + T.Cast("float32", z[j]), T.float32(-128)), T.float32(127)))
        """,
        "relax.quantize",
        axis=1,
    ),
    program(
        "dequantise by columns, zero points subtracted in int32",
        "x int8 n,6; s 6; z int8 6; out n,6",
        """
        for i, j in T.grid(n, 6):
            out[i, j] = s[j] * T.Cast("float32",
                T.Cast("int32", x[i, j]) - T.Cast("int32", z[j]))
        """,
        "relax.dequantize",
        axis=1,
    ),
    _map(
        "dequantise with the zero point multiplied out",
        'T.Cast("float32", @) * T.float32(0.5) - T.float32(1.5)',
        "relax.dequantize",
        "x int8 4,6",
        operands=(0, Constant(0.5, "float32"), Constant(3, "int8")),
    ),
    program(
        "product of int8 and its zero points: no single operator",
        "a int8 4,8; b int8 8,5; c int32 4,5",
        """
        for i, j in T.grid(4, 5):
            c[i, j] = 0
            for k in range(8):
                c[i, j] += (T.Cast("int32", a[i, k]) - 3) * T.Cast("int32", b[k, j])
        """,
    ),
    _map(
        "requantised by a multiplier and a shift: no single operator",
        'T.Cast("int8", T.max(T.min(T.shift_right(@ * 77 + 128, 8), 127), -128))',
        "",
        "x int32 4,6",
        result="int8",
    ),
    _map(
        "quantised with halves rounded up: not to even",
        'T.Cast("int8", T.max(T.min(T.floor(@ / T.float32(0.5) + T.float32(0.5)), '
        "T.float32(127)), T.float32(-128)))",
        result="int8",
    ),
]
