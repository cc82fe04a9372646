"""Reductions, softmax and normalisations."""

from __future__ import annotations

from collections.abc import Sequence

from ....backend.region import Call
from ....patterns.pattern import Node
from ....patterns.suggest import Unmet
from ..graph.element_types import ELEMENT_TYPES, FLOAT, NUMBERS, SMALL
from ..graph.graph_writer import GraphWriter
from ..graph.onnx_conditions import OnnxOperator, Write, along, first_tensor, ints, is_, typed

_FLOATS = typed(FLOAT)
_SUMMED = typed((*FLOAT, "int32", "int64"))
_ORDERED = typed((*FLOAT, "int32", "int64", *SMALL))


def _axes(call: Call) -> list[int]:
    """The reduced axes, from 0."""
    rank, axes = len(first_tensor(call).shape), call.attrs["axis"]
    return list(range(rank)) if axes is None else sorted(a % rank for a in ints(axes))


def reduced(name: str) -> Write:
    def write(writer: GraphWriter, call: Call, xs: list[str]) -> str:
        axes, keep = _axes(call), int(call.attrs["keepdims"])
        return writer.node(name, [*xs, writer.ints(axes)], keepdims=keep)

    return write


def spatial(name: str, pool: str) -> Write:
    """A reduction; over all axes but the first two, the pooling that runtimes keep in their own
    layouts."""

    def write(writer: GraphWriter, call: Call, xs: list[str]) -> str | Sequence[str]:
        axes, rank = _axes(call), len(first_tensor(call).shape)
        image = rank in (4, 5) and axes == list(range(2, rank))
        if not image or call.result.dtype not in FLOAT:
            return reduced(name)(writer, call, xs)
        pooled = writer.node(pool, xs)
        return pooled if call.attrs["keepdims"] else writer.reshape(pooled, [0, 0])

    return write


