"""reshape: the row-major offset is kept, ``flat(g(y), in_shape) = flat(y, out_shape)``.

``relax.reshape`` is the canonical operator. flatten, squeeze and expand_dims are alternatives where
they compute the same. The identity is recovered as an elementwise operator first.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.row_major import flat, volume
from ...terms.term import ONE, ZERO, Int
from .._forms.access_functions import dims, single_read

R = "relax.reshape"
MATCHES = [
    Matches(R, ("float32[2, 3, 4]",), {"shape": (6, 4)}),
    Matches(R, ("float16[2, 12]",), {"shape": (2, 3, 4)}),
    Matches(R, ("int64[6, 4]",), {"shape": (8, 3)}),
    Matches(R, ("bool[6, 4]",), {"shape": (1, 24, 1)}),
    Matches(R, ("int8[1, 1]",), {"shape": (1,)}),
    Matches(R, ("float32[n, 12]",), {"shape": ("n", 3, 4)}),
    Matches(R, ("float32[n, m]",), {"shape": ("m", "n")}),
    Matches("relax.flatten", ("float32[2, n, 4]",), name=R, expect={}),
    Matches("relax.nn.batch_flatten", ("float16[n, 2, 4]",), name=R, expect={}),
    Matches("relax.squeeze", ("float32[n, m, 4]",), {"axis": [1]}),
    Matches("relax.squeeze", ("float32[n, 1, 4]",), {"axis": [1]}, name=R, expect={}),
    Matches("relax.expand_dims", ("int32[n, 4]",), {"axis": [0, 2]}, name=R, expect={}),
]

REFUSES = [
    Refuses(
        "the digits of the offset are swapped",
        """
@T.prim_func(s_tir=True)
def f(a: T.Buffer((6, 4), "float32"), out: T.Buffer((2, 3, 4), "float32")):
    for i, j, k in T.grid(2, 3, 4):
        out[i, j, k] = a[j * 2 + i, k]
""",
    ),
    Refuses(
        "only the first half of the elements is read",
        """
@T.prim_func(s_tir=True)
def f(a: T.Buffer((4, 6), "float32"), out: T.Buffer((12,), "float32")):
    for i in range(12):
        out[i] = a[i // 6 + 1, i % 6]
""",
    ),
]


@recogniser("reshape", precedence=200, ops=(R,))
def reshape(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match ``flat(g(y)) = flat(y)`` over the same number of elements."""
    reading = single_read(expression)
    if isinstance(reading, Refusal):
        return reading
    source, target = reading.tensor.shape, reading.out.shape
    if volume(source) is not volume(target):
        axes = [k for k, i in enumerate(reading.index) if i is ZERO and source[k].const is None]
        if (
            axes
            and _without(reading.index, axes) == reading.axes
            and _without(source, axes) == target
        ):
            return [Proposal("relax.squeeze", (reading.tensor.position,), {"axis": axes})]
        return Refusal("input and output differ in their number of elements")
    if flat(reading.index, source) is not flat(reading.axes, target):
        return Refusal("the elements are not in row-major order")
    operands = (reading.tensor.position,)
    candidates = [Proposal(R, operands, {"shape": dims(target)})]
    if len(target) == 1 and source != target:
        candidates.append(Proposal("relax.flatten", operands))
    if (dropped := unit_axes(source, target)) is not None:
        candidates.append(Proposal("relax.squeeze", operands, {"axis": dropped}))
    if (added := unit_axes(target, source)) is not None:
        candidates.append(Proposal("relax.expand_dims", operands, {"axis": added}))
    return candidates


def _without(values: Sequence[Int], axes: Sequence[int]) -> tuple[Int, ...]:
    return tuple(v for k, v in enumerate(values) if k not in axes)


def unit_axes(longer: Sequence[Int], shorter: Sequence[Int]) -> list[int] | None:
    """Axes of extent 1 whose removal makes the longer shape the shorter one."""
    if len(longer) <= len(shorter):
        return None
    remaining = list(shorter)
    removed = []
    for k, poly in enumerate(longer):
        if remaining and remaining[0] is poly:
            remaining.pop(0)
        elif poly is ONE:
            removed.append(k)
        else:
            return None
    return None if remaining else removed
