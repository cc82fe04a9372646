"""Which sizes of their operands operators need to be equal, where Relax leaves that open.

Those of products and convolutions are in `product_sizes`, those of broadcast operands in
`broadcast_sizes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tvm import relax

from .broadcast_sizes import is_one
from .requirement import Requirement, equal, size_of

#: An operand and its axis, whose size is that of another operand and its axis.
Equal = tuple[tuple[int, int], tuple[int, int]]


def equal_sizes(call: Any) -> Iterator[Requirement]:
    """Return the sizes of operands that are to be equal.

    Args:
        call: A call of an operator in `EQUAL`.
    """
    for (operand, axis), place in EQUAL[call.op.name.removeprefix("relax.")](call):
        first, second = (_size(call.args[k], at) for k, at in ((operand, axis), place))
        if first is not None and second is not None:
            rank = len(call.args[operand].ty.shape.values)
            yield equal(size_of(operand, axis % rank), first, second)


def _attention(call: Any) -> Iterator[Equal]:
    """Batches, the lengths of keys and values, and the elements of queries and keys."""
    yield from (((0, 0), (1, 0)), ((0, 0), (2, 0)), ((1, 1), (2, 1)), ((0, 3), (1, 3)))
    if len(call.args) > 3 and call.args[3].ty.ndim == 4:
        places = ((0, 0), (0, 2), (0, 1), (1, 1))
        yield from (((3, k), place) for k, place in enumerate(places) if not _is_one(call, 3, k))


def _by_channel(call: Any) -> Iterator[Equal]:
    attrs = call.attrs
    axis = int(attrs.axis if hasattr(attrs, "axis") else attrs.channel_axis)
    yield from (((k, 0), (0, axis)) for k in range(1, len(call.args)))


def _by_axes(call: Any) -> Iterator[Equal]:
    for k in range(1, len(call.args)):
        yield from (((k, place), (0, int(axis))) for place, axis in enumerate(call.attrs.axes))


def _broadcast_to(call: Any) -> Iterator[Equal]:
    rank = call.args[0].ty.ndim
    yield from (((0, k), (1, k)) for k in range(-rank, 0) if not _is_one(call, 0, k))


def _nll_loss(call: Any) -> Iterator[Equal]:
    """Targets are those of rows and pixels; classes have weights."""
    rank = call.args[0].ty.ndim
    classes = min(rank - 1, 1)
    others = [k for k in range(rank) if k != classes]
    yield from (((1, k), (0, axis)) for k, axis in enumerate(others))
    if len(call.args) > 2:
        yield (2, 0), (0, classes)


def _prelu(call: Any) -> Iterator[Equal]:
    """Slopes are one, or those of the channels."""
    if not _is_one(call, 1, 0):
        yield (1, 0), (0, int(call.attrs.axis))


def _same(call: Any) -> Iterator[Equal]:
    yield from (((1, k), (0, k)) for k in range(call.args[0].ty.ndim))


def _boxes(_: Any) -> Iterator[Equal]:
    """Each box has scores."""
    yield from (((1, 0), (0, 0)), ((1, 2), (0, 1)))


def _anchors(_: Any) -> Iterator[Equal]:
    """Anchors have scores."""
    yield from (((1, 0), (0, 0)), ((2, 1), (0, 2)))


def _first(_: Any) -> Iterator[Equal]:
    yield (1, 0), (0, 0)


def _reverse_sequence(call: Any) -> Iterator[Equal]:
    yield (1, 0), (0, int(call.attrs.batch_axis))


EQUAL: Mapping[str, Callable[[Any], Iterator[Equal]]] = {
    "broadcast_to": _broadcast_to, "nn.cross_entropy_with_logits": _same,
    "vision.all_class_non_max_suppression": _boxes, "vision.multibox_transform_loc": _anchors,
    "reverse_sequence": _reverse_sequence, "image.grid_sample": _first, "nn.nll_loss": _nll_loss,
    "nn.attention": _attention, "nn.attention_bias": _attention, "nn.prelu": _prelu,
    "nn.batch_norm": _by_channel, "nn.group_norm": _by_channel, "nn.instance_norm": _by_channel,
    "nn.layer_norm": _by_axes, "nn.rms_norm": _by_axes,
}  # fmt: skip


def _size(expr: Any, axis: int) -> Any:
    """A size of a tensor or of a shape; None if it is unknown."""
    shape = expr if isinstance(expr, relax.ShapeExpr) else getattr(expr.ty, "shape", None)
    return shape.values[axis] if isinstance(shape, relax.ShapeExpr) and len(shape.values) else None


def _is_one(call: Any, operand: int, axis: int) -> bool:
    return is_one(_size(call.args[operand], axis))
