"""Tokens that are stored in the pages of a cache.

out[pos[k] // page_size, 0, h, pos[k] % page_size, d] = keys[k, h, d]    unless pos[k] == -1
out[pos[k] // page_size, 1, h, pos[k] % page_size, d] = values[k, h, d]
"""

from __future__ import annotations

from collections.abc import Sequence

from ...composites.scattered import APPEND
from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import Fold
from ...terms.traversal import subterms
from .._forms.stores_at_indices import read, scatter

MATCHES = [
    Matches(APPEND, ("float16[n, 2, 3, 16, 8]", "int32[k]", *["float16[k, 3, 8]"] * 2)),
    Matches(APPEND, ("float32[4, 2, 1, 4, 8]", "int64[k]", *["float32[k, 1, 8]"] * 2)),
    Matches(APPEND, ("float16[n, 16, 8]", "int32[k]", "float16[k, 8]")),
]

_HEAD = """
@T.prim_func(s_tir=True)
def main(old: T.Buffer((5, 2, 3, 16, 8), "float16"), pos: T.Buffer((7,), "int32"),
         keys: T.Buffer((7, 3, 8), "float16"), values: T.Buffer((7, 3, 8), "float16"),
         out: T.Buffer((5, 2, 3, 16, 8), "float16")):
    for a, b, c, d, e in T.grid(5, 2, 3, 16, 8):
        out[a, b, c, d, e] = old[a, b, c, d, e]
    for k, h, d in T.grid(7, 3, 8):
        if {guard}:
            out[{page}, 0, h, {slot}, d] = keys[k, h, d]
            out[{page}, 1, {head}, {slot}, d] = values[{token}, h, d]
"""
_RIGHT = {"guard": "pos[k] != -1", "page": "pos[k] // 16", "slot": "pos[k] % 16", "head": "h",
          "token": "k"}  # fmt: skip

REFUSES = [
    Refuses(reason, _HEAD.format(**_RIGHT | change))
    for reason, change in (
        (
            "skipped tokens are stored in the last slot",
            {"guard": "k >= 0", "page": "T.max(pos[k], 0) // 16"},
        ),
        ("tokens at position 0 are skipped", {"guard": "pos[k] != 0"}),
        ("only tokens that are skipped are stored", {"guard": "pos[k] == -1"}),
        ("pages of 8", {"page": "pos[k] // 8 % 5"}),
        ("the next slot", {"slot": "(pos[k] + 1) % 16"}),
        ("slots in reverse", {"slot": "15 - pos[k] % 16"}),
        ("page and slot are swapped", {"page": "pos[k] % 5", "slot": "pos[k] // 5 % 16"}),
        ("heads of values in reverse", {"head": "2 - h"}),
        ("values of another token", {"token": "6 - k"}),
    )
]


@recogniser("append_to_pages", precedence=429, ops=(APPEND,))
def append_to_pages(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match stores into one tensor at one vector of positions."""
    (definition,) = expression.outputs[:1]
    if len(expression.outputs) != 1:
        return Refusal("the function has several outputs")
    folds = [s for s in subterms(definition.body) if isinstance(s, Fold)]
    stores = [s for s in (scatter(definition, f) for f in folds) if s is not None]
    if not stores or len(stores) != len(folds) or len({s.data for s in stores}) != 1:
        return Refusal("the compute is not a series of stores at indices from data")
    positions = {x.tensor for s in stores for p in s.places.values() for x in read(p)}
    data = {x.tensor: None for s in stores for x in read(s.value)}
    if len(positions) != 1 or not 1 <= len(data) <= 2:
        return Refusal("the stores are not the vectors of tokens at positions")
    first = (stores[0].data.position, positions.pop().position)
    orders = (list(data), list(data)[::-1])
    return [Proposal(APPEND, (*first, *(t.position for t in order))) for order in orders]
