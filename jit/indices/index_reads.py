"""What operators of Relax read or write at the elements of an operand.

Compiled code does so at any index that it is given, also outside of a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tvm import ir, relax, tirx

from ...analysis.support.ir.tensor_dims import tensor_dims


@dataclass(frozen=True)
class IndexRead:
    """An operand whose elements index an axis.

    Attributes:
        operand: The position of the operand.
        field: The position in the operand, if it is a tuple.
        low: The smallest element that is inside, an expression of int64.
        high: The largest one.
        component: The position on the operand's last axis of the elements; None means all.
    """

    operand: int
    low: Any
    high: Any
    component: int | None = None
    field: int | None = None
    also: int | None = None

    def of(self, call: Any) -> Any:
        """Return the operand of a call."""
        value = call.args[self.operand]
        return value if self.field is None else value.fields[self.field]


def reads(value: Any) -> tuple[IndexRead, ...]:
    """Return what an expression of Relax reads or writes at elements of its operands.

    Sizes without an expression are unknown, so that reads of their axes are not listed.
    """
    if not isinstance(value, relax.Call) or not isinstance(value.op, ir.Op):
        return ()
    rule = _RULES.get(value.op.name.removeprefix("relax."))
    return () if rule is None else tuple(rule(value))


def _take(call: Any) -> Iterator[IndexRead]:
    dims = tensor_dims(call.args[0])
    if dims is None or str(call.attrs.mode) != "fast":
        return
    axis = call.attrs.axis
    yield _inside(1, _product(dims) if axis is None else dims[int(axis)])


def _gather_elements(call: Any) -> Iterator[IndexRead]:
    if (dims := tensor_dims(call.args[0])) is not None:
        yield _inside(1, dims[int(call.attrs.axis)])


def _scatter_elements(call: Any) -> Iterator[IndexRead]:
    if (dims := tensor_dims(call.args[0])) is not None:
        size = dims[int(call.attrs.axis)]
        yield IndexRead(1, _least(call.args[1].ty, size), size - 1)


def _least(ty: Any, size: Any) -> Any:
    """Elements below 0 count from the end; an integer without a sign has none."""
    return _ZERO if str(ty.dtype).startswith("uint") else -size


def _gather_nd(call: Any) -> Iterator[IndexRead]:
    yield from _coordinates(call, int(call.attrs.batch_dims))


def _scatter_nd(call: Any) -> Iterator[IndexRead]:
    yield from _coordinates(call, 0)


def _coordinates(call: Any, first: int) -> Iterator[IndexRead]:
    dims, indices = tensor_dims(call.args[0]), tensor_dims(call.args[1])
    if dims is None or not indices or not isinstance(indices[-1], tirx.IntImm):
        return
    for k in range(int(indices[-1])):
        yield _inside(1, dims[first + k], k)


def _index_tensor(call: Any) -> Iterator[IndexRead]:
    yield from _fields(call, lambda ty, size: _ZERO)


def _index_put(call: Any) -> Iterator[IndexRead]:
    yield from _fields(call, _least)


def _fields(call: Any, low: Callable[[Any, Any], Any]) -> Iterator[IndexRead]:
    dims = tensor_dims(call.args[0])
    if dims is None or not isinstance(call.args[1], relax.Tuple):
        return
    for k, (size, index) in enumerate(zip(dims, call.args[1].fields, strict=False)):
        yield IndexRead(1, low(index.ty, size), size - 1, field=k)


def _reverse_sequence(call: Any) -> Iterator[IndexRead]:
    """The elements are lengths along an axis."""
    if (dims := tensor_dims(call.args[0])) is not None:
        yield IndexRead(1, _ZERO, dims[int(call.attrs.seq_axis)])


def _nll_loss(call: Any) -> Iterator[IndexRead]:
    """The elements are classes; those to be ignored are compared first."""
    if (dims := tensor_dims(call.args[0])) is not None:
        classes = dims[min(len(dims) - 1, 1)]
        yield IndexRead(1, _ZERO, classes - 1, also=int(call.attrs.ignore_index))


def _regions(call: Any) -> Iterator[IndexRead]:
    """The first number of a region is that of its image."""
    if (dims := tensor_dims(call.args[0])) is not None:
        yield _inside(1, dims[0], 0)


def _suppression(call: Any) -> Iterator[IndexRead]:
    """The elements are how many boxes count."""
    if (dims := tensor_dims(call.args[0])) is not None:
        yield IndexRead(1, _ZERO, dims[1])


def _take_backward(call: Any) -> Iterator[IndexRead]:
    dims, axis = tensor_dims(call.args[1]), call.attrs.axis
    if dims is not None:
        yield _inside(2, _product(dims) if axis is None else dims[int(axis)])


_ZERO = tirx.IntImm("int64", 0)
_RULES: Mapping[str, Callable[[Any], Iterator[IndexRead]]] = {
    "take": _take, "gather_elements": _gather_elements, "gather_nd": _gather_nd,
    "scatter_elements": _scatter_elements, "scatter_nd": _scatter_nd,
    "index_tensor": _index_tensor, "index_put": _index_put,
    "reverse_sequence": _reverse_sequence, "nn.nll_loss": _nll_loss,
    "vision.roi_align": _regions, "vision.roi_pool": _regions,
    "vision.non_max_suppression": _suppression, "grad.take_backward": _take_backward,
}  # fmt: skip


def _inside(operand: int, size: Any, component: int | None = None) -> IndexRead:
    return IndexRead(operand, _ZERO, size - 1, component)


def _product(dims: list[Any]) -> Any:
    return math.prod(dims, start=tirx.IntImm("int64", 1))
