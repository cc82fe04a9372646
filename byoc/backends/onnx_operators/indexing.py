"""Operators that select elements by tensors of indices."""

from __future__ import annotations

import numpy as np

from ...backend.region import Call, Tensor
from ...patterns.pattern import Node
from .element_types import ALL, NUMBERS
from .graph_writer import GraphWriter
from .onnx_conditions import OnnxOperator, Write, arguments, fixed, integers, is_, typed

INDICES = ("int32", "int64")
_SELECTED = typed(ALL, ALL, INDICES)


def take(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    """A gather; indices outside of the axis are undefined, clipped or wrapped, as Relax says."""
    data = next(o for o in call.operands if isinstance(o, Tensor))
    indices = next((o for o in call.operands[1:] if isinstance(o, Tensor)), None)
    both = arguments(writer, call, xs, "int64")
    axis = 0 if call.attrs["axis"] is None else int(call.attrs["axis"]) % len(data.shape)
    name, extent = both[1], data.shape[axis]
    name = _unwrapped(writer, name, extent)
    dtype = "int64" if indices is None else indices.dtype
    mode = str(call.attrs["mode"])
    if mode != "fast" and not _in_range(writer, name, extent):
        if mode == "wrap":
            name = writer.node("Mod", [name, writer.scalar(extent, dtype)])
        else:
            bounds = (writer.scalar(v, dtype) for v in (0, extent - 1))
            name = writer.node("Clip", [name, *bounds])
    return writer.node("Gather", [both[0], name], axis=axis)


def _unwrapped(writer: GraphWriter, name: str, extent: object) -> str:
    """The indices to which an extent is added where they are negative, as a gather does it."""
    chosen = writer.before(name, "Where")
    if chosen is None:
        return name
    condition, added, indices = chosen.inputs
    less, add = writer.before(condition, "Less"), writer.before(added, "Add")
    if less is None or add is None or indices not in add.inputs or less.inputs[0] != indices:
        return name
    (other,) = [i for i in add.inputs if i != indices] or [indices]
    same = writer.number(less.inputs[1]) == 0 and writer.number(other) == extent
    return indices if same else name


def _in_range(writer: GraphWriter, name: str, extent: object) -> bool:
    """Whether indices are constants from 0 to the extent."""
    array = writer.arrays.get(name)
    if array is None or not isinstance(extent, int):
        return False
    return bool(np.all((array >= 0) & (array < extent)))


def takeable(node: Node) -> str | None:
    """Wrapped and clipped indices need the number of elements; a flat take has rank 1."""
    data = node.operand(0)
    if data is None:
        return "the data is a literal"
    axis = node.info.attrs["axis"]
    if axis is None and data.rank != 1:
        return "axis is None, expected an axis"
    extent = data.shape[0 if axis is None else int(axis) % data.rank]
    if str(node.info.attrs["mode"]) != "fast" and not isinstance(extent, int):
        return f"the indices are of mode {node.info.attrs['mode']} along a symbolic extent"
    return None


def along(name: str) -> Write:
    return lambda w, c, xs: w.node(name, xs, axis=int(c.attrs["axis"]))


def gather_nd(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    indices = xs[1]
    tensor = [o for o in call.operands if isinstance(o, Tensor)][1]
    if tensor.dtype != "int64":
        indices = writer.node("Cast", [indices], to=7)
    return writer.node("GatherND", [xs[0], indices], batch_dims=int(call.attrs["batch_dims"]))


def one_hot(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    dtype = call.result.dtype
    values = writer.constant(np.asarray(
        [float(call.attrs["off_value"]), float(call.attrs["on_value"])]).astype(dtype))  # fmt: skip
    depth = writer.ints([call.attrs["depth"]])
    return writer.node("OneHot", [xs[0], depth, values], axis=int(call.attrs["axis"]))


def literal_values(node: Node) -> str | None:
    """The values of a one-hot tensor are literals."""
    tensors = sum(node.operand(k) is not None for k in range(len(node.info.operands)))
    return None if tensors == 1 else "on_value or off_value is a tensor"


INDEXING: dict[str, OnnxOperator] = {
    "relax.take": OnnxOperator(take, (_SELECTED, takeable, is_("mode", "fast", "wrap", "clip"))),
    "relax.gather_elements": OnnxOperator(along("GatherElements"), (_SELECTED,)),
    "relax.gather_nd": OnnxOperator(gather_nd, (_SELECTED, integers("batch_dims"))),
    "relax.one_hot": OnnxOperator(one_hot, (typed(NUMBERS, INDICES), integers("depth"),
                                            literal_values, fixed)),
}  # fmt: skip
