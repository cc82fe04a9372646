"""Binary elementwise operators with broadcasting; one operand may be a literal.

    out[y] = f(x1[y'], x2[y''])    with y', y'' the last axes of y, 0 where an extent is 1

A comparison is reported with its operands in the order of the
parameters; ``x - 2`` is a subtraction, ``2 < x`` is ``greater(x, 2)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...lifting.effects.tensor_expression import TensorExpression
from ...lifting.tir.operations import arithmetic, compare
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.scalar import extreme
from ...terms.term import Term
from ._elementwise import Ops, mixed_proposals, proposals
from ._template import ANY, BOOL, FLOATS, INTS, ElementwiseOp


def _op(
    name: str,
    roots: str,
    types: frozenset[str],
    uses: str = "",
    formula: Callable[[Term, Term], Term] | None = None,
) -> ElementwiseOp:
    return ElementwiseOp(f"relax.{name}", roots, types, (None, None), (0, 1), uses, formula=formula)


def _arithmetic(name: str, op: str) -> ElementwiseOp:
    def formula(a: Term, b: Term) -> Term:
        return arithmetic(op, a, b, a.dtype)

    return _op(name, f"{op} poly", ANY, formula=formula)


def _comparison(name: str, op: str, roots: str) -> ElementwiseOp:
    return _op(name, roots, ANY, formula=partial(compare, op))


ARITHMETIC = (
    _arithmetic("add", "add"),
    _arithmetic("subtract", "sub"),
    _arithmetic("multiply", "mul"),
    _op("divide", "div truncdiv floordiv floordiv_any", ANY),
    _op("maximum", "max", ANY, formula=partial(extreme, "max")),
    _op("minimum", "min", ANY, formula=partial(extreme, "min")),
    _op("power", "pow", FLOATS),
    _op("floor_divide", "floor floordiv floordiv_any floordiv_elem div", ANY),
    _op("floor_mod", "sub poly floormod_any floormod_elem", ANY),
    _op("mod", "truncmod poly", ANY),
    _op("atan2", "atan2", FLOATS | INTS),
    _op("log_add_exp", "log", FLOATS, uses="exp"),
)
LOGIC = (
    _op("logical_and", "and", BOOL),
    _op("logical_or", "or", BOOL),
    _op("logical_xor", "bitxor", BOOL),
    _op("bitwise_and", "bitand poly and", INTS | BOOL),
    _op("bitwise_or", "bitor or", INTS | BOOL),
    _op("bitwise_xor", "bitxor", INTS | BOOL),
    _op("left_shift", "shl", INTS),
    _op("right_shift", "shr floordiv", INTS),
)
COMPARISONS = (
    _comparison("equal", "eq", "eq eq0 ge0"),
    _comparison("not_equal", "ne", "ne not ge0"),
    _comparison("greater_equal", "ge", "le ge0"),
    _comparison("less", "lt", "lt ge0"),
    _comparison("less_equal", "le", "le ge0"),
    _comparison("greater", "gt", "lt ge0"),
)
OPS = Ops(*ARITHMETIC, *LOGIC, *COMPARISONS)
#: Operators that take operands of several dtypes.
MIXED = Ops(*COMPARISONS)


def _matches(ops: Sequence[ElementwiseOp], dtype: str, scalar: float) -> list[Matches]:
    """Calls with two tensors, with broadcasting, and with a literal on either side."""
    out = []
    for op in ops:
        if dtype not in op.types:
            continue
        out += [
            Matches(op.name, (f"{dtype}[2, n, 4]", f"{dtype}[2, n, 4]")),
            Matches(op.name, (f"{dtype}[n, 1, 3]", f"{dtype}[4, 1]")),
            Matches(
                op.name, (f"{dtype}[2, n]",), {"x2": scalar}, **_expected(op, dtype, "x2", scalar)
            ),
            Matches(
                op.name, (f"{dtype}[2, n]",), {"x1": scalar}, **_expected(op, dtype, "x1", scalar)
            ),
        ]
    return out


_FLIPPED = {"less": "greater", "less_equal": "greater_equal"}
_FLIPPED |= {v: k for k, v in _FLIPPED.items()}
_COMMUTE = ("add multiply equal not_equal log_add_exp bitwise_and bitwise_or bitwise_xor").split()


def _expected(op: ElementwiseOp, dtype: str, side: str, value: float) -> dict[str, Any]:
    """The operator recovered for a literal operand; several have the same form for integers."""
    short, integral = op.name.removeprefix("relax."), dtype in ("int32", "int64")
    if side == "x1" and short in _FLIPPED:
        short, side = _FLIPPED[short], "x2"
    if short in _COMMUTE or (integral and short in ("maximum", "minimum")):
        side = "x2"
    if integral and short in ("greater", "less_equal"):
        short, value = {"greater": "greater_equal", "less_equal": "less"}[short], value + 1
    if integral and side == "x2" and short == "right_shift":
        short, value = "floor_divide", 1 << int(value)
    return {"expect": {side: value}, "name": f"relax.{short}"}


MATCHES = [
    *_matches(ARITHMETIC, "float32", 2.5),
    *_matches(COMPARISONS, "float32", 2.5),
    *_matches([op for op in OPS if op.name != "relax.power"], "int64", 5),
    *_matches([op for op in OPS if op.name != "relax.power"], "int32", 5),
    *_matches(ARITHMETIC[:5], "float16", 0.5),
    *_matches([*ARITHMETIC[:6], *LOGIC, *COMPARISONS], "int8", 5),
    *_matches([*LOGIC, *COMPARISONS[:1]], "uint8", 6),
    *(Matches(op.name, ("bool[n, 4]", "bool[4]")) for op in (*LOGIC[:3], *COMPARISONS)),
    Matches("relax.bitwise_and", ("bool[4]", "bool[4]"), name="relax.logical_and"),
    Matches("relax.add", ("bfloat16[2, n]", "bfloat16[n]")),
    Matches("relax.add", ("float32[]", "float32[3]")),
    Matches("relax.subtract", ("float32[1, 4]", "float32[4, 1]")),
    Matches("relax.multiply", ("float32[n]",), {"x2": -1.0}, {}, name="relax.negative"),
    Matches("relax.maximum", ("float32[n]",), {"x2": 0.0}, {}, name="relax.nn.relu"),
    Matches("relax.add", ("int64[n]",), {"x2": -3}, {"x2": 3}, name="relax.subtract"),
    *(Matches(op.name, ("float32[2, n]", "int32[n]")) for op in COMPARISONS),
    Matches("relax.less", ("int8[2, n]", "int64[2, 1]")),
    Matches("relax.equal", ("int32[2, n]", "float16[n]")),
    Matches("relax.greater_equal", ("float32[2, n]",), {"x2": "n"}),
    Matches("relax.equal", ("int64[2, n]",), {"x2": "n"}),
]

_HEAD = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 4), "{0}"), y: T.Buffer((4, 4), "{0}"), out: T.Buffer((4, 4), "{1}")):
    for i, j in T.grid(4, 4):
        with T.sblock("c"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = """

