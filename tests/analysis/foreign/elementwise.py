"""Activations, unary and binary operators as people write them."""

from __future__ import annotations

from typing import Any

from tvm import topi

from .case import Foreign, script, tensors

nn = topi.nn


def _map(form: str, formula: str, op: str = "", **attrs: Any) -> Foreign:
    """One tensor, element by element: ``@`` is the element, ``1.5f`` a float32."""
    import re

    text = re.sub(r"(-?\d+(?:\.\d+)?(?:e-?\d+)?)f\b", r"T.float32(\1)", formula)
    body = f"for i, j in T.grid(4, 6):\n    out[i, j] = {text.replace('@', 'x[i, j]')}"
    return Foreign(form, script("x 4,6; out 4,6", body), op, attrs)


CASES = [
    _map("relu, zero first", "T.max(0f, @)", "relax.maximum", x1=0.0),
    _map("relu by Select", "T.Select(@ > 0f, @, 0f)", "relax.nn.relu"),
    _map("relu by if_then_else, the other way", "T.if_then_else(@ < 0f, 0f, @)", "relax.nn.relu"),
    _map("relu6", "T.min(T.max(@, 0f), 6f)", "relax.nn.relu6"),
    _map("relu6, minimum inside", "T.max(0f, T.min(6f, @))", "relax.nn.relu6"),
    _map("clip", "T.max(T.min(@, 2.5f), -1f)", "relax.clip", min=-1.0, max=2.5),
    _map("leaky relu", "T.Select(@ > 0f, @, @ * 0.25f)", "relax.nn.leakyrelu", alpha=0.25),
    _map("leaky relu as a maximum", "T.max(@, @ * 0.25f)", "relax.nn.leakyrelu", alpha=0.25),
    _map("sigmoid by definition", "1f / (1f + T.exp(0f - @))", "relax.sigmoid"),
    _map("sigmoid, negated", "1f / (1f + T.exp(@ * -1f))", "relax.sigmoid"),
    _map("silu with the intrinsic", "@ * T.sigmoid(@)", "relax.nn.silu"),
    _map("silu, divided", "@ / (1f + T.exp(0f - @))", "relax.nn.silu"),
    _map("gelu", "@ * 0.5f * (1f + T.erf(@ * 0.70710678118654757f))", "relax.nn.gelu"),
    _map(
        "gelu, halved last", "0.5f * (@ * (T.erf(@ * 0.70710678118654757f) + 1f))", "relax.nn.gelu"
    ),
    _map(
        "gelu, divided by the root of two",
        "0.5f * @ * (1f + T.erf(@ / 1.4142135623730951f))",
        "relax.nn.gelu",
    ),
    _map(
        "gelu_tanh",
        "0.5f * @ * (1f + T.tanh(0.7978845608028654f * (@ + 0.044715f * @ * @ * @)))",
        "relax.nn.gelu_tanh",
    ),
    _map(
        "gelu by a sigmoid: another function",
        "@ * T.sigmoid(1.702f * @)",
    ),
    # relax.nn.softplus is x itself above its threshold
    _map("softplus without a threshold", "T.log(1f + T.exp(@))"),
    _map("hard sigmoid: no operator", "T.max(0f, T.min(1f, @ * 0.2f + 0.5f))"),
    _map("0 - x: negation but for the sign of zero", "0f - @", "relax.subtract", x1=0.0),
    _map("negation as -1 * x", "-1f * @", "relax.negative"),
    _map("absolute value by Select", "T.Select(@ < 0f, 0f - @, @)", "relax.abs"),
    _map("square", "@ * @", "relax.square"),
    _map("square by a power", "T.pow(@, 2f)", "relax.power", x2=2.0),
    _map("reciprocal of the root", "1f / T.sqrt(@)", "relax.rsqrt"),
    _map(
        "doubled as x + x",
        "@ + @",
        "relax.add",
    ),
    _map("scaled", "@ * 3f", "relax.multiply", x2=3.0),
    _map("scaled, the constant first", "3f * @", "relax.multiply", x2=3.0),
    _map("divided by a constant", "@ / 4f", "relax.divide", x2=4.0),
    _map("a constant divided", "4f / @", "relax.divide", x1=4.0),
    _map("shifted by a negative constant", "@ - 1.5f", "relax.subtract", x2=1.5),
    _map("identity", "@", "relax.astype", dtype="float32"),
    _map("a linear function: two operators", "@ * 2f + 1f"),
    Foreign(
        "sum of rows and a column, one loop",
        script(
            "a 4,6; b 4,1; c 4,6",
            "for f in range(24):\n    c[f // 6, f % 6] = b[f // 6, 0] + a[f // 6, f % 6]",
        ),
        "relax.add",
    ),
    Foreign(
        "minimum by an if statement",
        script(
            "a 4,6; b 4,6; c 4,6",
            """
            for i, j in T.grid(4, 6):
                if a[i, j] < b[i, j]:
                    c[i, j] = a[i, j]
                else:
                    c[i, j] = b[i, j]
            """,
        ),
        "relax.minimum",
    ),
    Foreign(
        "where, condition of bool",
        script(
            "k bool 4,6; a 4,6; b 6; c 4,6",
            "for i, j in T.grid(4, 6):\n    c[i, j] = T.if_then_else(k[i, j], a[i, j], b[j])",
        ),
        "relax.where",
    ),
    Foreign(
        "where by two guarded stores",
        script(
            "k bool 4,6; a 4,6; b 4,6; c 4,6",
            """
            for i, j in T.grid(4, 6):
                if k[i, j]:
                    c[i, j] = a[i, j]
                if not k[i, j]:
                    c[i, j] = b[i, j]
            """,
        ),
        "relax.where",
    ),
    Foreign(
        "a comparison",
        script(
            "a 4,6; b 4,6; c bool 4,6", "for i, j in T.grid(4, 6):\n    c[i, j] = b[i, j] > a[i, j]"
        ),
        "relax.less",
        also=("relax.greater",),
    ),
    Foreign(
        "a cast",
        script(
            "a 4,6; c float16 4,6",
            'for i, j in T.grid(4, 6):\n    c[i, j] = T.cast(a[i, j], "float16")',
        ),
        "relax.astype",
        {"dtype": "float16"},
    ),
    Foreign(
        "exclusive or of int32",
        script(
            "a int32 4,6; b int32 4,6; c int32 4,6",
            "for i, j in T.grid(4, 6):\n    c[i, j] = T.bitwise_xor(a[i, j], b[i, j])",
        ),
        "relax.bitwise_xor",
    ),
    Foreign(
        "topi leaky_relu",
        tensors(lambda x: nn.leaky_relu(x, 0.1), "4,6"),
        "relax.nn.leakyrelu",
        {"alpha": 0.1},
    ),
    Foreign(
        "topi prelu",
        tensors(lambda x, s: nn.prelu(x, s, 1), "2,3,4", "3"),
        "relax.nn.prelu",
        {"axis": 1},
    ),
    Foreign(
        "topi softplus",
        tensors(lambda x: nn.softplus(x, 2.0, 10.0), "4,6"),
        "relax.nn.softplus",
        {"beta": 2.0, "threshold": 10.0},
    ),
    Foreign("topi log2", tensors(topi.log2, "4,6")),
    Foreign("topi log10", tensors(topi.log10, "4,6")),
    Foreign("topi sigmoid", tensors(topi.sigmoid, "4,6"), "relax.sigmoid"),
    Foreign("topi sign", tensors(topi.sign, "4,6"), "relax.sign"),
    Foreign("topi fast_tanh: a rational function", tensors(topi.fast_tanh, "4,6")),
    Foreign("topi fast_erf: a rational function", tensors(topi.fast_erf, "4,6")),
    Foreign("topi floor_mod", tensors(topi.floor_mod, "int32 4,6", "int32 6"), "relax.floor_mod"),
    Foreign("topi power", tensors(topi.power, "4,6", "4,6"), "relax.power"),
    Foreign(
        "topi logical_xor",
        tensors(topi.logical_xor, "bool 4,6", "bool 4,6"),
        "relax.logical_xor",
        also=("relax.not_equal", "relax.bitwise_xor"),
    ),
    Foreign("topi log_add_exp", tensors(topi.log_add_exp, "4,6", "4,6"), "relax.log_add_exp"),
    Foreign(
        "topi elemwise_sum of three",
        tensors(lambda *a: topi.elemwise_sum(list(a)), "4,6", "4,6", "4,6"),
    ),
    Foreign("topi isfinite", tensors(topi.isfinite, "4,6"), "relax.isfinite"),
]
