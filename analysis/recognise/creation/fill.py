"""Tensors that are computed from their coordinates: full, arange, eye, one_hot; tril and triu.

- full: ``out[y] = value``, a literal, a scalar parameter or a tensor without dimensions;
- arange: ``out[y] = start + step * y``;
- eye: ``out[i, j] = 1 if j - i = k else 0``;
- one_hot: ``out[a, d, b] = on if t[a, b] = d else off``;
- tril, triu: ``out[…, i, j] = x[…, i, j] if j - i <= k (>= k) else 0``.

zeros, ones and the ``*_like`` ops are full.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Constant, Proposal
from ...proposal.undetermined import Undetermined
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.condition_terms import negate
from ...terms.order import is_closed
from ...terms.term import FALSE, ONE, TRUE, CallTerm, Int, Load, Term, Var, as_int, bare
from ...terms.term.literals import is_const
from ...terms.traversal import free
from .._forms.access_functions import affine, dims, literal, plain
from .._forms.sums_of_products import uncast

MATCHES = [
    Matches("relax.full", (), {"shape": (3, 4), "fill_value": 2.5, "dtype": "float32"}),
    Matches("relax.full", (), {"shape": (1,), "fill_value": True, "dtype": "bool"}),
    Matches("relax.zeros", (), {"shape": (2,), "dtype": "int64"}, {"fill_value": 0}, "relax.full"),
    Matches("relax.ones", (), {"shape": ("n", 2), "dtype": "float16"}, {}, "relax.full"),
    Matches("relax.zeros_like", ("int8[2, n]",), {}, {"fill_value": 0}, "relax.full"),
    Matches("relax.ones_like", ("bool[2, 3]",), {}, {"fill_value": True}, "relax.full"),
    Matches("relax.full_like", ("float32[2, n]",), {"fill_value": 2.5}, {}, "relax.full"),
    Matches("relax.full", (), {"shape": ("n", 3), "fill_value": 1, "dtype": "int32"}),
    Matches("relax.full", ("float32[]",), {"shape": (2, "n"), "dtype": "float16"}),
    Matches("relax.full_like", ("int8[2, n]", "int32[]"), {}, {"dtype": "int8"}, "relax.full"),
    Matches("relax.arange", (), {"start": "n", "end": "m", "step": "k", "dtype": "int64"}),
    Matches("relax.arange", (), {"start": 0, "end": "n", "step": 1, "dtype": "int64"}),
    Matches("relax.arange", (), {"start": 3, "end": "n", "step": 2, "dtype": "float32"}),
    Matches("relax.eye", (), {"n": 3, "m": 4, "k": -1, "dtype": "float32"}),
    Matches("relax.eye", (), {"n": 3, "m": 3, "k": 0, "dtype": "int32"}),
    Matches("relax.eye", (), {"n": "n", "m": 3, "k": 1, "dtype": "bool"}),
    Matches("relax.eye", (), {"n": 1, "m": 4, "k": 0, "dtype": "float16"}),
    Matches("relax.eye", (), {"n": 4, "m": 1, "k": -3, "dtype": "int8"}),
    Matches("relax.triu", ("float32[3, 4]",), {"k": -3}, {"dtype": "float32"}, name="relax.astype"),
    Matches("relax.tril", ("int8[3, 4]",), {"k": -3}, {"fill_value": 0}, name="relax.full"),
    Matches("relax.eye_like", ("float32[3, 4]",), {"k": 1}, {"n": 3, "m": 4}, "relax.eye"),
    Matches("relax.eye", (), {"n": "n", "m": "m", "k": "k", "dtype": "float32"}),
    Matches("relax.triu", ("float32[n, m, 4]",), {"k": "n"}),
    Matches("relax.tril", ("float32[2, n, m]",), {"k": "k"}),
    Matches("relax.tril", ("float32[3, 4]",), {"k": 1}),
    Matches("relax.tril", ("int64[2, n, 4]",), {"k": 0}),
    Matches("relax.triu", ("float16[2, 4, n]",), {"k": -1}),
    Matches("relax.triu", ("float32[5, 5]",), {"k": 2}),
    Matches("relax.one_hot", ("int64[3, 4]",), {"on_value": 1.0, "off_value": 0.0, "depth": 5}),
    Matches("relax.one_hot", ("int32[n]",), {"on_value": 2, "off_value": 3, "depth": 5, "axis": 0}),
    *(
        Matches("relax.one_hot", ("int64[3, n]",), {"on_value": on, "off_value": off, "depth": 5})
        for on, off in (
            (Constant(1.0, "float32"), Constant(0.0, "float32")),
            (Constant(2.5, "float16"), Constant(-1.0, "float16")),
            (Constant(1, "int32"), Constant(0, "int32")),
            (Constant(1, "int8"), Constant(0, "int8")),
        )
    ),
]

REFUSES = [
    Refuses(
        "the other triangle holds 1, not 0",
        """
