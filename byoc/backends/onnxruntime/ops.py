"""Relax operators as ONNX nodes: conditions, and writers for each operator.

A writer gets the call and the names of its operands; it returns the name of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....analysis.results.op_info import to_plain
from ...backend.region import Call, Tensor
from ...patterns.conditions import float32
from ...patterns.pattern import Condition, Node, PatternStep, one
from ...patterns.subgraphs import Coarse
from ...patterns.suggest import Unmet, bind
from ...patterns.symbolic_shapes import static
from .graph_writer import GraphWriter

Write = Callable[[GraphWriter, Call, list[str]], str]


def is_(name: str, *values: Any) -> Callable[[Node], str | None]:
    """Return a condition: an attribute has one of these values."""

    def check(node: Node) -> str | None:
        value = to_plain(node.info.attrs.get(name))
        value = list(value) if isinstance(value, (list, tuple)) else value
        expected = " or ".join(map(str, values))
        return None if value in values else f"{name} is {value}, expected {expected}"

    return check


def fixed(node: Node) -> Unmet | None:
    extents = [e for v in node.tensors for e in v.shape]
    if static(extents):
        return None
    return Unmet("the shape is symbolic, expected a static shape", bind(extents))


def one_unknown(node: Node) -> str | None:
    """At most one extent of the result is symbolic: ONNX infers it."""
    unknown = sum(not isinstance(e, int) for e in node.result.shape)
    if 0 in node.result.shape or unknown > 1:
        return f"the shape {node.result.shape} has more than one symbolic extent, or is empty"
    return None


def trailing(node: Node) -> str | Unmet | None:
    value, axes = node.operand(0), [int(a) for a in node.info.attrs["axes"]]
    rank = 0 if value is None else value.rank
    if [a % rank for a in axes] != list(range(rank - len(axes), rank)):
        return f"axes is {axes}, expected the last axes"
    return is_("scale", True)(node) or is_("center", True)(node)


def tensor(node: Node) -> str | None:
    """At least one operand is a tensor."""
    return None if len(node.tensors) > 1 else "all operands are literals"


def _ints(values: Any) -> list[int]:
    return [int(v) for v in values]


def plain(name: str, **fixed_: Any) -> Write:
    """Return a writer of one node over the operands."""
    return lambda w, c, xs: w.node(name, xs, **fixed_)


def binary(name: str) -> Write:
    """Return a writer of one node over two operands, one of which may be a literal."""

    def write(writer: GraphWriter, call: Call, xs: list[str]) -> str:
        tensors = (x for x, o in zip(xs, call.operands, strict=True) if isinstance(o, Tensor))
        both = [next(tensors) if isinstance(a, Tensor) else writer.scalar(a, call.result.dtype)
                for a in call.arguments]  # fmt: skip
        return writer.node(name, both)

    return write


def conv(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    more = {}
    if call.op.endswith("_transpose"):
        more["output_padding"] = _ints(call.attrs["output_padding"])
    return writer.node(
        "ConvTranspose" if more else "Conv",
        xs,
        strides=_ints(call.attrs["strides"]),
        pads=_ints(call.attrs["padding"]),
        dilations=_ints(call.attrs["dilation"]),
        group=int(call.attrs["groups"]),
        **more,
    )


def pool(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    window = {
        "kernel_shape": _ints(call.attrs["pool_size"]),
        "strides": _ints(call.attrs["strides"]),
        "pads": _ints(call.attrs["padding"]),
        "dilations": _ints(call.attrs["dilation"]),
    }
    if "max" in call.op:
        return writer.node("MaxPool", xs, **window)
    return writer.node(
        "AveragePool", xs, count_include_pad=int(call.attrs["count_include_pad"]), **window
    )


def reduce(name: str) -> Write:
    def write(writer: GraphWriter, call: Call, xs: list[str]) -> str:
        axes = call.attrs["axis"]
        inputs = [*xs, writer.ints(axes)] if axes is not None else xs
        return writer.node(name, inputs, keepdims=int(call.attrs["keepdims"]))

    return write


def reshape(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    shape = [e if isinstance(e, int) else -1 for e in call.result.shape]
    return writer.node("Reshape", [*xs, writer.ints(shape)])


def permute(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    axes = call.attrs["axes"]
    return writer.node("Transpose", xs, **({} if axes is None else {"perm": _ints(axes)}))


def slice_(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    order = ("begin", "end", "axes", "strides")
    return writer.node("Slice", [*xs, *(writer.ints(call.attrs[k]) for k in order)])


def pad(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    width = _ints(call.attrs["pad_width"])
    value = writer.scalar(call.attrs["pad_value"], call.result.dtype)
    return writer.node("Pad", [*xs, writer.ints(width[::2] + width[1::2]), value])


def norm(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    return writer.node(
        "LayerNormalization",
        xs,
        axis=-len(call.attrs["axes"]),
        epsilon=float(call.attrs["epsilon"]),
    )


def clipped(low: float | None = None, high: float | None = None) -> Write:
    def write(writer: GraphWriter, call: Call, xs: list[str]) -> str:
        least = call.attrs["min"] if low is None else low
        most = call.attrs["max"] if high is None else high
        return writer.node(
            "Clip", [*xs, *(writer.scalar(v, call.result.dtype) for v in (least, most))]
        )

    return write


def silu(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    return writer.node("Mul", [*xs, writer.node("Sigmoid", xs)])


ELEMENTS: dict[str, Write] = {
    **{f"relax.{name}": plain(onnx_name) for name, onnx_name in (
        ("sigmoid", "Sigmoid"), ("tanh", "Tanh"), ("exp", "Exp"), ("log", "Log"), ("sqrt", "Sqrt"),
        ("abs", "Abs"), ("negative", "Neg"), ("erf", "Erf"), ("floor", "Floor"), ("ceil", "Ceil"),
        ("sin", "Sin"), ("cos", "Cos"), ("nn.relu", "Relu"), ("nn.gelu", "Gelu"))},
    "relax.nn.gelu_tanh": plain("Gelu", approximate="tanh"),
    "relax.nn.silu": silu,
    "relax.nn.relu6": clipped(0.0, 6.0),
    "relax.clip": clipped(),
    "relax.square": lambda w, c, xs: w.node("Mul", [*xs, *xs]),
    "relax.rsqrt": lambda w, c, xs: w.node("Reciprocal", [w.node("Sqrt", xs)]),
    "relax.nn.leakyrelu": lambda w, c, xs: w.node("LeakyRelu", xs, alpha=float(c.attrs["alpha"])),
    **{f"relax.{name}": binary(onnx_name) for name, onnx_name in (
        ("add", "Add"), ("subtract", "Sub"), ("multiply", "Mul"), ("divide", "Div"),
        ("maximum", "Max"), ("minimum", "Min"), ("power", "Pow"))},
}  # fmt: skip
REDUCED: dict[str, Write] = {
    f"relax.{name}": reduce(f"Reduce{name.capitalize()}")
    for name in ("mean", "sum", "max", "min", "prod")
}
SHAPED: dict[str, Write] = dict.fromkeys(
    ("relax.reshape", "relax.expand_dims", "relax.squeeze", "relax.flatten"), reshape)  # fmt: skip
SPATIAL = (("1d", "NCW", "OIW", "IOW"), ("2d", "NCHW", "OIHW", "IOHW"),
           ("3d", "NCDHW", "OIDHW", "IODHW"))  # fmt: skip
OTHERS: dict[str, tuple[Write, tuple[Condition, ...]]] = {
    "relax.matmul": (plain("MatMul"), ()),
    "relax.permute_dims": (permute, ()),
    "relax.concat": (lambda w, c, xs: w.node("Concat", xs, axis=int(c.attrs["axis"])), ()),
    "relax.strided_slice": (slice_, (fixed,)),
    "relax.nn.pad": (pad, (is_("pad_mode", "constant"),)),
    "relax.broadcast_to": (
        lambda w, c, xs: w.node("Expand", [*xs, w.ints(c.result.shape)]), (fixed, tensor)),
    "relax.nn.softmax": (lambda w, c, xs: w.node("Softmax", xs, axis=int(c.attrs["axis"])), ()),
    "relax.nn.log_softmax": (
        lambda w, c, xs: w.node("LogSoftmax", xs, axis=int(c.attrs["axis"])), ()),
    "relax.nn.layer_norm": (norm, (trailing,)),
}  # fmt: skip
for _n, _data, _kernel, _back in SPATIAL:
    _layouts = (is_("data_layout", _data), is_("out_layout", _data, ""))
    OTHERS[f"relax.nn.conv{_n}"] = conv, (*_layouts, is_("kernel_layout", _kernel))
    OTHERS[f"relax.nn.conv{_n}_transpose"] = conv, (*_layouts, is_("kernel_layout", _back))
    _layout = (is_("layout", _data), is_("out_layout", _data, ""))
    for _kind in ("max", "avg"):
        OTHERS[f"relax.nn.{_kind}_pool{_n}"] = pool, (*_layout, is_("ceil_mode", False, 0))
    _single = is_("output_size", [1] * len(_data[2:]))
    OTHERS[f"relax.nn.adaptive_avg_pool{_n}"] = plain("GlobalAveragePool"), (*_layout, _single)

#: The writer of each operator.
WRITE: dict[str, Write] = {
    **ELEMENTS, **REDUCED, **SHAPED, **{name: write for name, (write, _) in OTHERS.items()},
}  # fmt: skip


def _steps() -> list[PatternStep]:
    special = (one(k, float32, *cs) for k, (_, cs) in OTHERS.items())
    return [
        one((*ELEMENTS, *REDUCED), float32, tensor),
        one(SHAPED, float32, one_unknown),
        *special,
    ]


NETWORK = Coarse("network", *_steps())
