"""Which extents of their operands operators need to be equal, where Relax leaves that open."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tvm import relax, tirx

#: An operand and its axis, another operand and its axis, and a factor: the first extent is that
#: many times the second.
Equal = tuple[int, int, int, int, int]


def _matmul(call: Any) -> Iterator[Equal]:
    yield 0, -1, 1, -1 if call.args[1].ty.ndim == 1 else -2, 1


def _conv(call: Any) -> Iterator[Equal]:
    data, kernel = str(call.attrs.data_layout), str(call.attrs.kernel_layout)
    if data.isalpha() and kernel.isalpha():  # not with blocks of channels
        yield 0, data.index("C"), 1, kernel.index("I"), int(call.attrs.groups)


def _conv_transpose(call: Any) -> Iterator[Equal]:
    for first, axis, second, other, _ in _conv(call):
        yield first, axis, second, other, 1


def _einsum(call: Any) -> Iterator[Equal]:
    """Extents of a label; those that are 1 are broadcast."""
    text = str(call.attrs.subscripts).replace(" ", "").partition("->")[0]
    shapes = [getattr(ty.shape, "values", None) for ty in call.args[0].ty.fields]
    first: dict[str, tuple[int, int]] = {}
    for k, (labels, shape) in enumerate(zip(text.split(","), shapes, strict=False)):
        if "." in labels or shape is None or len(labels) != len(shape):
            continue
        for axis, label in enumerate(labels):
            if not is_number(shape[axis], 1):
                place = first.setdefault(label, (k, axis))
                if place != (k, axis):
                    yield k, axis, *place, 1


def _attention(call: Any) -> Iterator[Equal]:
    """Batches, the lengths of keys and values, and the elements of queries and keys."""
    yield from ((0, 0, 1, 0, 1), (0, 0, 2, 0, 1), (1, 1, 2, 1, 1), (0, 3, 1, 3, 1))
    if len(call.args) > 3 and call.args[3].ty.ndim == 4:
        places = ((0, 0), (0, 2), (0, 1), (1, 1))
        yield from ((3, k, *place, 1) for k, place in enumerate(places) if not _is_one(call, 3, k))


def _by_channel(call: Any) -> Iterator[Equal]:
    attrs = call.attrs
    axis = int(attrs.axis if hasattr(attrs, "axis") else attrs.channel_axis)
    yield from ((k, 0, 0, axis, 1) for k in range(1, len(call.args)))


def _by_axes(call: Any) -> Iterator[Equal]:
    for k in range(1, len(call.args)):
        yield from ((k, place, 0, int(axis), 1) for place, axis in enumerate(call.attrs.axes))


def _broadcast_to(call: Any) -> Iterator[Equal]:
    rank = call.args[0].ty.ndim
    yield from ((0, k, 1, k, 1) for k in range(-rank, 0) if not _is_one(call, 0, k))


def _scatter_elements(call: Any) -> Iterator[Equal]:
    yield from ((2, k, 1, k, 1) for k in range(call.args[1].ty.ndim))


def _nll_loss(call: Any) -> Iterator[Equal]:
    """Targets are those of rows and pixels; classes have weights."""
    rank = call.args[0].ty.ndim
    classes = min(rank - 1, 1)
    others = [k for k in range(rank) if k != classes]
    yield from ((1, k, 0, axis, 1) for k, axis in enumerate(others))
    if len(call.args) > 2:
        yield 2, 0, 0, classes, 1


def _first(call: Any) -> Iterator[Equal]:
    yield 1, 0, 0, 0, 1


def _reverse_sequence(call: Any) -> Iterator[Equal]:
    yield 1, 0, 0, int(call.attrs.batch_axis), 1


def is_number(extent: Any, number: int) -> bool:
    """Return whether an extent is known to be a number."""
    return isinstance(extent, tirx.IntImm) and int(extent) == number


def _is_one(call: Any, operand: int, axis: int) -> bool:
    shape = getattr(call.args[operand].ty, "shape", None)
    return isinstance(shape, relax.ShapeExpr) and is_number(shape.values[axis], 1)


#: The extents that operators need to be equal.
RULES: Mapping[str, Callable[[Any], Iterator[Equal]]] = {
    "matmul": _matmul, "einsum": _einsum,
    **{f"nn.conv{n}d": _conv for n in (1, 2, 3)},
    **{f"nn.conv{n}d_transpose": _conv_transpose for n in (1, 2, 3)},
    "broadcast_to": _broadcast_to, "scatter_elements": _scatter_elements,
    "reverse_sequence": _reverse_sequence, "image.grid_sample": _first, "nn.nll_loss": _nll_loss,
    "nn.attention": _attention, "nn.attention_bias": _attention,
    "nn.batch_norm": _by_channel, "nn.group_norm": _by_channel, "nn.instance_norm": _by_channel,
    "nn.layer_norm": _by_axes, "nn.rms_norm": _by_axes,
}  # fmt: skip
