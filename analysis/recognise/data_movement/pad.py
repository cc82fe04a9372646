"""nn.pad: the input shifted by ``b`` inside a larger output.

- constant: ``out[y] = x[y - b] if 0 <= y - b < n else value``;
- replicate, reflect, circular: ``out[y] = x[m(y - b)]`` where m clamps, mirrors or wraps.

On an axis of extent 1 the shift shows only in the conditions.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ...proposal.proposal import Proposal
from ...proposal.undetermined import numbers
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import ONE, CallTerm, Int, Load
from ...terms.traversal import subterms
from .._forms.access_functions import SelectionLeaf, affine, begin, literal, pieces, single_read

OP = "relax.nn.pad"
MATCHES = [
    Matches(OP, (shape,), {"pad_width": widths, "pad_mode": mode, "pad_value": value})
    for shape, widths, mode, value in (
        ("float32[10, n]", [1, 2, 0, 3], "constant", 0.0),
        ("float32[2, 3, 5]", [0, 0, 0, 1, 2, 0], "constant", -1.5),
        ("float16[1, 4]", [1, 1, 0, 2], "constant", 1.0),
        ("int32[4, 4]", [1, 1, 0, 2], "constant", 3),
        ("float32[10, n]", [0, 0, 2, 3], "reflect", 0.0),
        ("float32[1, 3, 8, 8]", [0, 0, 0, 0, 1, 2, 2, 1], "reflect", 0.0),
        ("float32[10, n]", [1, 2, 2, 3], "replicate", 0.0),
        ("float32[10, n]", [1, 2, 2, 3], "circular", 0.0),
        ("float32[1, 3, 8, 8]", [0, 0, 0, 0, 1, 2, 2, 1], "circular", 0.0),
    )
]

REFUSES = [
    Refuses(
        "the last element is cut off",
        """
@T.prim_func(s_tir=True)
def f(x: T.Buffer((8,), "float32"), out: T.Buffer((10,), "float32")):
    for i in range(10):
        out[i] = T.if_then_else(1 <= i and i < 8, x[i - 1], T.float32(0))
""",
    ),
    Refuses(
        "the two sides have different values",
        """
@T.prim_func(s_tir=True)
def f(x: T.Buffer((8,), "float32"), out: T.Buffer((10,), "float32")):
    for i in range(10):
        out[i] = T.if_then_else(
            i < 1, T.float32(0), T.if_then_else(i < 9, x[i - 1], T.float32(1))
        )
""",
    ),
    Refuses(
        "the mirrored border includes the edge itself",
        """
@T.prim_func(s_tir=True)
def f(x: T.Buffer((8,), "float32"), out: T.Buffer((10,), "float32")):
    for i in range(10):
        out[i] = T.if_then_else(i < 2, x[1 - i], x[i - 2])
""",
    ),
]


@recogniser("pad", precedence=340, ops=(OP,))
def pad(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match ``x[y - b]`` inside its bounds and one literal outside."""
    (definition,) = expression.outputs[:1]
    leaves = list(pieces(definition.body))
    inside = [p for p in leaves if isinstance(p.value, Load)]
    values = {p.value for p in leaves if not isinstance(p.value, Load)}
    if len(expression.outputs) != 1 or len(inside) != 1 or len(values) != 1:
        return Refusal("the compute is not one load and one value around it")
    value = literal(values.pop())
    if value is None:
        return Refusal("the value around the input is not a literal")
    widths = _constant_widths(definition, inside[0])
    if isinstance(widths, Refusal):
        return widths
    term = inside[0].value
    assert isinstance(term, Load)
    attrs = {"pad_width": widths, "pad_mode": "constant", "pad_value": value}
    return [Proposal(OP, (term.tensor.position,), attrs)]


def _constant_widths(definition: OutputDefinition, leaf: SelectionLeaf) -> list[int] | Refusal:
    term = leaf.value
    assert isinstance(term, Load)
    if len(term.indices) != len(definition.axes):
        return Refusal("input and output have different ranks")
    widths: list[int] = []
    for index, extent, coordinate, out_extent in zip(
        term.indices, term.tensor.shape, definition.axes, definition.out.shape, strict=True
    ):
        start = begin(leaf.conditions, coordinate) if extent is ONE else coordinate - index
        before = start.const
        extra = (out_extent - extent).const
        if before is None or extra is None or not 0 <= before <= extra:
            return Refusal("the input is not shifted by a literal")
        widths += [before, extra - before]
    return widths


MODES = ("reflect", "replicate", "circular")
UNSEEN = numbers(["pad_value"], "the padding is read from the input")


@recogniser("pad_mode", precedence=342, ops=(OP,))
def pad_mode(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match ``x[m(y - b)]``; the operations in the index give the mode."""
    reading = single_read(expression)
    if isinstance(reading, Refusal):
        return reading
    if len(reading.index) != len(reading.axes):
        return Refusal("input and output have different ranks")
    modes, widths = list(MODES), []
    for k, (index, coordinate) in enumerate(zip(reading.index, reading.axes, strict=True)):
        extra = (reading.out.shape[k] - reading.tensor.shape[k]).const
        if extra is None or extra < 0:
            return Refusal("the output is not larger than the input by a literal")
        before = 0
        if extra:
            fitting = _modes(index, reading.tensor.shape[k])
            if not fitting:
                return Refusal("the access matches no padding mode")
            modes = [mode for mode in modes if mode in fitting]
            before = _shift(index, coordinate, reading.tensor.shape[k], extra)
        widths += [before, extra - before]
    if not modes or len(modes) == len(MODES):
        return Refusal("the axes are padded in different modes")
    return [
        Proposal(
            OP,
            (reading.tensor.position,),
            {"pad_width": widths, "pad_mode": mode, "pad_value": 0.0},
            undetermined=UNSEEN,
        )
        for mode in modes
    ]


def _modes(poly: Int, extent: Int) -> tuple[str, ...]:
    """The modes that fit: TVM repeats a border by min and max, or (in 0.26) by conditions."""
    calls = [s for s in subterms(poly) if isinstance(s, CallTerm)]
    ops = {s.op for s in calls}
    if "ite" in ops:
        return "reflect", "replicate"
    if any(s.op == "floordiv" and s.args[1] is extent for s in calls):
        return ("circular",)
    return ("replicate",) if ops & {"min", "max"} else ()


def _shift(index: Int, coordinate: Int, extent: Int, extra: int) -> int:
    """The shift b, from a term ``y - b`` in the index; for a rotation, modulo the extent."""
    shifts: list[int] = []
    for term in subterms(index):
        form = affine(term, coordinate) if isinstance(term, Int) else None
        if form is None or form[1].const not in (1, -1):
            continue
        offset = form[0].const
        if offset is None:
            continue
        shift = -offset * (form[1].const or 0)
        if shift < 0 and extent.const:
            shift %= extent.const
        if 0 <= shift <= extra:
            shifts.append(shift)
    return max(shifts, default=0)
