"""split: the outputs are consecutive slices, ``out_j[y] = x[y + b_j on one axis]``.

Pieces of equal or symbolic extents are canonically given as a number of sections.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import ZERO
from .._forms.access_functions import AccessRead, affine, plain, read_of

OP = "relax.split"
MATCHES = [
    Matches(OP, ("float32[3, 12]",), {"indices_or_sections": [3, 5], "axis": 1}),
    Matches(OP, ("int64[n, 12, 2]",), {"indices_or_sections": 3, "axis": 1}),
    Matches(OP, ("float32[3, n]",), {"indices_or_sections": 2, "axis": 1}),
    Matches(OP, ("float32[n, 3]",), {"indices_or_sections": [2, 5], "axis": 0}),
    Matches(OP, ("bool[4]",), {"indices_or_sections": 4, "axis": 0}),
    Matches(
        OP,
        ("float16[6, n]",),
        {"indices_or_sections": [2, 4], "axis": 0},
        expect={"indices_or_sections": 3, "axis": 0},
    ),
]

REFUSES = [
    Refuses(
        "the second piece starts one element late",
        """
@T.prim_func(s_tir=True)
def f(a: T.Buffer((9,), "float32"), p: T.Buffer((4,), "float32"), q: T.Buffer((4,), "float32")):
    for i in range(4):
        p[i] = a[i]
    for i in range(4):
        q[i] = a[i + 5]
""",
    ),
    Refuses(
        "the pieces are swapped",
        """
@T.prim_func(s_tir=True)
def f(a: T.Buffer((8,), "float32"), p: T.Buffer((4,), "float32"), q: T.Buffer((4,), "float32")):
    for i in range(4):
        p[i] = a[i + 4]
    for i in range(4):
        q[i] = a[i]
""",
    ),
]


@recogniser("split", precedence=260, ops=(OP,))
def split(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match ``out_j[y] = x[y + b_j]`` with ``b_{j+1} = b_j + extent_j``."""
    if len(expression.outputs) < 2:
        return Refusal("the function has one output")
    reads = [r for r in map(read_of, expression.outputs) if isinstance(r, AccessRead)]
    if len(reads) != len(expression.outputs) or len({r.tensor for r in reads}) != 1:
        return Refusal("the outputs are not loads of one tensor")
    tensor = reads[0].tensor
    if any(len(r.axes) != len(tensor.shape) for r in reads):
        return Refusal("input and output have different ranks")
    axes = [k for k in range(len(tensor.shape)) if any(r.index[k] is not r.axes[k] for r in reads)]
    if len(axes) != 1:
        return Refusal("not exactly one axis is split")
    (axis,) = axes
    begins, position = [], ZERO
    for read in reads:
        form = affine(read.index[axis], read.axes[axis])
        if form is None or form[0] is not position or form[1].const != 1:
            return Refusal("the pieces are not consecutive")
        begins.append(plain(position))
        position = position + read.out.shape[axis]
    if position is not tensor.shape[axis]:
        return Refusal("the pieces do not cover the input")
    equal = len({r.out.shape[axis] for r in reads}) == 1
    literal = all(isinstance(b, int) for b in begins)
    sections = len(reads) if equal or not literal else begins[1:]
    return [Proposal(OP, (tensor.position,), {"indices_or_sections": sections, "axis": axis})]
