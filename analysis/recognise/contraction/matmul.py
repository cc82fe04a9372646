"""Matrix products, batched and broadcast.

out[b, i, j] = Σ_k x1[b, i, k] * x2[b, k, j]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ._matrix_product import factors, is_matmul

MATCHES = [
    Matches("relax.matmul", ("float32[4, 5]", "float32[5, 6]")),
    Matches("relax.matmul", ("float32[n, 4, 5]", "float32[5, 6]")),
    Matches("relax.matmul", ("float16[2, 3, n, m]", "float16[2, 3, m, n]")),
    Matches("relax.matmul", ("float32[3, 1, 4, 5]", "float32[2, 5, 6]")),
    Matches("relax.matmul", ("float32[5]", "float32[5, 6]")),
    Matches("relax.matmul", ("float32[4, 5]", "float32[5]")),
    Matches("relax.matmul", ("int8[4, 5]", "int8[5, 6]"), {"out_dtype": "int32"}),
]

REFUSES = [
    Refuses(
        "one term of the sum is missing",
        """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 8), "float32"), w: T.Buffer((8, 6), "float32"),
         out: T.Buffer((4, 6), "float32")):
    for i, j, k in T.grid(4, 6, 7):
        with T.sblock("c"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                out[vi, vj] = T.float32(0)
            out[vi, vj] += x[vi, vk] * w[vk, vj]
""",
    ),
]


@recogniser("matmul", precedence=620, ops=("relax.matmul",))
def matmul(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match a sum of products whose indices are those of a matrix product."""
    product = factors(expression)
    if isinstance(product, Refusal):
        return product
    attrs = product.attrs(expression.outputs[0].out.dtype)
    return [
        Proposal("relax.matmul", (order.a.tensor.position, order.b.tensor.position), attrs)
        for order in (product, replace(product, a=product.b, b=product.a))
        if is_matmul(order)
    ]
