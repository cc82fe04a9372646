"""Steps of top-p and top-k sampling.

out[b, v] = p[b, v] / total[b] if p[b, v] >= pivot[b] else 0

out[b] = sums[b, j + 1] for the last j with more[b, j] and not more[b, j + 1]
out[b] = tokens[r, j] for the last j with u[b] < sums[r, j] / totals[r], and the reverse before it
"""

from __future__ import annotations

from collections.abc import Sequence

from ...composites.token_choice import RENORMALIZE, SAMPLE, SUM
from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import ONE, CallTerm, Fold, Load, TensorVar
from .._forms.stores_at_indices import read
from .._forms.sums_of_products import bare

MATCHES = [
    Matches(RENORMALIZE, ("float32[m, n]", "float32[m]", "float32[m]")),
    Matches(RENORMALIZE, ("float16[3, 7]", "float16[3]", "float16[3]")),
    Matches(SUM, ("float32[m, 1]", "float32[m, n]", "float32[m, 1]", "int32[m, 1]")),
    Matches(SUM, ("float16[3, 1]", "float16[3, 5]", "float16[3, 1]", "int64[3, 1]")),
    Matches(SAMPLE, (
        "int32[k, 1]", "float32[m, n]", "int32[m, n]", "float32[m, 1]", "float32[k, 1]",
        "int32[k, 1]")),
    Matches(SAMPLE, (
        "int32[3, 1]", "float32[3, 5]", "int32[3, 5]", "float32[3, 1]", "float32[3, 1]",
        "int64[3, 1]")),
]  # fmt: skip

_RENORMALIZE = """
@T.prim_func(s_tir=True)
def main(p: T.Buffer((3, 7), "float32"), pivot: T.Buffer((3,), "float32"),
         total: T.Buffer((3,), "float32"), out: T.Buffer((3, 7), "float32")):
    for b, v in T.grid(3, 7):
        out[b, v] = T.if_then_else({kept}, {value}, T.float32({other}))
"""
_KEPT = {"kept": "p[b, v] >= pivot[b]", "value": "p[b, v] / total[b]", "other": 0}
_SUM = """
@T.prim_func(s_tir=True)
def main(s: T.Buffer((3, 5), "float32"), p: T.Buffer((3, 1), "float32"),
         k: T.Buffer((3, 1), "int32"), out: T.Buffer((3, 1), "float32")):
    for b, j in T.grid(3, 5):
        if not (s[b, 0] < p[b, 0] and {begins}):
            out[b, 0] = {first}
        else:
            if s[b, j] < p[b, 0] and {more}:
                if j + 1 == 5:
                    out[b, 0] = s[b, j]
                else:
                    if not ({next} < p[b, 0] and j + 2 < k[b, 0]):
                        out[b, 0] = {value}
"""
_STOP = {"begins": "k[b, 0] > 1", "first": "s[b, 0]", "more": "j + 1 < k[b, 0]",
         "next": "s[b, j + 1]", "value": "s[b, j + 1]"}  # fmt: skip
_SAMPLE = """
@T.prim_func(s_tir=True)
def main(s: T.Buffer((2, 5), "float32"), t: T.Buffer((2, 5), "int32"),
         total: T.Buffer((2, 1), "float32"), u: T.Buffer((3, 1), "float32"),
         r: T.Buffer((3, 1), "int32"), out: T.Buffer((3, 1), "int32")):
    for b, j in T.grid(3, 5):
        if u[b, 0] < s[{row}, j] / total[{row}, 0] or {last}:
            if j == 0:
                out[b, 0] = t[r[b, 0], 0]
            else:
                if {reached}:
                    out[b, 0] = {token}
"""
_HIT = {"row": "r[b, 0]", "last": "j + 1 == 5", "token": "t[r[b, 0], j]",
        "reached": "u[b, 0] >= s[r[b, 0], j - 1] / total[r[b, 0], 0]"}  # fmt: skip

