"""Unary elementwise operators that are one intrinsic: ``out[y] = f(x[y])``."""

from __future__ import annotations

from collections.abc import Sequence

from ..lift import Lifted
from ..op_info import Proposal, Refusal
from ..term import Call, Int, Load
from . import Matches, recogniser

#: Canonical operation → Relax op.
NAMES = {
    "exp": "relax.exp",
    "tanh": "relax.tanh",
    "sigmoid": "relax.sigmoid",
    "sqrt": "relax.sqrt",
    "rsqrt": "relax.rsqrt",
    "erf": "relax.erf",
}

MATCHES = [
    Matches(op, (f"{dtype}[2, 3, n]",))
    for op in NAMES.values()
    for dtype in ("float32", "float16")
]


@recogniser("unary", precedence=100, ops=tuple(NAMES.values()))
def unary(f: Lifted) -> Sequence[Proposal] | Refusal:
    """``out[y] = f(x[y])`` with ``f`` one of :data:`NAMES`."""
    (c,) = f.outputs[:1]
    body = c.body.atom if isinstance(c.body, Int) else c.body
    if len(f.outputs) != 1 or not isinstance(body, Call) or body.op not in NAMES:
        return Refusal("the compute is not one intrinsic")
    x = body.args[0]
    if not isinstance(x, Load) or x.indices != c.axes:
        return Refusal("the operand is not read at the output's own coordinates")
    return [Proposal(NAMES[body.op], (x.tensor.position,))]
