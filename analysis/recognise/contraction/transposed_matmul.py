"""Matrix products of operands that are stored transposed, batched and broadcast.

out[b, i, j] = Σ_k x1[b, i, k] * x2[b, j, k]; also Σ_k x1[b, k, i] * x2[…]

A product of two matrices and one of a batch with a matrix are one operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...composites.products import TRANSPOSED_MATMUL
from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ._matrix_product import Factors, factors, is_matmul

_NT, _TN, _TT = (False, True), (True, False), (True, True)


def _case(*operands: str, transposed: tuple[bool, bool] = _NT, **attrs: object) -> Matches:
    return Matches(TRANSPOSED_MATMUL, operands, {"transposed": transposed, **attrs})


MATCHES = [
    _case("float32[4, 5]", "float32[6, 5]"),
    _case("float16[1, 1, 5]", "float16[6, 5]"),
    _case("float32[b, n, 5]", "float32[6, 5]"),
    _case("float16[2, 3, n, 5]", "float16[2, 3, m, 5]"),
    _case("float32[2, 1, 4, 5]", "float32[3, 6, 5]"),
    _case("float16[1, n, 5]", "float16[6, 5]", out_dtype="float32"),
    _case("int8[4, 5]", "int8[6, 5]", out_dtype="int32"),
    _case("float32[5, 4]", "float32[5, 6]", transposed=_TN),
    _case("float32[2, 5, n]", "float32[2, 5, 6]", transposed=_TN),
    _case("float32[2, 5, n]", "float32[6, 5]", transposed=_TT),
]

_BODY = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((2, 4, 5), "float32"), w: T.Buffer((6, 5), "float32"),
         out: T.Buffer((2, 4, 6), "float32")):
    for b, i, j, k in T.grid(2, 4, 6, {depth}):
        with T.sblock("c"):
            vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
            with T.init():
                out[vb, vi, vj] = T.float32(0)
            out[vb, vi, vj] += x[{x}] * w[{w}]
"""

REFUSES = [
    Refuses("one term of the sum is missing", _BODY.format(depth=4, x="vb, vi, vk", w="vj, vk")),
    Refuses("the weight is read in reverse", _BODY.format(depth=5, x="vb, vi, vk", w="5 - vj, vk")),
    Refuses("the sum is over reversed rows", _BODY.format(depth=5, x="vb, vi, vk", w="vj, 4 - vk")),
    Refuses("all rows are the first one", _BODY.format(depth=5, x="vb, 0, vk", w="vj, vk")),
    Refuses("the batch is in reverse", _BODY.format(depth=5, x="1 - vb, vi, vk", w="vj, vk")),
]


@recogniser("transposed_matmul", precedence=625, ops=(TRANSPOSED_MATMUL,))
def transposed_matmul(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match a product that is a matrix product after swapping the last axes of an operand."""
    product = factors(expression)
    if isinstance(product, Refusal):
        return product
    attrs = {"out_dtype": None, **product.attrs(expression.outputs[0].out.dtype)}
    return [
        Proposal(
            TRANSPOSED_MATMUL,
            (order.a.tensor.position, order.b.tensor.position),
            {"transposed": list(transposed), **attrs},
        )
        for order, transposed in _orders(product)
        if is_matmul(order)
    ]


def _orders(product: Factors) -> Iterator[tuple[Factors, tuple[bool, bool]]]:
    """The factors in both orders, with the axes swapped of which operand is transposed."""
    for first, second in ((product.a, product.b), (product.b, product.a)):
        for transposed in (_NT, _TN, _TT):
            operands = (first, second)
            if any(swap and len(x.shape) < 2 for x, swap in zip(operands, transposed, strict=True)):
                continue
            a, b = (x.swapped if swap else x for x, swap in zip(operands, transposed, strict=True))
            yield replace(product, a=a, b=b), transposed
