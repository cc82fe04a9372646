"""Logits of some tokens that change in place: penalties and bit masks.

x = logits[r, t] - (p[s, 0] + counts[k] * p[s, 1])               s = positions[k], t = tokens[k]
out[r, t] = x * p[s, 2] if x < 0 else x / p[s, 2]                r = seq_ids[s]

out[r, v] = logits[r, v] if bitmask[r, v // 32] >> v % 32 & 1 == 1 else the least number
"""

from __future__ import annotations

from collections.abc import Sequence

from ...composites.scattered import BITMASK, PENALTY
from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import Load
from .._forms.stores_at_indices import index_vector, read, scatter
from .._forms.sums_of_products import bare

_TOKENS = ("int32[s]", "int32[k]", "int32[k]", "int32[k]")
_MASKED = "int32[m, 3]"

MATCHES = [
    Matches(PENALTY, ("float32[m, n]", *_TOKENS, "float32[s, 3]")),
    Matches(PENALTY, ("float16[4, n]", *_TOKENS, "float16[s, 3]")),
    Matches(BITMASK, ("float32[m, 96]", "int32[s]", _MASKED)),
    Matches(BITMASK, ("float16[m, 70]", "int32[s]", _MASKED)),
]

_PENALTY = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 9), "float32"), ids: T.Buffer((3,), "int32"),
         pos: T.Buffer((5,), "int32"), tok: T.Buffer((5,), "int32"),
         count: T.Buffer((5,), "int32"), p: T.Buffer((3, 3), "float32"),
         out: T.Buffer((4, 9), "float32")):
    y = T.alloc_buffer((5,))
    for k in range(5):
        y[k] = x[ids[pos[k]], tok[k]] - ({lowered})
    for i, j in T.grid(4, 9):
        out[i, j] = x[i, j]
    for k in range(5):
        out[{row}, tok[k]] = T.if_then_else({negative}, y[k] * {by}, y[k] / {by})
"""
_RIGHT = {
    "lowered": 'p[pos[k], 0] + T.Cast("float32", count[k]) * p[pos[k], 1]',
    "row": "ids[pos[k]]",
    "negative": "y[k] < T.float32(0)",
    "by": "p[pos[k], 2]",
}
_BITMASK = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 96), "float32"), ids: T.Buffer((3,), "int32"),
         mask: T.Buffer((4, 3), "int32"), out: T.Buffer((4, 96), "float32")):
    for i, j in T.grid(4, 96):
        out[i, j] = x[i, j]
    for k, v in T.grid(3, 96):
        out[ids[k], v] = T.if_then_else({bit}, x[ids[k], v], T.float32({least}))
"""
_BIT, _LEAST = "mask[ids[k], v // 32] >> v % 32 & 1 == 1", "-3.4028234663852886e38"

REFUSES = [
    *(
        Refuses(reason, _PENALTY.format(**_RIGHT | change))
        for reason, change in (
            ("rows of positions", {"row": "pos[k]"}),
            ("the sign of the test", {"negative": "y[k] > T.float32(0)"}),
            ("the repetition penalty of another column", {"by": "p[pos[k], 1]"}),
            ("penalties of the row", {"by": "p[ids[pos[k]] % 3, 2]"}),
            ("no count", {"lowered": "p[pos[k], 0] + p[pos[k], 1]"}),
            ("the first two penalties swapped", {
                "lowered": 'p[pos[k], 1] + T.Cast("float32", count[k]) * p[pos[k], 0]'}),
        )
    ),
    *(
        Refuses(reason, _BITMASK.format(bit=bit, least=least))
        for reason, bit, least in (
            ("excluded tokens stay", _BIT.replace("== 1", "== 0"), _LEAST),
            ("bits from the top", _BIT.replace("v % 32", "(31 - v % 32)"), _LEAST),
            ("words of 16", _BIT.replace("// 32", "// 16 % 3"), _LEAST),
            ("the mask of the sequence", _BIT.replace("ids[k]", "k"), _LEAST),
            ("two bits", _BIT.replace("& 1 == 1", "& 3 == 3"), _LEAST),
            ("another least number", _BIT, "-1e30"),
        )
    ),
]  # fmt: skip


@recogniser("token_logits", precedence=431, ops=(PENALTY, BITMASK))
def token_logits(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match stores into logits by the tensors that their places and values read."""
    (definition,) = expression.outputs[:1]
    stores = scatter(definition, definition.body)
    if stores is None or len(expression.outputs) != 1 or len(stores.data.shape) != 2:
        return Refusal("the compute is not a series of stores at indices from data")
    row, column = (bare(stores.places[d]) if d in stores.places else None for d in (0, 1))
    known = {stores.data, *(x.tensor for p in stores.places.values() for x in read(p))}
    others = [x.tensor for x in read(stores.value) if x.tensor not in known]
    tables = [t for t in others if len(t.shape) == 2]
    vectors = [t for t in others if len(t.shape) == 1]
    seq_ids = index_vector(row, stores.fold)
    if seq_ids is not None and column is None and len(tables) == 1 and not vectors:
        tensors = [stores.data, seq_ids, *tables]
        return [Proposal(BITMASK, tuple(t.position for t in tensors))]
    tokens = index_vector(column, stores.fold)
    if not isinstance(row, Load) or tokens is None or len(tables) != 1 or len(vectors) != 1:
        return Refusal("the stores are not penalties or masks of logits")
    positions = index_vector(row.indices[0], stores.fold)
    if positions is None:
        return Refusal("the rows are not those of sequences")
    tensors = [stores.data, row.tensor, positions, tokens, *vectors, *tables]
    return [Proposal(PENALTY, tuple(t.position for t in tensors))]
