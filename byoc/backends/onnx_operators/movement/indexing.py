"""Operators that select elements by tensors of indices."""

from __future__ import annotations

import numpy as np

from .....analysis.support.tvm_compat import array_of
from ....backend.region import Call, Tensor
from ....patterns.pattern import Node
from ..graph.element_types import ALL, ELEMENT_TYPES, NUMBERS
from ..graph.graph_writer import GraphWriter
from ..graph.onnx_conditions import (
    OnnxOperator,
    Write,
    along,
    arguments,
    first_tensor,
    fixed,
    integers,
    is_,
    plain,
    typed,
)

INDICES = ("int32", "int64")
_SELECTED = typed(ALL, ALL, INDICES)


def take(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    """A gather; indices outside of the axis are undefined, clipped or wrapped, as Relax says."""
    data = first_tensor(call)
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
    return None if len(node.operands) == 1 else "on_value or off_value is a tensor"


def largest(writer: GraphWriter, call: Call, xs: list[str]) -> list[str]:
    """The first elements of an order; of equal ones, the earlier one is first, as TVM sorts."""
    count = writer.vector([call.attrs["k"]])
    kind = str(call.attrs["ret_type"])
    dtype = "" if kind == "values" else call.results[-1].dtype
    values, places = _ordered(writer, call, [*xs, count], bool(call.attrs["largest"]), dtype)
    return [values, places] if kind == "both" else [values if kind == "values" else places]


def ordered(result: int) -> Write:
    """A sort; the values, or their places before."""

    def write(writer: GraphWriter, call: Call, xs: list[str]) -> str:
        data = first_tensor(call)
        count = writer.vector([data.shape[int(call.attrs["axis"])]])
        dtype = call.result.dtype if result else ""
        falling = bool(call.attrs["descending"])
        return _ordered(writer, call, [*xs, count], falling, dtype)[result]

    return write


def _ordered(
    writer: GraphWriter, call: Call, inputs: list[str], falling: bool, dtype: str
) -> tuple[str, str]:
    """The values and their places, the latter with a dtype if they are needed."""
    axis = int(call.attrs["axis"])
    values, places = writer.nodes_of("TopK", inputs, 2, axis=axis, largest=int(falling), sorted=1)
    if dtype not in ("", "int64"):
        places = writer.node("Cast", [places], to=ELEMENT_TYPES[dtype])
    return values, places


def some(node: Node) -> str | None:
    """The number of elements is positive, as TVM takes all for 0."""
    count = plain(node, "k")
    return None if isinstance(count, int) and count > 0 else f"k is {count}, expected at least 1"


def reversed_parts(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    lengths = writer.constant(writer.arrays[xs[1]].astype("int64"))
    axes = {"batch_axis": int(call.attrs["batch_axis"]), "time_axis": int(call.attrs["seq_axis"])}
    return writer.node("ReverseSequence", [xs[0], lengths], **axes)


def reversible(node: Node) -> str | None:
    """The lengths are constants from 1 to the extent, along the first two axes."""
    data, lengths = node.operand(0), node.operand(1)
    axes = [int(plain(node, name)) for name in ("batch_axis", "seq_axis")]
    if sorted(axes) != [0, 1]:
        return f"batch_axis is {axes[0]} and seq_axis {axes[1]}, expected 0 and 1"
    if data is None or lengths is None or not lengths.constant:
        return "the lengths are not constant"
    values, extent = array_of(lengths.expr).numpy(), data.shape[axes[1]]
    inside = isinstance(extent, int) and bool(((values >= 1) & (values <= extent)).all())
    return None if inside else f"a length is not from 1 to {extent}"


_SORTED = typed(NUMBERS, NUMBERS)
INDEXING: dict[str, OnnxOperator] = {
    "relax.take": OnnxOperator(take, (_SELECTED, takeable, is_("mode", "fast", "wrap", "clip"))),
    "relax.gather_elements": OnnxOperator(along("GatherElements"), (_SELECTED,)),
    "relax.gather_nd": OnnxOperator(gather_nd, (_SELECTED, integers("batch_dims"))),
    "relax.one_hot": OnnxOperator(one_hot, (typed(NUMBERS, INDICES), integers("depth"),
                                            literal_values, fixed)),
    "relax.topk": OnnxOperator(largest, (_SORTED, some), several=True),
    "relax.sort": OnnxOperator(ordered(0), (_SORTED,)),
    "relax.argsort": OnnxOperator(ordered(1), (typed(INDICES, NUMBERS),)),
    "relax.reverse_sequence": OnnxOperator(
        reversed_parts, (typed(ALL, ALL, INDICES), reversible)),
}  # fmt: skip