@T.prim_func(s_tir=True)
def f(x: T.Buffer((4, 4), "float32"), out: T.Buffer((4, 4), "float32")):
    for i, j in T.grid(4, 4):
        out[i, j] = T.if_then_else(j <= i, x[i, j], T.float32(1))
""",
    ),
    Refuses(
        "the other triangle is transposed",
        """
@T.prim_func(s_tir=True)
def f(x: T.Buffer((4, 4), "float32"), out: T.Buffer((4, 4), "float32")):
    for i, j in T.grid(4, 4):
        out[i, j] = T.if_then_else(j <= i, x[j, i], T.float32(0))
""",
    ),
]

Outcome = Sequence[Proposal] | Refusal


@recogniser("full", precedence=350, ops=("relax.full",))
def full(expression: TensorExpression) -> Outcome:
    """Match ``out[y] = value``; the value may be the element of a tensor of rank 0."""
    (definition,) = expression.outputs[:1]
    value, element = literal(definition.body), uncast(definition.body)
    if (
        isinstance(element, Load)
        and not element.indices
        and (definition.axes or element.tensor.scalar)
    ):
        shape = {"shape": dims(definition.out.shape), "dtype": definition.out.dtype}
        return [Proposal("relax.full", (element.tensor.position,), shape)]
    if len(expression.outputs) != 1 or value is None:
        return Refusal("the compute is not a literal")
    shape = {"shape": dims(definition.out.shape), "dtype": definition.out.dtype}
    named = {0: "relax.zeros", 1: "relax.ones"}
    proposals = [Proposal("relax.full", (), {**shape, "fill_value": value})]
    return [*proposals, *(Proposal(name, (), shape) for k, name in named.items() if value == k)]


@recogniser("full_of_scalar", precedence=364, ops=("relax.full",))
def full_of_scalar(expression: TensorExpression) -> Outcome:
    """Match ``out[y] = n`` for an integer parameter, unless an operator has it as an attribute."""
    (definition,) = expression.outputs[:1]
    value = uncast(definition.body)
    if len(expression.outputs) != 1 or not isinstance(value, Var) or value not in expression.params:
        return Refusal("the compute is not a scalar parameter")
    attrs = {"shape": dims(definition.out.shape), "dtype": definition.out.dtype}
    return [Proposal("relax.full", (expression.params.index(value),), attrs)]


@recogniser("arange", precedence=352, ops=("relax.arange",))
def arange(expression: TensorExpression) -> Outcome:
    """Match ``out[y] = start + step * y`` unless it is a constant of the module."""
    (definition,) = expression.outputs[:1]
    body = definition.body
    if isinstance(body, CallTerm) and body.op == "cast":
        body = body.args[0]
    if len(expression.outputs) != 1 or len(definition.axes) != 1 or not isinstance(body, Int):
        return Refusal("the compute is not an integer along one axis")
    form = affine(body, definition.axes[0]) if free(definition.axes[0]) else None
    if form is None or any(v.kind not in ("size", "scalar") for p in form for v in free(p)):
        return Refusal("the compute is not start + step * y")
    start, step = form
    attrs = {"start": plain(start), "step": plain(step), "dtype": definition.out.dtype}
    end = _end_by_length(definition.out.shape[0], start, step)
    if end is not None:
        return [Proposal("relax.arange", (), {**attrs, "end": plain(end)})]
    return [
        Proposal(
            "relax.arange",
            (),
            {**attrs, "end": plain(start + step * definition.out.shape[0])},
            undetermined=_last(start + step * definition.out.shape[0], step),
        )
    ]


def _end_by_length(length: Int, start: Int, step: Int) -> Int | None:
    """The end if the length is ``ceil((end - start) / step)`` in floating point."""
    ceil = uncast(length)
    quotient = ceil.args[0] if isinstance(ceil, CallTerm) and ceil.op == "ceil" else None
    if not (isinstance(quotient, CallTerm) and quotient.op == "div"):
        return None
    span, divisor = (_integer_in(a) for a in quotient.args)
    return span + start if span is not None and divisor is step else None


def _integer_in(term: Term) -> Int | None:
    """The integer that is converted."""
    converted = isinstance(term, CallTerm) and term.op == "cast"
    return as_int(term.args[0]) if converted and isinstance(term.args[0], Int) else None  # type: ignore[attr-defined]


def _last(end: Int, step: Int) -> tuple[Undetermined, ...]:
    """The ends inside the last step, which give the same number of elements."""
    if step.const is None or step.const in (1, -1):
        return ()
    limit = end - (step - (1 if step.const > 0 else -1))
    low, high = (limit, end) if step.const > 0 else (end, limit)
    return (Undetermined("end", "inside the last step", None, plain(low), plain(high)),)


@recogniser("eye", precedence=354, ops=("relax.eye",))
def eye(expression: TensorExpression) -> Outcome:
    """Match ``out[i, j] = 1 if j - i = k else 0``."""
    (definition,) = expression.outputs[:1]
    body = bare(definition.body)
    if len(expression.outputs) != 1 or len(definition.axes) != 2 or not isinstance(body, CallTerm):
        return Refusal("the compute is not a selection over a matrix")
    condition, inside, outside = body.args if body.op == "ite" else (body, TRUE, FALSE)
    equal = ("eq0", "ge0") if ONE in definition.out.shape else ("eq0",)  # y = 0 can be y <= 0
    diagonal = (
        _diagonal(condition, definition.axes)
        if isinstance(condition, CallTerm) and condition.op in equal
        else None
    )
    if diagonal is None or not (is_const(inside, 1) and is_const(outside, 0)):
        return Refusal("the compute is not 1 on a diagonal and 0 elsewhere")
    rows, columns = dims(definition.out.shape)
    return [
        Proposal(
            "relax.eye",
            (),
            {"n": rows, "m": columns, "k": plain(diagonal[0]), "dtype": definition.out.dtype},
        )
    ]


@recogniser("one_hot", precedence=356, ops=("relax.one_hot",))
def one_hot(expression: TensorExpression) -> Outcome:
    """Match ``out[y] = on if t[y without d] = d else off``."""
    (definition,) = expression.outputs[:1]
    body = bare(definition.body)
    if len(expression.outputs) != 1 or not isinstance(body, CallTerm):
        return Refusal("the compute is not a selection")
    condition, on, off = _selection(body)
    values = literal(on), literal(off)
    if None in values or not (isinstance(condition, CallTerm) and condition.op == "eq0"):
        return Refusal("the compute does not select between two literals by an equality")
    difference = as_int(condition.args[0])
    loads = [a for m, _ in difference.terms for a in m if isinstance(a, Load)]
    for axis, coordinate in enumerate(definition.axes):
        other_axes = tuple(a for k, a in enumerate(definition.axes) if k != axis)
        if (
            len(loads) == 1
            and loads[0].indices == other_axes
            and difference in _signs(as_int(loads[0]) - coordinate)
        ):
            attrs = {
                "on_value": _typed(values[0], definition.out.dtype),
                "off_value": _typed(values[1], definition.out.dtype),
                "depth": plain(definition.out.shape[axis]),
                "axis": axis,
            }
            return [Proposal("relax.one_hot", (loads[0].tensor.position,), attrs)]
    return Refusal("an index is not compared with the coordinate of an axis")


def _typed(value: float | int | None, dtype: str) -> float | int | Constant | None:
    """The value with its dtype, unless it is the one that TVM gives to a Python number."""
    default = {float: "float64", int: "int64"}.get(type(value))
    return value if value is None or dtype == default else Constant(value, dtype)


@recogniser("trilu", precedence=358, ops=("relax.tril", "relax.triu"))
def trilu(expression: TensorExpression) -> Outcome:
    """Match ``out[…, i, j] = x[…, i, j] if j - i <= k else 0``."""
    (definition,) = expression.outputs[:1]
    body = bare(definition.body)
    if (
        len(expression.outputs) != 1
        or len(definition.axes) < 2
        or not isinstance(body, CallTerm)
        or body.op != "ite"
    ):
        return Refusal("the compute is not a selection over matrices")
    condition, inside, outside = body.args
    if is_const(inside, 0):
        condition, inside, outside = negate(condition), outside, inside
    term = bare(inside)
    if not isinstance(term, Load) or term.indices != definition.axes or not is_const(outside, 0):
        return Refusal("the compute does not select between the input at its own coordinates and 0")
    diagonal = _diagonal(condition, definition.axes) if isinstance(condition, CallTerm) else None
    if diagonal is None or not isinstance(condition, CallTerm) or condition.op != "ge0":
        return Refusal("the condition is not a triangle of the last two axes")
    name, offset = ("relax.triu", -diagonal[1]) if diagonal[2] > 0 else ("relax.tril", diagonal[1])
    return [Proposal(name, (term.tensor.position,), {"k": plain(offset)})]


def _selection(body: CallTerm) -> tuple[Term, Term, Term]:
    """``yes if c else no``; a truth value is ``True if c else False``."""
    if body.op == "ite":
        return body.args[0], body.args[1], body.args[2]
    return body, TRUE, FALSE


def _signs(poly: Int) -> tuple[Int, Int]:
    return poly, -poly


def _diagonal(condition: CallTerm, axes: Sequence[Int]) -> tuple[Int, Int, int] | None:
    """A condition on ``±(j - i) + offset`` as ``(the diagonal where it is 0, offset, ±1)``."""
    if condition.op not in ("ge0", "eq0"):
        return None
    term: Term = condition.args[0]
    for sign in (1, -1):
        offset = as_int(term) - (axes[-1] - axes[-2]) * sign
        if is_closed(offset):
            return offset * -sign, offset, sign
    return None
