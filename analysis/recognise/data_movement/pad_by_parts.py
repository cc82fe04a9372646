"""nn.pad with borders read from the input, one choice for each part of an axis.

    out[y] = x[y - b] in the middle, and x at other shifts or places at the borders

The loads of the borders do not say which mode it is: each is proposed, and proved or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import Load
from .._forms.access_functions import pieces
from .pad import MODES, OP, UNSEEN

MATCHES = [
    Matches(
        OP,
        ("float32[3, 8]",),
        {"pad_width": [0, 0, 2, 1], "pad_mode": "circular", "pad_value": 0.0},
    )
]

REFUSES = [
    Refuses(
        "the last border begins one element late",
        """
@T.prim_func(s_tir=True)
def f(x: T.Buffer((6,), "float32"), out: T.Buffer((9,), "float32")):
    for i in range(9):
        out[i] = T.if_then_else(i < 2, x[i + 4], T.if_then_else(i < 8, x[i - 2], x[i - 7]))
""",
    ),
]

#: More choices of widths are not tried.
_MOST = 4


@recogniser("pad_by_parts", precedence=343, ops=(OP,))
def pad_by_parts(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match a selection between loads of one tensor at several shifts."""
    (definition,) = expression.outputs[:1]
    leaves = [p.value for p in pieces(definition.body)]
    loads = [x for x in leaves if isinstance(x, Load)]
    if len(expression.outputs) != 1 or len(loads) < 2 or len(loads) != len(leaves):
        return Refusal("the compute is not a selection between loads")
    tensor, axes = loads[0].tensor, definition.axes
    if any(x.tensor is not tensor for x in loads) or len(tensor.shape) != len(axes):
        return Refusal("the loads are not of one tensor of the output's rank")
    options: list[list[list[int]]] = []
    for k, coordinate in enumerate(axes):
        extra = (definition.out.shape[k] - tensor.shape[k]).const
        if extra is None or extra < 0:
            return Refusal("the output is not larger than the input by a literal")
        shifts = {(coordinate - x.indices[k]).const for x in loads}
        options.append([[b, extra - b] for b in range(extra + 1) if b in shifts])
    widths = [[n for pair in chosen for n in pair] for chosen in product(*options)]
    if not 0 < len(widths) <= _MOST or not any(any(w) for w in widths):
        return Refusal("no part of the output is the input, shifted by a literal")
    return [
        Proposal(
            OP,
            (tensor.position,),
            {"pad_width": each, "pad_mode": mode, "pad_value": 0.0},
            undetermined=UNSEEN,
        )
        for each in widths
        for mode in MODES
    ]
