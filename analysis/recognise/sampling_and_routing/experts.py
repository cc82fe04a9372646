"""Routing of tokens to experts: masks, where the rows of an expert start, the order of rows.

out[t, e] = 1 if indices[t, 0] == e or indices[t, 1] == e .. else 0
out[e] = sums[e * n - 1] if e > 0 else 0
places[p], tokens[p] = t * k + j, t     with p = sums[indices[t, j] * batch + t] - 1
"""

from __future__ import annotations

from collections.abc import Sequence

from ...certify.assumed_sizes import lone_size
from ...composites.routing import INDPTR, MASK, ORDER
from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import CallTerm, Int, Load, TensorVar, Term, Var
from ...terms.traversal import subterms
from .._forms.stores_at_indices import read, scatter
from .._forms.sums_of_products import bare

MATCHES = [
    Matches(MASK, ("int32[m, 2]",), {"experts": 4, "dtype": "int32"}),
    Matches(MASK, ("int64[5, 3]",), {"experts": 8, "dtype": "float32"}),
    Matches(INDPTR, ("int32[20]",), {"experts": 4}),
    Matches(INDPTR, ("int64[24]",), {"experts": 3}),
    Matches(ORDER, ("int32[6]", "int32[6]", "int32[n]", "int32[3, 2]")),
    Matches(ORDER, ("int32[8]", "int32[8]", "int64[12]", "int64[2, 4]")),
]

_MASK = """
@T.prim_func(s_tir=True)
def main(idx: T.Buffer((3, 2), "int32"), out: T.Buffer((3, 4), "int32")):
    for t, e in T.grid(3, 4):
        out[t, e] = T.if_then_else({chosen}, T.int32({yes}), T.int32(0))
"""
_CHOSEN = {"chosen": "idx[t, 0] == e or idx[t, 1] == e", "yes": 1}
_INDPTR = """
@T.prim_func(s_tir=True)
def main(p: T.handle, q: T.handle):
    n = T.int64()
    sums = T.match_buffer(p, (4 * n,), "int32")
    out = T.match_buffer(q, (5,), "int32")
    for e in range(5):
        out[e] = T.if_then_else({later}, sums[{place}], T.int32({first}))
"""
_STARTS = {"later": "e > 0", "place": "e * n - 1", "first": 0}
_ORDER = """
@T.prim_func(s_tir=True)
def main(sums: T.Buffer((12,), "int32"), idx: T.Buffer((3, 2), "int32"),
         places: T.Buffer((6,), "int32"), tokens: T.Buffer((6,), "int32")):
    for t, j in T.grid(3, 2):
        places[sums[{at}] - {before}] = {row}
        tokens[sums[{at}] - {before}] = {token}
"""
_SORTED = {"at": "idx[t, j] * 3 + t", "before": 1, "row": "t * 2 + j", "token": "t"}

REFUSES = [
    *(
        Refuses(reason, _MASK.format(**_CHOSEN | change))
        for reason, change in (
            ("tokens without the expert", {"chosen": "idx[t, 0] != e and idx[t, 1] != e"}),
            ("both are the expert", {"chosen": "idx[t, 0] == e and idx[t, 1] == e"}),
            ("one expert only", {"chosen": "idx[t, 0] == e"}),
            ("the next expert", {"chosen": "idx[t, 0] == e or idx[t, 1] == e + 1"}),
            ("another token", {"chosen": "idx[t, 0] == e or idx[2 - t, 1] == e"}),
            ("the mask is 2", {"yes": 2}),
        )
    ),
    *(
        Refuses(reason, _INDPTR.format(**_STARTS | change))
        for reason, change in (
            ("the start of the last row", {"place": "e * n - n"}),
            ("it starts at 1", {"first": 1}),
            ("rows in another order", {"place": "(5 - e) * n - 1"}),
            ("the second one is 0 too", {"later": "e > 1"}),
        )
    ),
    *(
        Refuses(reason, _ORDER.format(**_SORTED | change))
        for reason, change in (
            ("token by token", {"at": "t * 4 + idx[t, j]"}),
            ("one place later", {"before": 0}),
            ("experts in the other order", {"at": "idx[t, 1 - j] * 3 + t"}),
            ("expert by expert", {"row": "j * 3 + t"}),
            ("the expert instead of the token", {"token": "j"}),
        )
    ),
]


@recogniser("experts", precedence=388, ops=(MASK, INDPTR, ORDER))
def experts(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match by the number of outputs and their dimensions; the proof decides the rest."""
    definition = expression.outputs[0]
    out, loads = definition.out, read(definition.body)
    shape, tensors = out.shape, [x.tensor for x in loads]
    if len(expression.outputs) == 2:
        return _order(expression)
    if len(expression.outputs) != 1 or len(tensors) != 1 or "int" not in tensors[0].dtype:
        return Refusal("the compute is not about the experts of tokens")
    (source,) = tensors
    choice = bare(definition.body)
    if not (isinstance(choice, CallTerm) and choice.op == "ite"):
        return Refusal("the compute does not choose experts")
    if len(shape) == len(source.shape) == 2 and shape[1].const is not None:
        compared = {x for x in subterms(choice.args[0]) if isinstance(x, Load)}
        if source.shape[1].const != len(compared):  # the definition compares each of them
            return Refusal("not all experts of a token are compared")
        sizes = _sizes(shape[0], source.shape[0])
        attrs = {"experts": shape[1].const, "dtype": out.dtype}
        return [Proposal(MASK, (source.position,), attrs, sizes=sizes)]
    count = shape[0].const if len(shape) == len(source.shape) == 1 else None
    if count is None or count < 2:
        return Refusal("the compute is not about the experts of tokens")
    return [Proposal(INDPTR, (source.position,), {"experts": count - 1})]


def _sizes(extent: Int, tokens: Int) -> dict[Var, Int]:
    """The tokens of the mask, if they are a size of their own."""
    variable = lone_size(extent)
    return {} if variable is None or extent is tokens else {variable: tokens}


def _order(expression: TensorExpression) -> list[Proposal] | Refusal:
    """Stores at elements of one tensor, which elements of a matrix of integers choose."""
    stores = [scatter(d, d.body) for d in expression.outputs]
    if any(s is None for s in stores):
        return Refusal("the compute is not two series of stores at indices from data")
    first, second = (s for s in stores if s is not None)
    place = first.places.get(0)
    sums = _outer(place)
    if sums is None or place is not second.places.get(0):
        return Refusal("the two series of stores are not to the same places")
    inside = [x.tensor for i in sums.indices for x in read(i)]
    if len(inside) != 1:
        return Refusal("the places are not chosen by the elements of one tensor")
    olds = (first.data, second.data)
    operands = (*(t.position for t in olds), sums.tensor.position, inside[0].position)
    return [Proposal(ORDER, operands)]


def _outer(term: Term | None) -> Load | None:
    """The load in a term that is not in the index of another one."""
    loads = [s for s in subterms(term) if isinstance(s, Load)] if term is not None else []
    nested: set[TensorVar] = {x.tensor for load in loads for i in load.indices for x in read(i)}
    outer = [x for x in loads if x.tensor not in nested]
    return outer[0] if len(outer) == 1 else None
