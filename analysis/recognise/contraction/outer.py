"""Outer product: ``out[i, j] = x1[i] * x2[j]``."""

from __future__ import annotations

from collections.abc import Sequence

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import Load
from ...terms.traversal import subterms

MATCHES = [
    Matches("relax.outer", ("float32[4]", "float32[n]")),
    Matches("relax.outer", ("int8[4]", "int8[5]")),
]

REFUSES = [
    Refuses(
        "a sum, not a product",
        """
@T.prim_func(s_tir=True)
def main(a: T.Buffer((4,), "float32"), b: T.Buffer((5,), "float32"),
         c: T.Buffer((4, 5), "float32")):
    for i, j in T.grid(4, 5):
        with T.sblock("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            c[vi, vj] = a[vi] + b[vj]
""",
    ),
]


@recogniser("outer", precedence=630, ops=("relax.outer",))
def outer(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match two vectors, one read at the first coordinate and one at the second."""
    (definition,) = expression.outputs[:1]
    if len(expression.outputs) != 1 or len(definition.axes) != 2:
        return Refusal("an outer product has one output of rank 2")
    by_axis = {s.indices: s for s in subterms(definition.body) if isinstance(s, Load)}
    x1, x2 = by_axis.get(definition.axes[:1]), by_axis.get(definition.axes[1:])
    if len(by_axis) != 2 or x1 is None or x2 is None:
        return Refusal("the operands are not two vectors, one for each coordinate")
    return [Proposal("relax.outer", (x1.tensor.position, x2.tensor.position))]
