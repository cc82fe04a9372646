"""shape_to_tensor: ``out[k] = shape[k]``, a vector of sizes.

A vector with a single literal value is `full`. ``relax.size`` is this and a product.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import SIZES, Int, integer
from ...terms.traversal import free, ints
from .._forms.access_functions import dims

OP = "relax.shape_to_tensor"
#: The longest vector that counts as a shape.
RANK = 16

MATCHES = [
    Matches(OP, (), {"expr": (3, 4)}),
    Matches(OP, (), {"expr": (3, "n", 1, "m")}),
    Matches(OP, (), {"expr": ("n",)}),
    Matches(OP, (), {"expr": (5, 5)}, {"shape": (2,), "fill_value": 5}, "relax.full"),
]

REFUSES = [
    Refuses(
        "one of the numbers comes from data",
        """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((1,), "int64"), out: T.Buffer((2,), "int64")):
    for i in range(2):
        out[i] = T.if_then_else(i == 0, x[0], T.int64(4))
""",
    ),
    Refuses(
        "the maximum of data",
        """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 2), "int64"), out: T.Buffer((2,), "int64")):
    for i in range(2):
        out[i] = T.min_value("int64")
        for k in range(4):
            out[i] = T.max(out[i], x[k, i] + x[k, 0])
""",
    ),
    Refuses(
        "a vector of another dtype",
        """
@T.prim_func(s_tir=True)
def main(out: T.Buffer((2,), "int32")):
    for i in range(2):
        out[i] = T.if_then_else(i == 0, 3, 4)
""",
    ),
]


@recogniser("shape_to_tensor", precedence=357, ops=(OP,))
def shape_to_tensor(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match a value at each coordinate that is a polynomial over the sizes."""
    (definition,) = expression.outputs[:1]
    if (
        len(expression.outputs) != 1
        or len(definition.axes) != 1
        or not isinstance(definition.body, Int)
    ):
        return Refusal("the output is not one vector of integers")
    extent = definition.out.shape[0].const
    if extent is None or extent > RANK or definition.out.dtype != "int64":
        return Refusal("a shape is a short int64 vector")
    (var,) = free(definition.axes[0]) or (None,)
    values = [
        definition.body if var is None else ints(definition.body, {var: coordinate})
        for coordinate in map(integer, range(extent))
    ]
    if any(v.kind not in SIZES for value in values for v in free(value)):
        return Refusal("the values do not depend on shapes only")
    if any(value.const is not None and value.const < 0 for value in values):
        return Refusal("a size cannot be negative")
    return [Proposal(OP, (), {"expr": dims(values)})]
