"""broadcast_to, tile and repeat: one element is read for several outputs.

- broadcast_to: ``g_k(y) = y_k``, or 0 where the input has extent 1, aligned at the last axis;
- tile: ``g_k(y) = y_k mod n_k``;
- repeat: ``g_k(y) = y_k // r`` on one axis, or on the flattened input.

Along an axis of extent 1 the three are the same: broadcast_to is canonical, then tile.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.integer import floordiv, floormod
from ...terms.row_major import flat, volume
from ...terms.term import ONE, Int, integer
from .._forms.access_functions import AccessRead, dims, ratio, single_read

MATCHES = [
    Matches("relax.broadcast_to", ("float32[3, 1]",), {"shape": (2, 3, 5)}),
    Matches("relax.broadcast_to", ("int64[1, 1]",), {"shape": (4, 5)}),
    Matches("relax.broadcast_to", ("bool[]",), {"shape": (4,)}),
    Matches("relax.broadcast_to", ("float32[1, n]",), {"shape": (2, "m", "n")}),
    Matches("relax.tile", ("float32[3, n]",), {"repeats": [2, 3]}),
    Matches("relax.tile", ("int32[3, n]",), {"repeats": [2, 1, 3]}),
    Matches("relax.tile", ("float16[4]",), {"repeats": [3]}),
    Matches("relax.repeat", ("float32[3, n]",), {"repeats": 3, "axis": 1}),
    Matches("relax.repeat", ("int8[3, 4]",), {"repeats": 3}, expect={"repeats": 3, "axis": None}),
]

REFUSES = [
    Refuses(
        "axes aligned at the first one",
        """
@T.prim_func(s_tir=True)
def f(a: T.Buffer((3,), "float32"), out: T.Buffer((3, 3), "float32")):
    for i, j in T.grid(3, 3):
        out[i, j] = a[i]
""",
    ),
    Refuses(
        "a rotated tile",
        """
@T.prim_func(s_tir=True)
def f(a: T.Buffer((3,), "float32"), out: T.Buffer((6,), "float32")):
    for i in range(6):
        out[i] = a[(i + 1) % 3]
""",
    ),
]


@recogniser("broadcast_to", precedence=220, ops=("relax.broadcast_to",))
def broadcast_to(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match ``out[…, y_k, …] = x[y_k or 0]``."""
    reading = single_read(expression)
    if isinstance(reading, Refusal):
        return reading
    shape, lead = reading.tensor.shape, len(reading.axes) - len(reading.index)
    if lead < 0:
        return Refusal("the input has more axes than the output")
    ends = zip(reading.index, shape, reading.axes[lead:], reading.out.shape[lead:], strict=True)
    if not all(e is ONE or (i is y and e is o) for i, e, y, o in ends):
        return Refusal("an axis of extent other than 1 is not read at its own coordinate")
    return [
        Proposal(
            "relax.broadcast_to", (reading.tensor.position,), {"shape": dims(reading.out.shape)}
        )
    ]


@recogniser("tile", precedence=222, ops=("relax.tile",))
def tile(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match ``out[y] = x[y mod n]``."""
    reading = single_read(expression)
    if isinstance(reading, Refusal):
        return reading
    lead = len(reading.axes) - len(reading.index)
    if lead < 0:
        return Refusal("the input has more axes than the output")
    shape = (*(ONE,) * lead, *reading.tensor.shape)
    counts = _counts(reading, shape)
    if counts is None:
        return Refusal("an output extent is not a literal multiple of the input's")
    ends = zip(reading.index, reading.axes[lead:], reading.tensor.shape, strict=True)
    if not all(i is floormod(y, e) for i, y, e in ends):
        return Refusal("an axis is not read modulo its extent")
    return [Proposal("relax.tile", (reading.tensor.position,), {"repeats": counts})]


@recogniser("repeat", precedence=224, ops=("relax.repeat",))
def repeat(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match ``out[y] = x[y // r]`` along one axis or of the flattened input."""
    reading = single_read(expression)
    if isinstance(reading, Refusal):
        return reading
    operands = (reading.tensor.position,)
    if len(reading.axes) == 1:
        k = ratio(reading.out.shape[0], volume(reading.tensor.shape))
        offset = flat(reading.index, reading.tensor.shape)
        if (
            k not in (None, 1)
            and len(reading.index) != 1
            and offset is floordiv(reading.axes[0], integer(k))
        ):
            return [Proposal("relax.repeat", operands, {"repeats": k, "axis": None})]
    if len(reading.axes) != len(reading.index):
        return Refusal("input and output have different ranks")
    counts = _counts(reading, reading.tensor.shape)
    if counts is None:
        return Refusal("an output extent is not a literal multiple of the input's")
    repeated = [k for k, n in enumerate(counts) if n > 1]
    ends = zip(reading.index, reading.axes, counts, strict=True)
    if len(repeated) != 1 or not all(i is floordiv(y, integer(n)) for i, y, n in ends):
        return Refusal("not exactly one axis is read at its coordinate divided by a literal")
    return [
        Proposal("relax.repeat", operands, {"repeats": counts[repeated[0]], "axis": repeated[0]})
    ]


def _counts(read: AccessRead, shape: Sequence[Int]) -> list[int] | None:
    """The ratio of each output extent to the input's."""
    counts = [ratio(o, e) for o, e in zip(read.out.shape, shape, strict=True)]
    return None if any(k is None or k < 1 for k in counts) else [k for k in counts if k]
