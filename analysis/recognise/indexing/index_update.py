"""Updates of elements or rows that vectors of indices name.

out[y] = data[y];  for k: if rows[k] == y[0] (and columns[k] == y[1]): out[y] = updates[k, ..]
"""

from __future__ import annotations

from collections.abc import Sequence

from ...composites.scattered import REDUCTIONS, UPDATE
from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import CallTerm, Int, Load, Term
from ...terms.traversal import subterms
from .._forms.stores_at_indices import index_vector, read, scatter

MATCHES = [
    *(
        Matches(
            UPDATE,
            (f"{dtype}[m, n]", f"{dtype}[k, n]", f"{index}[k]"),
            {"reduction": reduction},
        )
        for dtype, index, reduction in (
            ("float32", "int32", "update"),
            ("float16", "int64", "add"),
            ("int32", "int32", "max"),
        )
    ),
    Matches(UPDATE, ("float32[m, 2, 3]", "float32[4, 2, 3]", "int64[4]"), {"reduction": "mul"}),
    Matches(UPDATE, ("float32[7]", "float32[k]", "int32[k]"), {"reduction": "min"}),
    *(
        Matches(
            UPDATE,
            ("float32[m, n]", "float32[k]", "int32[k]", "int32[k]"),
            {"reduction": reduction},
        )
        for reduction in ("update", "add")
    ),
]

_HEAD = """
@T.prim_func(s_tir=True)
def main(data: T.Buffer((5, 6), "float32"), rows: T.Buffer((3,), "int32"),
         columns: T.Buffer((3,), "int32"), u: T.Buffer((3,), "float32"),
         out: T.Buffer((5, 6), "float32")):
    for i, j in T.grid(5, 6):
        out[i, j] = {data}
    for k in range({count}):
        out[{place}] = {value}
"""
_RIGHT = {"data": "data[i, j]", "count": "3", "place": "rows[k], columns[k]", "value": "u[k]"}

REFUSES = [
    Refuses("the next row", _HEAD.format(**_RIGHT | {"place": "(rows[k] + 1) % 5, columns[k]"})),
    Refuses("one store fewer", _HEAD.format(**_RIGHT | {"count": "2"})),
    Refuses("the columns of another store", _HEAD.format(
        **_RIGHT | {"place": "rows[k], columns[2 - k]"})),
    Refuses("the update of another store", _HEAD.format(**_RIGHT | {"value": "u[2 - k]"})),
    Refuses("the update is halved", _HEAD.format(**_RIGHT | {"value": "u[k] * T.float32(0.5)"})),
    Refuses("the other elements are 0", _HEAD.format(**_RIGHT | {"data": "T.float32(0)"})),
    Refuses("the sum with the negated update", _HEAD.format(
        **_RIGHT | {"value": "out[rows[k], columns[k]] - u[k]"})),
]  # fmt: skip


@recogniser("index_update", precedence=428, ops=(UPDATE,))
def index_update(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match stores of the elements of one tensor at one or two leading coordinates."""
    (definition,) = expression.outputs[:1]
    stores = scatter(definition, definition.body)
    if stores is None or len(expression.outputs) != 1:
        return Refusal("the compute is not a series of stores at indices from data")
    rows = index_vector(stores.places.get(0), stores.fold)
    columns = index_vector(stores.places.get(1), stores.fold)
    updates = [x for x in read(stores.value) if x.tensor is not stores.data]
    reduction = _reduction(stores.value, stores.state)
    if rows is None or len(updates) != 1 or reduction is None:
        return Refusal("the stores are not updates by the elements of one tensor")
    tensors = [stores.data, updates[0].tensor, rows, *([] if columns is None else [columns])]
    return [Proposal(UPDATE, tuple(t.position for t in tensors), {"reduction": reduction})]


def _reduction(value: Term, state: Term) -> str | None:
    """How a value combines the state with a load."""
    if isinstance(value, Load):
        return "update"
    if state not in subterms(value):
        return None
    if isinstance(value, Int):
        return "add" if len(value.terms) > 1 else "mul"
    return value.op if isinstance(value, CallTerm) and value.op in REDUCTIONS else None