REFUSES = [
    *(
        Refuses(reason, _RENORMALIZE.format(**_KEPT | change))
        for reason, change in (
            ("the pivot itself is cut off", {"kept": "p[b, v] > pivot[b]"}),
            ("the pivot of another row", {"kept": "p[b, v] >= pivot[2 - b]"}),
            ("smaller ones are kept", {"kept": "p[b, v] <= pivot[b]"}),
            ("a factor", {"value": "p[b, v] * total[b]"}),
            ("the total of another row", {"value": "p[b, v] / total[2 - b]"}),
            ("the others are 1", {"other": 1}),
        )
    ),
    *(
        Refuses(reason, _SUM.format(**_STOP | change))
        for reason, change in (
            ("one probability is never kept alone", {"begins": "k[b, 0] > 0"}),
            ("the second sum if one is kept", {"first": "s[b, 1]"}),
            ("one more than top_k", {"more": "j < k[b, 0]"}),
            ("the same sum is compared again", {"next": "s[b, j]"}),
            ("the sum before the last one", {"value": "s[b, j]"}),
            ("sums from the other end", {"value": "s[b, 4 - j]"}),
        )
    ),
    *(
        Refuses(reason, _SAMPLE.format(**_HIT | change))
        for reason, change in (
            ("the row of the sample", {"row": "b % 2"}),
            ("the last but one ends the row", {"last": "j + 2 == 5"}),
            ("the token before", {"token": "t[r[b, 0], j - 1]"}),
            ("tokens of another row", {"token": "t[1 - r[b, 0], j]"}),
            ("a sample at the sum", {
                "reached": "u[b, 0] > s[r[b, 0], j - 1] / total[r[b, 0], 0]"}),
            ("sums are not divided", {"reached": "u[b, 0] >= s[r[b, 0], j - 1]"}),
        )
    ),
]  # fmt: skip


@recogniser("top_p", precedence=435, ops=(RENORMALIZE, SUM, SAMPLE))
def top_p(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match the tensors by their shapes, and by whether data select their rows."""
    (definition,) = expression.outputs[:1]
    body = bare(definition.body)
    if len(expression.outputs) != 1:
        return Refusal("several outputs")
    if isinstance(body, CallTerm) and body.op == "ite":
        return _renormalized(body)
    if isinstance(body, Fold) and len(body.states) == 1:
        loads = [*read(body.updates[0]), *read(body.inits[0])]
        previous = [x for x in loads if x.tensor.shape == definition.out.shape]
        if previous:
            return _folded(body, loads)
    return Refusal("the compute is not a step of top-p sampling")


def _renormalized(body: CallTerm) -> list[Proposal] | Refusal:
    """Of the vectors, the first one in the condition is the pivot."""
    condition, value, _ = body.args
    tables = [x.tensor for x in read(value) if len(x.indices) == 2]
    pivots = [x.tensor for x in read(condition) if len(x.indices) == 1]
    totals = [x.tensor for x in read(value) if len(x.indices) == 1]
    if not len(tables) == len(pivots) == len(totals) == 1:
        return Refusal("the compute does not scale what reaches a pivot")
    return [Proposal(RENORMALIZE, tuple(t.position for t in (*tables, *pivots, *totals)))]


def _folded(body: Fold, loads: list[Load]) -> list[Proposal] | Refusal:
    """The tensors of the last match in a row; what the loop starts from is the old content."""
    start = [bare(body.inits[0])]
    while isinstance(start[0], CallTerm) and start[0].op == "ite":
        start = [bare(start[0].args[2])]
    if not isinstance(start[0], Load):
        return Refusal("the loop starts from something else than the old content")
    previous = start[0].tensor
    unique = {x.tensor: x for x in loads if x.tensor is not previous}
    wide = [t for t in unique if len(t.shape) == 2 and t.shape[1] is not ONE]
    narrow = [t for t in unique if len(t.shape) == 2 and t.shape[1] is ONE]
    if len(wide) == 1 and len(narrow) == 2:
        ordered = sorted(narrow, key=lambda t: "int" in t.dtype)
        return [Proposal(SUM, tuple(t.position for t in (previous, wide[0], *ordered)))]
    gathered = [t for t in narrow if unique[t].indices[0].reads]
    own = [t for t in narrow if t not in gathered]
    if len(wide) != 2 or len(gathered) != 1 or len(own) != 2:
        return Refusal("the loop does not search one row of sums")
    sums, tokens = sorted(wide, key=lambda t: "int" in t.dtype)
    samples, rows = sorted(own, key=lambda t: "int" in t.dtype)
    order: tuple[TensorVar, ...] = (previous, sums, tokens, gathered[0], samples, rows)
    return [Proposal(SAMPLE, tuple(t.position for t in order))]