REFUSES = [
    Refuses(
        "an operand is read transposed",
        _HEAD.format("float32", "float32") + ("x[vi, vj] + y[vj, vi]\n"),
    ),
    Refuses(
        "an operand is read at an offset",
        _HEAD.format("float32", "float32") + ("x[vi, vj] * y[vi, 3 - vj]\n"),
    ),
    Refuses(
        "two operations",
        _HEAD.format("float32", "float32") + ("x[vi, vj] + y[vi, vj] * T.float32(2)\n"),
    ),
    Refuses(
        "two integer operations",
        _HEAD.format("int64", "int64") + ("x[vi, vj] * T.int64(2) + y[vi, vj]\n"),
    ),
    Refuses(
        "the remainder and the quotient have different divisors",
        _HEAD.format("float32", "float32")
        + ("x[vi, vj] - y[vi, vj] * T.floor(y[vi, vj] / x[vi, vj])\n"),
    ),
    Refuses(
        "one side is rounded to half precision",
        _HEAD.format("float32", "bool")
        + ("x[vi, vj] < T.Cast('float32', T.Cast('float16', y[vi, vj]))\n"),
    ),
    Refuses(
        "one side of the comparison is scaled",
        _HEAD.format("int32", "bool") + ("x[vi, vj] * 3 <= y[vi, vj]\n"),
    ),
]


@recogniser("binary", precedence=120, ops=[op.name for op in OPS])
def binary(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match ``out[y] = f(x1[y'], x2[y''])``, where f is the formula of one of `OPS`."""
    proposed = proposals(expression, OPS)
    if isinstance(proposed, Refusal):
        return mixed_proposals(expression, MIXED) or proposed
    return proposed
