"""Indices into a sorted sequence, by binary search: ``bucketize``.

    lo, hi = 0, n
    while lo < hi: mid = (lo + hi) // 2; lo, hi = (mid + 1, hi) if b[mid] < x[y] else (lo, mid)
    out[y] = lo

``right`` compares with ``<=``; ``out_int32`` selects the dtype of the result.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import FOREVER, CallTerm, Fold, Load, TensorVar, Term, as_int
from ...terms.traversal import subterms, tensors
from .._forms.sums_of_products import bare

OP, SWAPPED = "relax.bucketize", (1, 0)

MATCHES = [
    *(
        Matches(
            OP,
            (f"{dtype}[3, 4]", f"{dtype}[7]"),
            {"out_int32": narrow, "right": right},
            places=SWAPPED,
        )
        for dtype in ("float32", "float16", "int64")
        for narrow in (False, True)
        for right in (False, True)
    ),
    Matches(OP, ("float32[n]", "float32[m]"), {"out_int32": False, "right": True}, places=SWAPPED),
    Matches(OP, ("int32[5]", "int32[n]"), {"out_int32": True, "right": False}, places=SWAPPED),
]

_SEARCH = """
@T.prim_func(s_tir=True)
def main(b: T.Buffer((7,), "float32"), x: T.Buffer((5,), "float32"),
         out: T.Buffer((5,), "int64")):
    lo = T.alloc_buffer((1,), "int64")
    hi = T.alloc_buffer((1,), "int64")
    for i in range(5):
        lo[0] = T.int64({low})
        hi[0] = T.int64({high})
        while lo[0] < hi[0]:
            if {smaller}:
                lo[0] = (lo[0] + hi[0]) // T.int64(2) + T.int64(1)
            else:
                hi[0] = (lo[0] + hi[0]) // T.int64(2)
        out[i] = {answer}
"""
_RIGHT = {
    "low": 0,
    "high": 7,
    "smaller": "b[(lo[0] + hi[0]) // T.int64(2)] < x[i]",
    "answer": "lo[0]",
}

REFUSES = [
    Refuses("a search from the second element", _SEARCH.format(**_RIGHT | {"low": 1})),
    Refuses("a search that leaves out the last element", _SEARCH.format(**_RIGHT | {"high": 6})),
    Refuses(
        "a descending sequence",
        _SEARCH.format(**_RIGHT | {"smaller": "b[(lo[0] + hi[0]) // T.int64(2)] > x[i]"}),
    ),
    Refuses("the index before", _SEARCH.format(**_RIGHT | {"answer": "lo[0] - T.int64(1)"})),
    Refuses(
        "another value",
        _SEARCH.format(**_RIGHT | {"smaller": "b[(lo[0] + hi[0]) // T.int64(2)] < x[4 - i]"}),
    ),
]


@recogniser("bucketize", precedence=418, ops=(OP,))
def bucketize(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match a search with two states: one tensor is indexed by the states, one by the output."""
    definition = expression.outputs[0]
    term = bare(definition.body)
    if (
        len(expression.outputs) != 1
        or not isinstance(term, Fold)
        or term.axis.extent is not FOREVER
    ):
        return Refusal("the compute is not a search")
    loads = {s for u in term.updates for s in subterms(u) if isinstance(s, Load)}
    values: set[TensorVar] = {s.tensor for s in loads if s.indices == definition.axes}
    rows = {s.tensor for s in loads} - values
    if len(values) != 1 or len(rows) != 1:
        return Refusal("the search does not compare two tensors")
    operands = (values.pop().position, rows.pop().position)
    attrs = {"out_int32": definition.out.dtype == "int32", "right": _not_less(term.updates[0])}
    return [Proposal(OP, operands, attrs)]


def _not_less(update: Term) -> bool:
    """Whether the condition is ``b <= x``, which is ``x - b >= 0`` for integers."""
    conditions = [s for s in subterms(update) if isinstance(s, CallTerm) and tensors(s)]
    differences = [as_int(s.args[0]) for s in conditions if s.op == "ge0"]
    if any(s.op == "le" for s in conditions):
        return True
    return any(() not in dict(p.terms) for p in differences)