def variance(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    """The mean of squared differences from the mean."""
    axes = writer.ints(_axes(call))
    mean = writer.node("ReduceMean", [*xs, axes], keepdims=1)
    two = writer.scalar(2, call.result.dtype)
    squares = writer.node("Pow", [writer.node("Sub", [*xs, mean]), two])
    return writer.node("ReduceMean", [squares, axes], keepdims=int(call.attrs["keepdims"]))


def position(name: str) -> Write:
    """The first place of the largest or smallest element."""

    def write(writer: GraphWriter, call: Call, xs: list[str]) -> str:
        keep = int(call.attrs["keepdims"])
        if call.attrs["axis"] is not None:
            return writer.node(name, xs, axis=int(call.attrs["axis"]), keepdims=keep)
        flat = writer.node(name, [writer.reshape(xs[0], [-1])], axis=0, keepdims=0)
        return writer.reshape(flat, [1] * len(call.result.shape))

    return write


def running(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    """Sums of the elements so far, in the dtype of the result."""
    data, axis = first_tensor(call), call.attrs["axis"]
    name = xs[0] if axis is not None else writer.reshape(xs[0], [-1])
    if data.dtype != call.result.dtype:
        name = writer.node("Cast", [name], to=ELEMENT_TYPES[call.result.dtype])
    place = writer.scalar(0 if axis is None else int(axis), "int64")
    return writer.node("CumSum", [name, place], exclusive=int(bool(call.attrs["exclusive"] or 0)))


def layer_norm(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    axis, epsilon = -len(call.attrs["axes"]), float(call.attrs["epsilon"])
    return writer.node("LayerNormalization", xs, axis=axis, epsilon=epsilon)


def rms_norm(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    dtype = call.result.dtype
    squares = writer.node("Pow", [xs[0], writer.scalar(2, dtype)])
    mean = writer.node("ReduceMean", [squares, writer.ints(call.attrs["axes"])], keepdims=1)
    epsilon = writer.scalar(float(call.attrs["epsilon"]), dtype)
    root = writer.node("Sqrt", [writer.node("Add", [mean, epsilon])])
    return writer.node("Mul", [writer.node("Div", [xs[0], root]), xs[1]])


def group_norm(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    """Groups as channels of an instance normalisation, then a factor and a term by channel."""
    rank, groups = len(call.result.shape), int(call.attrs["num_groups"])
    dtype, epsilon = call.result.dtype, float(call.attrs["epsilon"])
    shape = writer.node("Shape", [xs[0]])
    parts = writer.reshape(xs[0], [0, groups, -1])
    units = (writer.constant([value] * groups) for value in (1.0, 0.0))
    one, zero = (writer.scalar(writer.arrays[u], dtype) for u in units)
    normal = writer.node("InstanceNormalization", [parts, one, zero], epsilon=epsilon)
    scale, shift = (writer.reshape(x, [-1] + [1] * (rank - 2)) for x in xs[1:])
    full = writer.node("Reshape", [normal, shape])
    return writer.node("Add", [writer.node("Mul", [full, scale]), shift])


def instance_norm(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    return writer.node("InstanceNormalization", xs, epsilon=float(call.attrs["epsilon"]))


def trailing(node: Node) -> str | Unmet | None:
    """The last axes are normalised, with a factor and a term."""
    value, axes = node.operand(0), ints(node.info.attrs["axes"])
    rank = 0 if value is None else value.rank
    if [a % rank for a in axes] != list(range(rank - len(axes), rank)):
        return f"axes is {axes}, expected the last axes"
    return _affine(node)


def channels_second(node: Node) -> str | Unmet | None:
    """The channels are axis 1, and all axes after it are normalised."""
    value, axes = node.operand(0), ints(node.info.attrs["axes"])
    rank = 0 if value is None else value.rank
    channel = int(node.info.attrs["channel_axis"]) % rank
    if channel != 1 or sorted(a % rank for a in axes) != list(range(2, rank)):
        return f"channel_axis is {channel} and axes is {axes}, expected 1 and all axes after it"
    return _affine(node)


def _affine(node: Node) -> str | Unmet | None:
    for name in ("scale", "center"):
        if name in node.info.attrs and (reason := is_(name, True)(node)) is not None:
            return reason  # type: ignore[return-value]
    return None


REDUCTIONS: dict[str, OnnxOperator] = {
    "relax.mean": OnnxOperator(spatial("ReduceMean", "GlobalAveragePool"), (_FLOATS,)),
    "relax.max": OnnxOperator(spatial("ReduceMax", "GlobalMaxPool"), (_ORDERED,)),
    "relax.min": OnnxOperator(reduced("ReduceMin"), (_ORDERED,)),
    "relax.sum": OnnxOperator(reduced("ReduceSum"), (_SUMMED,)),
    "relax.prod": OnnxOperator(reduced("ReduceProd"), (_SUMMED,)),
    "relax.variance": OnnxOperator(variance, (_FLOATS,)),
    "relax.std": OnnxOperator(
        lambda w, c, xs: w.node("Sqrt", [variance(w, c, xs)]), (_FLOATS,)),
    "relax.argmax": OnnxOperator(position("ArgMax"), (typed(("int64",), FLOAT),)),
    "relax.argmin": OnnxOperator(position("ArgMin"), (typed(("int64",), FLOAT),)),
    "relax.cumsum": OnnxOperator(
        running, (typed(("float32", "int32", "int64"), (*NUMBERS, "bool")),)),
    "relax.nn.softmax": OnnxOperator(along("Softmax"), (_FLOATS,)),
    "relax.nn.log_softmax": OnnxOperator(along("LogSoftmax"), (_FLOATS,)),
    "relax.nn.layer_norm": OnnxOperator(layer_norm, (_FLOATS, trailing)),
    "relax.nn.rms_norm": OnnxOperator(rms_norm, (_FLOATS, trailing)),
    "relax.nn.group_norm": OnnxOperator(group_norm, (_FLOATS, channels_second)),
    "relax.nn.instance_norm": OnnxOperator(instance_norm, (_FLOATS, channels_second)),
}  # fmt: skip
