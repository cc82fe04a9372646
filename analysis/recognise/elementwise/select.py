"""Selection and clipping.

where(c, a, b) = a if c else b        clip(x, min, max) = max(min(x, max), min)
"""

from __future__ import annotations

from collections.abc import Sequence

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.condition_terms import ite
from ._elementwise import Ops, proposals
from ._template import ANY, NUMBERS, ElementwiseOp

OPS = Ops(
    ElementwiseOp("relax.where", "ite", ANY, ("bool", None, None), formula=ite),
    ElementwiseOp(
        "relax.clip", "max", NUMBERS, uses="min", attrs={"min": (11, 13), "max": (23, 29)}
    ),
)

MATCHES = [
    *(
        Matches("relax.where", (f"bool{c}", f"{dtype}{a}", f"{dtype}{b}"))
        for dtype in ("float32", "float16", "int8", "int32", "int64", "bool")
        for c, a, b in (("[n, 4]",) * 3, ("[2, 1, 4]", "[]", "[3, 1]"))
    ),
    Matches("relax.where", ("bool[]", "float32[]", "float32[]")),
    Matches("relax.clip", ("float32[2, n]",), {"min": 0.0, "max": 1.0}),
    Matches("relax.clip", ("float16[2, n]",), {"min": -0.5, "max": 0.25}),
    Matches("relax.clip", ("int8[n]",), {"min": -3, "max": 4}),
    Matches("relax.clip", ("int32[n]",), {"min": -3, "max": 4}),
    Matches("relax.clip", ("int64[n]",), {"min": 1, "max": 255}),
]

REFUSES = [
    Refuses(
        "contradictory bounds, applied in the opposite order of clip",
        """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4,), "float32"), out: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.sblock("c"):
            vi = T.axis.spatial(4, i)
            out[vi] = T.min(T.max(x[vi], T.float32(1)), T.float32(0))
""",
    ),
    Refuses(
        "the condition is read at other coordinates",
        """
@T.prim_func(s_tir=True)
def main(c: T.Buffer((4,), "bool"), x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32"),
         out: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.sblock("c"):
            vi = T.axis.spatial(4, i)
            out[vi] = T.Select(c[3 - vi], x[vi], y[vi])
""",
    ),
]


@recogniser("select", precedence=130, ops=[op.name for op in OPS])
def select(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match ``out[y] = f(...)``, where f is the formula of one of `OPS`."""
    return proposals(expression, OPS)
