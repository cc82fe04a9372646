"""Softmax with a temperature over rows in chunks, in two steps.

    x = data[b, v] / temperature[b] if temperature[b] > threshold else data[b, v]
    maxima[b, c] = max x in the chunk;  sums[b, c] = log(sum exp(x - maxima[b, c]))

    out[b, v] = exp(x - (log(total[b]) + largest[b]))
    total[b] = sum_c exp(sums[b, c] + maxima[b, c] - largest[b]);  largest[b] = max_c maxima[b, c]

The number of chunks may be a size of its own. It is assumed to be that of whole rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...certify.assumed_sizes import lone_size
from ...composites.sampling import CHUNKS, SOFTMAX
from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.integer import floordiv
from ...terms.term import CallTerm, Const, Int, Load, Reduce, TensorVar, Term, Var, integer
from ...terms.traversal import subterms
from .._forms.stores_at_indices import read
from .._forms.sums_of_products import bare

_ROWS, _HEAT, _CHUNKS = "float32[m, n]", "float32[m]", "float32[m, 3]"

MATCHES = [
    Matches(CHUNKS, ("float32[m, 20]", _HEAT), {"chunk_size": 8, "threshold": 1e-5}),
    Matches(CHUNKS, (_ROWS, _HEAT), {"chunk_size": 64, "threshold": 1e-5}),
    Matches(SOFTMAX, (_ROWS, _HEAT, _CHUNKS, _CHUNKS), {"threshold": 1e-5}),
    Matches(SOFTMAX, ("float16[2, 9]", "float16[2]", *["float16[2, 4]"] * 2), {"threshold": 0.5}),
]

_HEAD = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((3, 20), "float32"), t: T.Buffer((3,), "float32"),
         s: T.Buffer((3, 4), "float32"), m: T.Buffer((3, 4), "float32"),
         out: T.Buffer((3, 20), "float32")):
    top = T.alloc_buffer((3,), "float32")
    total = T.alloc_buffer((3,), "float32")
    for b in range(3):
        top[b] = T.float32(-3.4028234663852886e38)
        for c in range(4):
            top[b] = T.max(top[b], m[b, c])
    for b in range(3):
        total[b] = T.float32(0)
        for c in range(4):
            total[b] = total[b] + T.if_then_else(T.float32(0.5) < t[b],
                {terms}, T.Cast("float32", m[b, c] == top[b]) * s[b, c])
    for b, v in T.grid(3, 20):
        out[b, v] = T.if_then_else(T.float32(0.5) < t[b],
            {soft}, T.Cast("float32", x[b, v] == top[b]) / total[b])
"""
_RIGHT = {
    "terms": "T.exp(s[b, c] + m[b, c] - top[b])",
    "soft": "T.exp(x[b, v] / t[b] - (T.log(total[b]) + top[b]))",
}
REFUSES = [
    Refuses(reason, _HEAD.format(**_RIGHT | change))
    for reason, change in (
        ("the temperature is a factor", {"soft": _RIGHT["soft"].replace("/", "*")}),
        ("no temperature", {"soft": _RIGHT["soft"].replace(" / t[b]", "")}),
        ("the maximum is added", {"soft": _RIGHT["soft"].replace("+ top", "- top")}),
        ("no logarithm", {"soft": _RIGHT["soft"].replace("T.log(total[b])", "total[b]")}),
        ("sums of the other chunk", {"terms": _RIGHT["terms"].replace("s[b, c]", "s[b, 3 - c]")}),
        ("maxima are not added", {"terms": _RIGHT["terms"].replace(" + m[b, c]", "")}),
    )
]


