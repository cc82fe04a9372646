"""strided_slice and flip: every axis is read at ``begin + stride * y``.

The compute does not determine the end of a slice: every ``end`` with the same number of steps is
equivalent. The canonical end is ``begin + stride * extent``, but at most the input's extent (for a
negative stride, one that reaches element 0). The stride of an axis with one step is 1. ``flip`` is
canonical if one axis is reversed completely.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...lifting.effects.tensor_expression import TensorExpression
from ...proofs.prove import prove
from ...proposal.proposal import Proposal
from ...proposal.undetermined import Undetermined
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.condition_terms import ge0
from ...terms.order import nonneg
from ...terms.scalar import MAX_INT64
from ...terms.term import ZERO, CallTerm, Int, as_int, integer
from ...terms.traversal import subterms
from .._forms.access_functions import AccessRead, affine, plain, single_read

OP = "relax.strided_slice"


def _match(shape: str, axes: list[int], *ranges: list[int]) -> Matches:
    begin, end, strides = ranges
    attrs = {"axes": axes, "begin": begin, "end": end, "strides": strides}
    return Matches(OP, (shape,), attrs)


MATCHES = [
    _match("float32[10, n]", [0], [1], [10], [3]),
    _match("int64[10, 20]", [0, 1], [1, 0], [7, 19], [2, 1]),
    _match("bool[10]", [0], [2], [9], [1]),
    _match("float16[10, n]", [0], [8], [0], [-2]),
    _match("int32[1, 512]", [1], [0], [16], [1]),
    _match("int8[9, n]", [0], [3], [4], [1]),
    _match("float32[10, n]", [1], [2], [6], [1]),
    _match("float32[10, n]", [1], [-3], [2**63 - 1], [1]),
    Matches(OP, ("float32[10, 4]",), {"axes": [0], "begin": ["n"], "end": [10]}),
    Matches(OP, ("float32[10, 4]",), {"axes": [0], "begin": [0], "end": ["n"]}),
    Matches("relax.flip", ("float32[3, n]",), {"axis": 1}),
    Matches("relax.flip", ("int64[5]",), {"axis": 0}),
]

REFUSES = [
    Refuses(
        "the slice wraps around",
        """
@T.prim_func(s_tir=True)
def f(a: T.Buffer((10,), "float32"), out: T.Buffer((8,), "float32")):
    for i in range(8):
        out[i] = a[(i + 5) % 10]
""",
    ),
    Refuses(
        "a slice along a diagonal",
        """
@T.prim_func(s_tir=True)
def f(a: T.Buffer((10, 10), "float32"), out: T.Buffer((4, 5), "float32")):
    for i, j in T.grid(4, 5):
        out[i, j] = a[i + j, j]
""",
    ),
]


def ranges(read: AccessRead) -> list[tuple[Int, int]] | Refusal:
    """``(begin, stride)`` of every axis."""
    if len(read.axes) != len(read.index):
        return Refusal("input and output have different ranks")
    begins = []
    for index, coordinate in zip(read.index, read.axes, strict=True):
        form = affine(index, coordinate)
        if form is None or form[1].const is None or form[1].const == 0:
            return Refusal("an axis is not read at begin + stride * y")
        begins.append((form[0], form[1].const))
    return begins


@recogniser("flip", precedence=240, ops=("relax.flip",))
def flip(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match ``out[y] = x[n - 1 - y]`` on one axis."""
    reading = single_read(expression)
    axis_ranges = reading if isinstance(reading, Refusal) else ranges(reading)
    if isinstance(reading, Refusal) or isinstance(axis_ranges, Refusal):
        return axis_ranges  # type: ignore[return-value]
    if reading.out.shape != reading.tensor.shape:
        return Refusal("input and output have different shapes")
    reversed_axes = [k for k, (_, stride) in enumerate(axis_ranges) if stride == -1]
    unchanged = all(
        index is reading.axes[k] for k, index in enumerate(reading.index) if k not in reversed_axes
    )
    axis = reversed_axes[0] if len(reversed_axes) == 1 else None
    if axis is None or not unchanged or axis_ranges[axis][0] is not reading.out.shape[axis] - 1:
        return Refusal("not exactly one axis is reversed")
    return [Proposal("relax.flip", (reading.tensor.position,), {"axis": axis})]


