"""Operators that move elements: reshapes, transposes, slices, joins, padding."""

from __future__ import annotations

import numpy as np

from .....analysis.results.plain_values import to_plain
from ....backend.region import Call, Tensor
from ....patterns.extents.symbolic_shapes import same
from ....patterns.pattern import Node
from ....patterns.suggest import Unmet
from ..graph.element_types import ALL, FLOAT, NUMBERS
from ..graph.graph_writer import GraphWriter
from ..graph.onnx_conditions import (
    OnnxOperator,
    Write,
    expressible,
    fixed,
    integers,
    ints,
    is_,
    some_tensor,
    typed,
)

_MOVED = (typed(ALL),)
#: The end of a slice that goes down to the first element.
_DOWN_TO_FIRST = np.iinfo("int64").min


def source(call: Call, k: int = 0) -> Tensor:
    """A tensor operand."""
    tensor = [o for o in call.operands if isinstance(o, Tensor)][k]
    return tensor


def reshape(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    """A reshape: 0 copies the extent of the same axis, -1 is inferred."""
    before = source(call).shape
    shape = call.result.shape
    copied = [0 if k < len(before) and same(e, before[k]) else e for k, e in enumerate(shape)]
    symbolic = [k for k, e in enumerate(copied) if not isinstance(e, int)]
    if len(symbolic) > 1:
        return writer.node("Reshape", [*xs, writer.vector(shape)])
    if symbolic:
        copied[symbolic[0]] = -1
    return writer.node("Reshape", [*xs, writer.ints(copied)])


def reshapeable(node: Node) -> Unmet | None:
    """At most one extent that is not copied is symbolic, or all are extents of the operand."""
    value = node.operand(0)
    before = () if value is None else value.shape
    symbolic = [e for k, e in enumerate(node.result.shape) if not isinstance(e, int)
                and not (k < len(before) and same(e, before[k]))]  # fmt: skip
    return expressible(node) if len(symbolic) > 1 else None


def permute(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    rank = len(call.result.shape)
    axes = call.attrs["axes"]
    order = range(rank)[::-1] if axes is None else [a % rank for a in ints(axes)]
    return writer.node("Transpose", xs, perm=list(order))


def concat(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    axis = call.attrs["axis"]
    return writer.node("Concat", xs, axis=0 if axis is None else int(axis))


def stack(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    axis = int(call.attrs["axis"]) % len(call.result.shape)
    at = writer.ints([axis])
    return writer.node("Concat", [writer.node("Unsqueeze", [x, at]) for x in xs], axis=axis)


def slice_(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    """A slice with numbers, or one of step 1 whose extents are those of the result."""
    begin, axes, strides = (ints(call.attrs[k]) for k in ("begin", "axes", "strides"))
    end = to_plain(call.attrs["end"])
    if not all(isinstance(e, int) for e in end):
        extents = [call.result.shape[a] for a in axes]
        starts, sizes = writer.ints(begin), writer.vector(extents)
        return writer.node("Slice", [*xs, starts, writer.node("Add", [starts, sizes]),
                                     writer.ints(axes)])  # fmt: skip
    return writer.node("Slice", [*xs, *map(writer.ints, (begin, end, axes, strides))])


def sliceable(node: Node) -> Unmet | str | None:
    """The bounds are numbers, or the slice begins at numbers of at least 0 with step 1."""
    attrs = {k: to_plain(node.info.attrs[k]) for k in ("begin", "end", "axes", "strides")}
    numbers = {k: all(isinstance(e, int) for e in v) for k, v in attrs.items()}
    if all(numbers.values()):
        return None
    if not (numbers["begin"] and numbers["axes"] and all(s == 1 for s in attrs["strides"])):
        return f"begin is {attrs['begin']} and strides {attrs['strides']}, expected numbers"
    if any(b < 0 for b in attrs["begin"]):
        return f"begin is {attrs['begin']}, expected at least 0 where end is symbolic"
    return expressible(node)


def flip(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    bounds = ([-1], [_DOWN_TO_FIRST], [call.attrs["axis"]], [-1])
    return writer.node("Slice", [*xs, *map(writer.ints, bounds)])


def repeat(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    shape, count = source(call).shape, int(call.attrs["repeats"])
    axis = call.attrs["axis"]
    data = xs[0] if axis is not None else writer.reshape(xs[0], [-1])
    axis = 0 if axis is None else int(axis) % len(shape)
    extent = call.result.shape[axis] // count
    places = writer.constant(np.repeat(np.arange(extent), count))
    return writer.node("Gather", [data, places], axis=axis)


#: ONNX's name of a mode of padding.
PAD_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}


def pad(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    width = ints(call.attrs["pad_width"])
    mode = PAD_MODES[str(call.attrs["pad_mode"])]
    value = [writer.scalar(float(call.attrs["pad_value"]), call.result.dtype)]
    pads = writer.ints(width[::2] + width[1::2])
    return writer.node("Pad", [xs[0], pads, *value * (mode == "constant")], mode=mode)


def constant_value(node: Node) -> str | None:
    """The value of padding is a literal."""
    return None if len(node.tensors) == 2 else "the padding value is a tensor"


def expand(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    return writer.node("Expand", [*xs, writer.vector(call.result.shape)])


def tile(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    rank, repeats = len(source(call).shape), ints(call.attrs["repeats"])
    data = xs[0]
    if len(repeats) > rank:
        ones = writer.ints(range(len(repeats) - rank))
        data = writer.node("Unsqueeze", [data, ones])
    full = [1] * (rank - len(repeats)) + repeats
    return writer.node("Tile", [data, writer.ints(full)])


def triangle(upper: int) -> Write:
    return lambda w, c, xs: w.node("Trilu", [xs[0], w.scalar(int(c.attrs["k"]), "int64")],
                                   upper=upper)  # fmt: skip


SHAPES: dict[str, OnnxOperator] = {
    **dict.fromkeys(("relax.reshape", "relax.expand_dims", "relax.squeeze", "relax.flatten"),
                    OnnxOperator(reshape, (*_MOVED, some_tensor, reshapeable))),
    "relax.permute_dims": OnnxOperator(permute, _MOVED),
    "relax.concat": OnnxOperator(concat, _MOVED),
    "relax.stack": OnnxOperator(stack, _MOVED),
    "relax.strided_slice": OnnxOperator(slice_, (*_MOVED, sliceable)),
    "relax.flip": OnnxOperator(flip, _MOVED),
    "relax.repeat": OnnxOperator(repeat, (*_MOVED, fixed)),
    "relax.tile": OnnxOperator(tile, (*_MOVED, some_tensor, integers("repeats"))),
    "relax.nn.pad": OnnxOperator(pad, (typed(NUMBERS), is_("pad_mode", *PAD_MODES),
                                       integers("pad_width"), constant_value)),
    "relax.broadcast_to": OnnxOperator(expand, (*_MOVED, some_tensor, expressible)),
    "relax.tril": OnnxOperator(triangle(0), (typed((*FLOAT, "int64")), integers("k"))),
    "relax.triu": OnnxOperator(triangle(1), (typed((*FLOAT, "int64")), integers("k"))),
}  # fmt: skip
