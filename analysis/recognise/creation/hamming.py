"""hamming_window: ``out[y] = alpha - beta * cos(2π * y / N)``.

N is the size of a periodic window, and one less for a symmetric one. A window of size 1 is `full`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import CallTerm, Const
from ...terms.traversal import subterms
from .._forms.access_functions import dims
from .._forms.reduced_dimensions import args
from .._forms.sums_of_products import bare

OP = "relax.hamming_window"


def _case(size: int, periodic: bool, alpha: float, beta: float, dtype: str) -> Matches:
    attrs = {"window_size": size, "periodic": periodic, "alpha": alpha, "beta": beta}
    return Matches(OP, (), {**attrs, "dtype": dtype})


MATCHES = [
    _case(10, True, 0.54, 0.46, "float32"),
    _case(10, False, 0.54, 0.46, "float32"),
    _case(2, False, 0.5, 0.5, "float16"),
    _case(7, True, 1.0, 1.0, "float64"),
    _case(7, False, 0.0, -1.5, "float32"),
    Matches(
        OP,
        (),
        {"window_size": 1, "periodic": True, "alpha": 0.54, "beta": 0.46, "dtype": "float32"},
        {"shape": (1,), "fill_value": 1.0},
        "relax.full",
    ),
]

REFUSES = [
    Refuses(
        "a sine",
        """
@T.prim_func(s_tir=True)
def main(out: T.Buffer((8,), "float32")):
    for i in range(8):
        out[i] = T.Cast("float32", T.float64(0.54) - T.float64(0.46) * T.Cast("float64", T.sin(
            T.float32(6.283185307179586) * T.Cast("float32", i) / T.float32(8))))
""",
    ),
    Refuses(
        "half the frequency",
        """
@T.prim_func(s_tir=True)
def main(out: T.Buffer((8,), "float32")):
    for i in range(8):
        out[i] = T.Cast("float32", T.float64(0.54) - T.float64(0.46) * T.Cast("float64", T.cos(
            T.float32(3.141592653589793) * T.Cast("float32", i) / T.float32(8))))
""",
    ),
]


@recogniser("hamming_window", precedence=359, ops=(OP,))
def hamming_window(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match the literals around a cosine; both kinds of period are tried."""
    (definition,) = expression.outputs[:1]
    if len(expression.outputs) != 1 or len(definition.axes) != 1:
        return Refusal("a window has one dimension")
    if not any(isinstance(s, CallTerm) and s.op == "cos" for s in subterms(definition.body)):
        return Refusal("the compute has no cosine")
    difference = args(definition.body, "sub")
    alpha = bare(difference[0]) if difference else None
    if difference is None or not isinstance(alpha, Const):
        return Refusal("the compute is not a cosine subtracted from a literal")
    factors = [bare(t) for t in args(difference[1], "mul") or ()]
    betas = [t.value for t in factors if isinstance(t, Const)] or [1.0]
    (size,) = dims(definition.out.shape)
    attrs = {
        "window_size": size,
        "alpha": alpha.value,
        "beta": betas[0],
        "dtype": definition.out.dtype,
    }
    return [Proposal(OP, (), {**attrs, "periodic": periodic}) for periodic in (True, False)]