@recogniser("chunked_softmax", precedence=395, ops=(CHUNKS, SOFTMAX))
def chunked_softmax(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match the tensors by their shapes and by which of them is compared with a literal."""
    bodies = [c.body for c in expression.outputs]
    if len(bodies) > 2 or not any(isinstance(s, Reduce) for s in subterms(bodies[0])):
        return Refusal("the compute is not a softmax over chunks")
    comparison = _threshold(bodies)
    inputs = {x.tensor: None for b in bodies for x in read(b)}
    if comparison is None:
        return Refusal("no vector is compared with a literal")
    heat, threshold = comparison
    tables = [t for t in inputs if len(t.shape) == 2]
    attrs = {"threshold": threshold}
    if len(bodies) == 2 and len(tables) == 1:
        return _chunks(expression, tables[0], heat, attrs)
    return _softmax(expression, tables, heat, attrs)


def _threshold(bodies: Sequence[Term]) -> tuple[TensorVar, float] | None:
    for term in (s for b in bodies for s in subterms(b)):
        if isinstance(term, CallTerm) and term.op == "lt" and len(term.args) == 2:
            number, vector = term.args
            if isinstance(number, Const) and isinstance(vector, Load) and len(vector.indices) == 1:
                return vector.tensor, float(number.value)
    return None


def _chunks(
    expression: TensorExpression, data: TensorVar, heat: TensorVar, attrs: dict[str, float]
) -> list[Proposal] | Refusal:
    """The first step; the second output is the maxima."""
    largest = bare(expression.outputs[1].body)
    if not isinstance(largest, Reduce) or len(largest.axes) != 1:
        return Refusal("the second output is not the maxima")
    size = largest.axes[0].extent
    if size is None or size.const is None:
        return Refusal("the size of chunks is symbolic")
    sizes = _sizes(expression.outputs[0].out.shape[1], data.shape[1], size.const)
    operands = (data.position, heat.position)
    return [Proposal(CHUNKS, operands, {"chunk_size": size.const, **attrs}, sizes=sizes)]


def _softmax(
    expression: TensorExpression, tables: list[TensorVar], heat: TensorVar, attrs: dict[str, float]
) -> list[Proposal] | Refusal:
    """The second step; where it stores says how large a chunk is."""
    (definition,) = expression.outputs[:1]
    maxima = [
        load.tensor
        for s in subterms(definition.body)
        if isinstance(s, Reduce) and s.op == "max"
        for load in read(s.body)
    ]
    if len(expression.outputs) != 1 or len(set(maxima)) != 1:
        return Refusal("the compute is not a softmax over chunks")
    chunks = [t for t in tables if t.shape == maxima[0].shape and t is not maxima[0]]
    rows = [t for t in tables if t.shape == definition.out.shape and t not in chunks]
    sizes = _chunk_sizes(definition.body, maxima[0].shape[1], definition.out.shape[1]) or [{}]
    return [
        Proposal(SOFTMAX, tuple(t.position for t in (x, heat, s, maxima[0])), attrs, sizes=sizes[0])
        for s in chunks
        for x in sorted(rows, key=lambda t: t.position)
        if x is not maxima[0]
    ]


def _chunk_sizes(body: Term, count: Int, size: Int) -> list[dict[Var, Int]]:
    """The number of chunks, for the sizes of chunks by which coordinates are divided."""
    variable = lone_size(count)
    divisors = {
        coefficient
        for s in subterms(body)
        if variable is not None and isinstance(s, CallTerm) and s.op == "floordiv"
        for coefficient in _factors(s.args[1], variable)
    }
    return [_sizes(count, size, d) for d in sorted(divisors)]


def _factors(divisor: Term, variable: Var) -> list[int]:
    """The coefficient of a size in a divisor."""
    terms = divisor.terms if isinstance(divisor, Int) else ()
    return [c for m, c in terms if m == (variable,) and c > 1]


def _sizes(count: Int, size: Int, chunk: int) -> dict[Var, Int]:
    """The number of chunks as a function of the size of a row, if it is a size of its own."""
    variable = lone_size(count)
    return {} if variable is None else {variable: floordiv(size + (chunk - 1), integer(chunk))}
