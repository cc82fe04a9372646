"""meshgrid: ``out_j[y] = x_j[y_j]``; with indexing ``xy`` the first two axes are exchanged."""

from __future__ import annotations

from collections.abc import Sequence

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from .._forms.access_functions import AccessRead, read_of

OP = "relax.meshgrid"
MATCHES = [
    Matches(OP, ("float32[3]", "float32[n]"), {"indexing": "ij"}),
    Matches(OP, ("int64[3]", "int64[4]", "int64[5]"), {"indexing": "xy"}),
]

REFUSES = [
    Refuses(
        "both outputs follow the same axis",
        """
@T.prim_func(s_tir=True)
def f(
    a: T.Buffer((4,), "float32"),
    b: T.Buffer((4,), "float32"),
    p: T.Buffer((4, 4), "float32"),
    q: T.Buffer((4, 4), "float32"),
):
    for i, j in T.grid(4, 4):
        p[i, j] = a[i]
    for i, j in T.grid(4, 4):
        q[i, j] = b[i]
""",
    ),
]


@recogniser("meshgrid", precedence=290, ops=(OP,))
def meshgrid(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match outputs that are each one vector along an axis of its own."""
    reads = [r for r in map(read_of, expression.outputs) if isinstance(r, AccessRead)]
    if len(reads) != len(expression.outputs) or len(reads) < 2:
        return Refusal("the outputs are not several, each of one load")
    if any(len(r.index) != 1 or len(r.axes) != len(reads) for r in reads):
        return Refusal("the number of vectors differs from the rank of the output")
    order = list(range(len(reads)))
    for indexing, axes in (("ij", order), ("xy", [1, 0, *order[2:]])):
        if all(r.index[0] is r.axes[a] for r, a in zip(reads, axes, strict=True)):
            vectors = tuple(r.tensor.position for r in reads)
            return [Proposal(OP, vectors, {"indexing": indexing})]
    return Refusal("the vectors are not along the axes in order")
