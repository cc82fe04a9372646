"""concat and stack: each input covers an interval of one axis, in order.

- concat: ``out[y] = x_j[y - b_j on the axis]  if b_j <= y_axis < b_{j+1}``;
- stack: ``out[y] = x_j[y without the axis]  if y_axis = j``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.order import nonneg
from ...terms.term import ONE, ZERO, Int, Load, TensorVar, Term
from .._forms.access_functions import begin, pieces

MATCHES = [
    Matches("relax.concat", ("float32[3, n]", "float32[2, n]", "float32[4, n]"), {"axis": 0}),
    Matches("relax.concat", ("float16[3, n]", "float16[3, m]"), {"axis": 1}),
    Matches("relax.concat", ("int64[1]", "int64[1]", "int64[1]"), {"axis": 0}),
    Matches("relax.concat", ("bool[2, 1, 4]", "bool[2, 3, 4]"), {"axis": 1}),
    Matches("relax.concat", ("int32[2, 3]", "int32[2, 1]"), {"axis": -1}, expect={"axis": 1}),
    Matches("relax.stack", ("float32[3, n]", "float32[3, n]"), {"axis": 1}),
    Matches("relax.stack", ("int8[3]", "int8[3]", "int8[3]"), {"axis": 0}),
    Matches("relax.stack", ("int64[2, 2]", "int64[2, 2]"), {"axis": -1}, expect={"axis": 2}),
]

REFUSES = [
    Refuses(
        "the second input is rotated by one",
        """
@T.prim_func(s_tir=True)
def f(
    a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32"), out: T.Buffer((8,), "float32")
):
    for i in range(8):
        out[i] = T.if_then_else(i < 4, a[i % 4], b[(i + 1) % 4])
""",
    ),
    Refuses(
        "the border is off by one",
        """
@T.prim_func(s_tir=True)
def f(
    a: T.Buffer((4,), "float32"), b: T.Buffer((5,), "float32"), out: T.Buffer((8,), "float32")
):
    for i in range(8):
        out[i] = T.if_then_else(i < 3, a[i], b[i - 3])
""",
    ),
]

Entry = tuple[Int, TensorVar]


@recogniser("concat", precedence=270, ops=("relax.concat",))
def concat(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match loads that are shifted along one axis, each ending where the next begins."""
    loads = _loads(expression, 0)
    if isinstance(loads, Refusal):
        return loads
    definition = expression.outputs[0]
    for axis, coordinate in enumerate(definition.axes):
        entries: list[Entry] = []
        for conditions, load in loads:
            start = (
                coordinate - load.indices[axis]
                if load.tensor.shape[axis] is not ONE
                else begin(conditions, coordinate)
            )
            if all(i is definition.axes[k] for k, i in enumerate(load.indices) if k != axis):
                entries.append((start, load.tensor))
        entries = _sorted(entries)
        total = ZERO
        for start, tensor in entries:
            if start is not total:
                break
            total = total + tensor.shape[axis]
        else:
            if len(entries) == len(loads) and total is definition.out.shape[axis]:
                inputs = tuple(t.position for _, t in entries)
                return [Proposal("relax.concat", inputs, {"axis": axis})]
    return Refusal("the inputs do not cover the output consecutively along an axis")


@recogniser("stack", precedence=280, ops=("relax.stack",))
def stack(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match loads that omit one axis, whose value selects the input."""
    loads = _loads(expression, 1)
    if isinstance(loads, Refusal):
        return loads
    definition = expression.outputs[0]
    for axis, coordinate in enumerate(definition.axes):
        if definition.out.shape[axis].const != len(loads):
            continue
        other_axes = tuple(i for k, i in enumerate(definition.axes) if k != axis)
        if all(x.indices == other_axes for _, x in loads):
            entries = _sorted(
                [(begin(conditions, coordinate), x.tensor) for conditions, x in loads]
            )
            if [b.const for b, _ in entries] == list(range(len(loads))):
                inputs = tuple(t.position for _, t in entries)
                return [Proposal("relax.stack", inputs, {"axis": axis})]
    return Refusal("no axis selects the input")


def _loads(
    expression: TensorExpression, fewer: int
) -> list[tuple[tuple[Term, ...], Load]] | Refusal:
    """The pieces of the only output, as loads of tensors that lack ``fewer`` of its axes."""
    definition = expression.outputs[0]
    leaves = list(pieces(definition.body))
    if len(expression.outputs) != 1 or len(leaves) < 2:
        return Refusal("the compute does not select between inputs")
    loads = [(p.conditions, p.value) for p in leaves if isinstance(p.value, Load)]
    if len(loads) < len(leaves) or any(_rank(x, definition) != -fewer for _, x in loads):
        return Refusal("the inputs are not loads of a matching rank")
    return loads


def _rank(load: Load, definition: OutputDefinition) -> int:
    return len(load.indices) - len(definition.axes)


def _sorted(entries: list[Entry]) -> list[Entry]:
    """Sort by start: the position of an entry is the number that provably start earlier."""
    return sorted(entries, key=lambda e: sum(nonneg(e[0] - b - 1) for b, _ in entries))
