"""Conversions and copies.

    astype(x)[y] = convert(x[y])       dropout(x) = (x, 1), as in inference

A widening conversion of integers is the identity on terms: only the dtypes of the buffers
show it. A copy is a conversion to its own dtype: of all identity operators, this one needs no
shape, is elementwise and is valid in every layout. Reshape is an alternative.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ...lifting.tir.operations import cast
from ...proposal.proposal import Proposal
from ...proposal.undetermined import numbers
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import INT_DTYPES, Load, Term, as_int
from ...terms.term.literals import is_const
from ._scalar import scalar

TYPES = ("float32", "float16", "int8", "uint8", "int32", "int64", "bool")

MATCHES = [
    *(Matches("relax.astype", (f"{a}[2, n]",), {"dtype": b}) for a in TYPES for b in TYPES),
    Matches("relax.astype", ("float32[3]",), {"dtype": "bfloat16"}),
    Matches("relax.nn.dropout", ("float32[3, n]",), {"rate": 0.25}, {"rate": 0.5}),
]

REFUSES = [
    Refuses(
        "the conversion goes through a narrower type",
        """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4,), "int64"), out: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.sblock("c"):
            vi = T.axis.spatial(4, i)
            out[vi] = T.Cast("float32", T.Cast("int32", x[vi]))
""",
    ),
    Refuses(
        "the elements are reversed",
        """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4,), "float32"), out: T.Buffer((4,), "float16")):
    for i in range(4):
        with T.sblock("c"):
            vi = T.axis.spatial(4, i)
            out[vi] = T.Cast("float16", x[3 - vi])
""",
    ),
]


RATE = numbers(["rate"], "nothing is dropped in inference")


@recogniser("convert", precedence=140, ops=("relax.astype", "relax.nn.dropout"))
def convert(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match ``out[y] = convert(x[y])``, where the second output of a dropout is constantly one."""
    if not expression.outputs or len(expression.outputs) > 2:
        return Refusal("a conversion has one output")
    definition = expression.outputs[0]
    source = _source(definition)
    if isinstance(source, Refusal):
        return source
    if len(expression.outputs) == 1:
        return [
            Proposal("relax.astype", (source.tensor.position,), {"dtype": definition.out.dtype})
        ]
    same_dtype = definition.out.dtype == source.tensor.dtype
    if not same_dtype or not is_const(expression.outputs[1].body, 1):
        return Refusal("the second output is not 1 everywhere")
    operands = (source.tensor.position,)
    return [Proposal("relax.nn.dropout", operands, {"rate": 0.5}, undetermined=RATE)]


def _source(definition: OutputDefinition) -> Load | Refusal:
    """The load that is converted."""
    formula = scalar(definition.body)
    if formula.reason or len(formula.loads) != 1:
        return Refusal(formula.reason or "the compute does not read exactly one element")
    (load,) = formula.loads
    if load.indices != definition.axes or load.tensor.shape != definition.out.shape:
        return Refusal("the operand is not read at the output's own coordinates")
    value: Term = as_int(load) if load.tensor.dtype in INT_DTYPES else load
    if load.tensor.dtype != definition.out.dtype:
        value = cast(value, definition.out.dtype)
    if value is not definition.body:
        return Refusal("the compute is not a conversion", formula.root)
    return load
