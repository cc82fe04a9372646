"""Matrix products, batched and broadcast.

out[b, i, j] = Σ_k x1[b, i, k] * x2[b, k, j]
"""

from __future__ import annotations

from collections.abc import Sequence

from ..lifting.effects.tensor_expression import TensorExpression
from ..proposal.proposal import Proposal
from ..results.op_info import Refusal
from ..terms.term import ONE, Int, Load, TensorVar
from . import Matches, Refuses, recogniser
from ._contraction import Product, only, product

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
    if len(expression.outputs) != 1:
        return Refusal("a matrix product has one output")
    contraction = product(expression.outputs[0].body)
    if contraction is None or len(contraction.loads) != 2 or contraction.guards:
        return Refusal("the compute is not a sum of products of two operands")
    if not contraction.reduce.axes and all(
        poly is not ONE for load in contraction.loads for poly in load.tensor.shape
    ):
        return Refusal("nothing is summed")
    if any(only(i) is None and i.const != 0 for x in contraction.loads for i in x.indices):
        return Refusal("an operand is not read at plain coordinates", repr(contraction.loads))
    out = []
    for a, b in (contraction.loads, contraction.loads[::-1]):
        if _is_matmul(expression, contraction, a, b):
            out.append(_proposal(expression, a.tensor, b.tensor))
    return out


def _is_matmul(expression: TensorExpression, contraction: Product, a: Load, b: Load) -> bool:
    """Whether the last index of a and the second to last of b are contracted."""
    axes = expression.outputs[0].axes
    if not (a.indices and b.indices):  # a scalar
        return False
    index = a.indices[-1]
    if only(index) is not None and only(index) not in contraction.reduce.axes:
        return False
    if b.indices[-2 if len(b.indices) > 1 else -1] is not index:
        return False
    inner = a.tensor.shape[-1], b.tensor.shape[-2 if len(b.indices) > 1 else -1]
    if inner[0] is not inner[1] and None not in (inner[0].const, inner[1].const):
        return False  # of two sizes TVM takes the first for both
    remaining_axes = list(axes)
    if len(b.indices) > 1 and (not remaining_axes or not _reads(b, -1, remaining_axes.pop())):
        return False
    if len(a.indices) > 1 and (not remaining_axes or not _reads(a, -2, remaining_axes.pop())):
        return False
    return all(_batch(x.indices[:-2], x.tensor.shape[:-2], tuple(remaining_axes)) for x in (a, b))


def _reads(load: Load, position: int, axis: Int) -> bool:
    return load.indices[position] is axis


def _batch(indices: tuple[Int, ...], shape: tuple[Int, ...], axes: tuple[Int, ...]) -> bool:
    """Whether batch dimensions align at the end; one of extent 1 is broadcast."""
    if len(indices) > len(axes):
        return False
    aligned = axes[len(axes) - len(indices) :]
    return all(i is a or e.const == 1 for i, e, a in zip(indices, shape, aligned, strict=True))


def _proposal(expression: TensorExpression, a: TensorVar, b: TensorVar) -> Proposal:
    out = expression.outputs[0].out
    attrs = {"out_dtype": out.dtype} if {a.dtype, b.dtype} != {out.dtype} else {}
    return Proposal("relax.matmul", (a.position, b.position), attrs)
