"""Activations, comparisons, casts, quantisation: one formula an element, in other words."""

from __future__ import annotations

from typing import Any

from opinfo.analysis import Constant

from ..case import Foreign
from .programs import program


def _map(form: str, value: str, op: str = "", dtype: str = "float32", **more: Any) -> Foreign:
    """``@`` is the element of ``x``, ``y`` that of a second operand."""
    second = f"y {dtype} n,7; " if "y" in value.split("@")[0] or " y " in value else ""
    body = f"for i, j in T.grid(n, 7):\n    out[i, j] = {value.replace('@', 'x[i, j]')}"
    body = body.replace(" y ", " y[i, j] ")
    result = more.pop("result", dtype)
    return program(form, f"x {dtype} n,7; {second}out {result} n,7", body, op, **more)


def _if(form: str, steps: str, op: str = "", **more: Any) -> Foreign:
    body = "for i, j in T.grid(5, 7):\n" + "".join(
        f"    {line}\n"
        for line in steps.replace("@", "x[i, j]").replace("$", "out[i, j]").split("\n")
    )
    return program(form, "x 5,7; out 5,7", body, op, **more)


CASES = [
    _map(
        "sigmoid by tanh",
        "T.float32(0.5) * T.tanh(@ * T.float32(0.5)) + T.float32(0.5)",
        "relax.sigmoid",
    ),
    _map(
        "tanh by sigmoid", "T.float32(2) * T.sigmoid(T.float32(2) * @) - T.float32(1)", "relax.tanh"
    ),
    _map("silu by an exponential", "@ / (T.float32(1) + T.exp(-@))", "relax.nn.silu"),
    _map(
        "silu by tanh",
        "@ * (T.float32(0.5) * T.tanh(T.float32(0.5) * @) + T.float32(0.5))",
        "relax.nn.silu",
    ),
    _map(
        "gelu, half of x first",
        "T.float32(0.5) * @ * (T.float32(1) + T.erf(@ * T.float32(0.70710678118654752)))",
        "relax.nn.gelu",
    ),
    _map(
        "gelu by tanh, x squared first",
        "T.float32(0.5) * @ * (T.float32(1) + T.tanh(T.float32(0.7978845608028654) * @ "
        "* (T.float32(1) + T.float32(0.044715) * @ * @)))",
        "relax.nn.gelu_tanh",
    ),
    _map(
        "gelu by a sigmoid of twice the argument of tanh",
        "@ * T.sigmoid(T.float32(1.5957691216057308) * (@ + T.float32(0.044715) * @ * @ * @))",
        "relax.nn.gelu_tanh",
    ),
    _map(
        "relu by if_then_else", "T.if_then_else(@ > T.float32(0), @, T.float32(0))", "relax.nn.relu"
    ),
    _map(
        "relu6, nested if_then_else",
        "T.if_then_else(@ <= T.float32(0), T.float32(0), T.if_then_else(@ >= T.float32(6), "
        "T.float32(6), @))",
        "relax.nn.relu6",
    ),
    _if(
        "relu by an if with both branches",
        "if @ < T.float32(0):\n    $ = T.float32(0)\nelse:\n    $ = @",
        "relax.nn.relu",
    ),
    _if(
        "leaky relu by an if with both branches",
        "if @ > T.float32(0):\n    $ = @\nelse:\n    $ = @ * T.float32(0.1)",
        "relax.nn.leakyrelu",
        alpha=0.1,
    ),
    _if(
        "clip by a chain of ifs",
        "if @ < T.float32(-2):\n    $ = T.float32(-2)\nelse:\n    if @ > T.float32(3):\n"
        "        $ = T.float32(3)\n    else:\n        $ = @",
        "relax.clip",
        min=-2.0,
        max=3.0,
    ),
    _if(
        "absolute value by negating in place",
        "$ = @\nif $ < T.float32(0):\n    $ = T.float32(0) - $",
        "relax.abs",
    ),
    _map(
        "sign by two comparisons",
        'T.Cast("float32", @ > T.float32(0)) - T.Cast("float32", @ < T.float32(0))',
        "relax.sign",
    ),
    _map("maximum of two by Select", "T.Select(@ >= y , @, y )", "relax.maximum"),
    _map("minimum of two by if_then_else", "T.if_then_else( y < @, y , @)", "relax.minimum"),
    _map("division by a reciprocal", "@ * (T.float32(1) / y )", "relax.divide"),
    _map("difference as a sum with the negative", "@ + T.float32(-1) * y ", "relax.subtract"),
    _map("reciprocal square root as a quotient", "T.float32(1) / T.sqrt(@)", "relax.rsqrt"),
    _map(
        "sum of float16 in float32",
        'T.Cast("float16", T.Cast("float32", @) + T.Cast("float32", y ))',
        "relax.add",
        "float16",
    ),
    _map("remainder of eight by and", "@ & 7", "relax.floor_mod", "int32", x2=8),
    _map("quotient of eight by a shift", "@ >> 3", "relax.floor_divide", "int32", x2=8),
    _map(
        "exclusive or of bools by not equal",
        "( @ or y ) and not ( @ and y )",
        "relax.logical_xor",
        "bool",
        also=("relax.bitwise_xor", "relax.not_equal"),
    ),
    _map(
        "quantise by 0.1 with clamps",
        'T.Cast("int8", T.max(T.min(T.round(@ / T.float32(0.1)) + T.float32(5), T.float32(127)), '
        "T.float32(-128)))",
        "relax.quantize",
        result="int8",
        operands=(0, Constant(0.1, "float32"), Constant(5, "int8")),
    ),
    _map(
        "dequantise with a zero point subtracted in int32",
        'T.Cast("float32", T.Cast("int32", @) - 3) * T.float32(0.25)',
        "relax.dequantize",
        "int8",
        result="float32",
        operands=(0, Constant(0.25, "float32"), Constant(3, "int8")),
    ),
    program(
        "eight values of four bits a word, shifted and then masked",
        "w uint32 n,4; s n,2; out n,32",
        """
        for i, j in T.grid(n, 32):
            out[i, j] = (T.Cast("float32", T.bitwise_and(T.shift_right(w[i, j // 8],
                T.Cast("uint32", j % 8 * 4)), T.uint32(15))) - T.float32(7)) * s[i, j // 16]
        """,
        "relax.nn.group_dequantize",
        bits=4,
        group_size=16,
        axis=1,
        offset=7.0,
    ),
    program(
        "eight values of four bits a word, masked and then shifted",
        "w uint32 n,4; s n,2; out n,32",
        """
        for i, j in T.grid(n, 32):
            out[i, j] = (T.Cast("float32", T.shift_right(T.bitwise_and(w[i, j // 8],
                T.shift_left(T.uint32(15), T.Cast("uint32", j % 8 * 4))),
                T.Cast("uint32", j % 8 * 4))) - T.float32(7)) * s[i, j // 16]
        """,
        "relax.nn.group_dequantize",
        bits=4,
        group_size=16,
        axis=1,
        offset=7.0,
    ),
    program(
        "two values of four bits a byte, stored in pairs",
        "w uint8 n,16; s n,2; out n,32",
        """
        for i, j in T.grid(n, 16):
            out[i, j * 2] = (T.Cast("float32", T.bitwise_and(w[i, j], T.uint8(15)))
                - T.float32(8)) * s[i, j >> 3]
            out[i, j * 2 + 1] = (T.Cast("float32", T.shift_right(w[i, j], T.uint8(4)))
                - T.float32(8)) * s[i, j >> 3]
        """,
        "relax.nn.group_dequantize",
        bits=4,
        group_size=16,
        axis=1,
        offset=8.0,
    ),
    program(
        "groups quantised to bytes by their largest magnitude, one loop nest",
        "x n,32; w uint8 n,32; s n,2",
        """
        for i, g in T.grid(n, 2):
            s[i, g] = T.float32(0)
            for k in range(16):
                s[i, g] = T.max(s[i, g], T.fabs(x[i, g * 16 + k]))
            s[i, g] = s[i, g] / T.float32(127)
            for k in range(16):
                w[i, g * 16 + k] = T.Cast("uint8", T.min(T.max(T.round(
                    x[i, g * 16 + k] / s[i, g] + T.float32(127)), T.float32(0)), T.float32(254)))
        """,
        "relax.nn.group_quantize",
        bits=8,
        group_size=16,
        axis=1,
        dtype="uint8",
    ),
]
