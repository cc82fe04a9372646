"""Unary elementwise operators: ``out[y] = f(x[y])`` with ``f`` the formula of one op."""

from __future__ import annotations

from collections.abc import Sequence

from ...lifting.effects.tensor_expression import TensorExpression
from ...lifting.tir.operations import arithmetic
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.condition_terms import negate
from ...terms.scalar import call
from ...terms.term import Int, Term, const
from ._elementwise import Ops, proposals
from ._template import ANY, BOOL, FLOATS, INTS, NUMBERS, ElementwiseOp

SAME_NAME = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "exp", "floor"),
    *("log", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
)


def _negative(term: Term) -> Term:
    if isinstance(term, Int):
        return -term
    return call("mul", (term, const(-1.0 if term.dtype in FLOATS else -1, term.dtype)), term.dtype)


def _square(term: Term) -> Term:
    return arithmetic("mul", term, term, term.dtype)


def _same_name(name: str) -> ElementwiseOp:
    def formula(term: Term) -> Term:
        return call(name, (term,), term.dtype)

    return ElementwiseOp(f"relax.{name}", name, formula=formula)


OPS = Ops(
    *map(_same_name, SAME_NAME),
    ElementwiseOp("relax.erf", "erf cast", uses="erf"),
    ElementwiseOp("relax.round", "nearbyint"),
    ElementwiseOp("relax.isnan", "isnan"),
    ElementwiseOp("relax.isinf", "and", uses="isnan"),
    ElementwiseOp("relax.isfinite", "and", uses="isnan"),
    ElementwiseOp("relax.abs", "abs ite", NUMBERS),
    ElementwiseOp("relax.sign", "ite", NUMBERS),
    ElementwiseOp("relax.negative", "mul poly", NUMBERS, formula=_negative),
    ElementwiseOp("relax.square", "mul poly", ANY, formula=_square),
    ElementwiseOp("relax.bitwise_not", "bitnot", INTS | BOOL),
    ElementwiseOp("relax.logical_not", "not", BOOL, formula=negate),
)

MATCHES = [
    *(Matches(op.name, ("float32[2, 3, n]",)) for op in OPS if op.types >= FLOATS),
    *(Matches(op.name, ("float16[n]",)) for op in OPS if op.types >= FLOATS),
    Matches("relax.exp", ("bfloat16[4]",)),
    Matches("relax.tanh", ("float64[4]",)),
    *(
        Matches(f"relax.{name}", (f"{dtype}[n, 3]",))
        for name in ("abs", "sign", "negative", "square", "bitwise_not")
        for dtype in ("int8", "int32", "int64")
    ),
    Matches("relax.square", ("uint8[1, 3]",)),
    Matches("relax.square", ("bool[3]",)),
    Matches("relax.bitwise_not", ("bool[3]",)),
    Matches("relax.logical_not", ("bool[1, n, 1, 3]",)),
    Matches("relax.sqrt", ("float32[]",)),
]

REFUSES = [
    Refuses(
        "the coordinates are swapped",
        """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 4), "float32"), out: T.Buffer((4, 4), "float32")):
    for i, j in T.grid(4, 4):
        with T.sblock("c"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.exp(x[vj, vi])
""",
    ),
    Refuses(
        "x * x of two different coordinates is not a square",
        """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4,), "float32"), out: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.sblock("c"):
            vi = T.axis.spatial(4, i)
            out[vi] = x[vi] * x[3 - vi]
""",
    ),
    Refuses(
        "the sign of zero is one",
        """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4,), "float32"), out: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.sblock("c"):
            vi = T.axis.spatial(4, i)
            out[vi] = T.Select(x[vi] >= T.float32(0), T.float32(1),
                               T.Select(x[vi] < T.float32(0), T.float32(-1), T.float32(0)))
""",
    ),
    Refuses(
        "the first element is left out",
        """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4,), "float32"), out: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.sblock("c"):
            vi = T.axis.spatial(4, i)
            out[vi] = T.if_then_else(vi >= 1, T.exp(x[vi]), x[vi])
""",
    ),
]


@recogniser("unary", precedence=110, ops=[op.name for op in OPS])
def unary(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match ``out[y] = f(x[y])``, where f is the formula of one of `OPS`."""
    return proposals(expression, OPS)