@recogniser("strided_slice", precedence=250, ops=(OP,))
def strided_slice(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match ``out[y] = x[begin + stride * y]``."""
    reading = single_read(expression)
    axis_ranges = reading if isinstance(reading, Refusal) else ranges(reading)
    if isinstance(reading, Refusal) or isinstance(axis_ranges, Refusal):
        return axis_ranges  # type: ignore[return-value]
    axes = [
        k for k in range(len(axis_ranges)) if reading.tensor.shape[k] is not reading.out.shape[k]
    ]
    axes = sorted({*axes, *(k for k, (_, stride) in enumerate(axis_ranges) if stride != 1)})
    if not axes:
        return Refusal("no axis is sliced")
    ends = [_end(*axis_ranges[k], reading.out.shape[k], reading.tensor.shape[k]) for k in axes]
    symbolic = any(e.const is None for e in (*reading.tensor.shape, *reading.out.shape))
    notes = () if symbolic else tuple(_loose(reading, axes, axis_ranges))
    strides = [axis_ranges[k][1] for k in axes]
    return [
        Proposal(
            OP, (reading.tensor.position,), {"axes": axes, **variant, "strides": strides}, {}, notes
        )
        for variant in _variants(reading, axes, [axis_ranges[k][0] for k in axes], ends, symbolic)
    ]


def _loose(
    read: AccessRead, axes: list[int], axis_ranges: list[tuple[Int, int]]
) -> Iterator[Undetermined]:
    """Ends with the same number of steps, and the stride if there is only one step."""
    why = "the slice ends between two steps, or with the input"
    for k, axis in enumerate(axes):
        begin, stride = axis_ranges[axis][0].const, axis_ranges[axis][1]
        extent, steps = read.tensor.shape[axis].const, read.out.shape[axis].const
        if begin is None or extent is None or steps is None:
            continue
        if steps == 1:
            yield Undetermined("strides", "there is one step", k, low=1)
        last = begin + (steps - 1) * stride
        if stride > 0:
            low, high = last + 1, last + stride
            top = None if high >= extent else high
            if low != top:
                yield Undetermined("end", why, k, low, top)
        elif last + stride < 0:
            yield Undetermined("end", why, k, None, -extent - 1)
        elif stride < -1:
            yield Undetermined("end", why, k, last + stride, last - 1)


def _variants(
    read: AccessRead, axes: list[int], begins: list[Int], ends: list[Int], symbolic: bool
) -> Iterator[dict[str, Any]]:
    """Equivalent ranges; TVM clips symbolic ones, which changes the form of their extents."""
    extents = [read.tensor.shape[k] for k in axes]
    begin = [*map(plain, map(_unclipped, begins, extents))]
    end = [*map(plain, map(_unclipped, ends, extents))]
    yield {"begin": begin, "end": end}
    if symbolic:
        open_end = [MAX_INT64 if isinstance(e, Int) and e in extents else e for e in end]
        if open_end != end:
            yield {"begin": begin, "end": open_end}
        bounds = {"begin": [*map(plain, begins)], "end": [*map(plain, ends)]}
        yield {**bounds, "assume_inbound": True}
        ends = [ZERO if e is -n - 1 else e for e, n in zip(ends, extents, strict=True)]
        yield {**bounds, "end": [*map(plain, ends)], "assume_inbound": True}  # TVM includes it


def _unclipped(poly: Int, extent: Int) -> Int:
    """The p of ``min(max(p, 0), extent)``, as ``-k`` if it is ``extent - k``."""
    term = poly.atom
    if isinstance(term, CallTerm) and term.op == "min" and extent in term.args:
        operands = [a for a in term.args if a is not extent]
        poly = as_int(operands[0]) if len(operands) == 1 else poly
        term = poly.atom
        if (
            isinstance(term, CallTerm)
            and term.op == "max"
            and ZERO in term.args
            and len(term.args) == 2
        ):
            poly = _unwrapped(
                as_int(term.args[1] if term.args[0] is ZERO else term.args[0]), extent
            )
            offset = (poly - extent).const
            return poly if offset is None or offset >= 0 else integer(offset)
    return poly


def _unwrapped(poly: Int, extent: Int) -> Int:
    """The p of ``p + extent if p < 0 else p``."""
    term = poly.atom
    if isinstance(term, CallTerm) and term.op == "ite":
        yes, no = map(as_int, term.args[1:])
        if yes - no is extent:
            return no
    return poly


def _clips(poly: Int) -> bool:
    """Whether a bound was clipped to the input."""
    return any(isinstance(s, CallTerm) and s.op in ("min", "max") for s in subterms(poly))


def _end(begin: Int, stride: int, steps: Int, extent: Int) -> Int:
    """The canonical end."""
    end = begin + steps * stride
    bent = end.const is None and (stride > 1 or (stride == 1 and _clips(begin) and _clips(steps)))
    if bent and prove(ge0(end - extent), timeout_ms=100).proved:
        return extent
    if stride < 0:
        return end if nonneg(end) else -extent - 1
    return extent if nonneg(end - extent) else end
