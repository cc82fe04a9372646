"""permute_dims: every axis is read once, ``out[y] = x[y[p⁻¹]]``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, permutations

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...proposal.undetermined import LISTED, among
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import ONE
from .._forms.access_functions import AccessRead, single_read

OP = "relax.permute_dims"
MATCHES = [
    Matches(OP, ("float32[2, 3, n]",), {"axes": [2, 0, 1]}),
    Matches(OP, ("int64[2, n, 3, 5]",), {"axes": [0, 2, 1, 3]}),
    Matches(OP, ("bool[4, 4]",), {"axes": [1, 0]}),
    Matches(OP, ("float16[1, 3, n]",), {"axes": [2, 0, 1]}),
    Matches(OP, ("int8[n, m]",), {}, expect={"axes": [1, 0]}),
]

REFUSES = [
    Refuses(
        "an axis is read in reverse",
        """
@T.prim_func(s_tir=True)
def f(a: T.Buffer((4, 4), "float32"), out: T.Buffer((4, 4), "float32")):
    for i, j in T.grid(4, 4):
        out[i, j] = a[j, 3 - i]
""",
    ),
    Refuses(
        "a diagonal, not a transpose",
        """
@T.prim_func(s_tir=True)
def f(a: T.Buffer((4, 4), "float32"), out: T.Buffer((4, 4), "float32")):
    for i, j in T.grid(4, 4):
        out[i, j] = a[j, j]
""",
    ),
]


@recogniser("permute_dims", precedence=210, ops=(OP,))
def permute_dims(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match a permutation; axes of extent 1, which leave no trace, keep their order."""
    reading = single_read(expression)
    if isinstance(reading, Refusal):
        return reading
    axes = permutation(reading)
    if isinstance(axes, Refusal):
        return axes
    loose = among(
        "axes", _orders(axes, reading), "the order of dimensions of extent 1 leaves no trace"
    )
    return [Proposal(OP, (reading.tensor.position,), {"axes": axes}, undetermined=loose)]


def _orders(axes: list[int], read: AccessRead) -> list[list[int]]:
    """The permutations that differ only in the order of dimensions of extent 1."""
    places = [k for k, e in enumerate(read.out.shape) if e is ONE]
    orders = []
    for order in islice(permutations([axes[k] for k in places]), LISTED):
        swapped = list(axes)
        for k, axis in zip(places, order, strict=True):
            swapped[k] = axis
        orders.append(swapped)
    return orders


def permutation(read: AccessRead) -> list[int] | Refusal:
    """The input axis for each output axis."""
    shape = read.tensor.shape
    if len(shape) != len(read.axes):
        return Refusal("input and output have different ranks")
    units = iter([k for k, e in enumerate(shape) if e is ONE])
    axes = []
    for coordinate, extent in zip(read.axes, read.out.shape, strict=True):
        candidates = [k for k, i in enumerate(read.index) if i is coordinate and shape[k] is extent]
        k = next(units, None) if extent is ONE else candidates[0] if len(candidates) == 1 else None
        if k is None:
            return Refusal("the input is not read at a permutation of the output's coordinates")
        axes.append(k)
    return axes if sorted(axes) == list(range(len(axes))) else Refusal("an axis is read twice")
