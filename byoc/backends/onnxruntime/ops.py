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


def is_(name: str, *taken: Any) -> Callable[[Node], str | None]:
    """An attribute is one of these."""

    def check(node: Node) -> str | None:
        found = to_plain(node.info.attrs.get(name))
        found = list(found) if isinstance(found, (list, tuple)) else found
        told = " or ".join(map(str, taken))
        return None if found in taken else f"{name} is {found}, {told} is taken"

    return check


def fixed(node: Node) -> Unmet | None:
    extents = [e for v in node.tensors for e in v.shape]
    if static(extents):
        return None
    return Unmet("the shape is symbolic, a static one is taken", bind(extents))


def one_unknown(node: Node) -> str | None:
    """A reshape, of which at most one extent is left to be found."""
    unknown = sum(not isinstance(e, int) for e in node.result.shape)
    if 0 in node.result.shape or unknown > 1:
        return f"the shape {node.result.shape} has more than one symbolic extent, or is empty"
    return None


def trailing(node: Node) -> str | Unmet | None:
    v, axes = node.operand(0), [int(a) for a in node.info.attrs["axes"]]
    rank = 0 if v is None else v.rank
    if [a % rank for a in axes] != list(range(rank - len(axes), rank)):
        return f"axes is {axes}, the last ones are taken"
    return is_("scale", True)(node) or is_("center", True)(node)


def tensor(node: Node) -> str | None:
    """At least one operand is a tensor."""
    return None if len(node.tensors) > 1 else "all operands are literals"


def _ints(values: Any) -> list[int]:
    return [int(v) for v in values]


def plain(name: str, **fixed_: Any) -> Write:
    """One node over the operands."""
    return lambda w, c, xs: w.node(name, xs, **fixed_)


def binary(name: str) -> Write:
    """One node over two operands, of which one may be a literal."""

    def write(w: GraphWriter, c: Call, xs: list[str]) -> str:
        given = (x for x, o in zip(xs, c.operands, strict=True) if isinstance(o, Tensor))
        both = [next(given) if isinstance(a, Tensor) else w.scalar(a, c.result.dtype)
                for a in c.arguments]  # fmt: skip
        return w.node(name, both)

    return write


def conv(w: GraphWriter, c: Call, xs: list[str]) -> str:
    more = {}
    if c.op.endswith("_transpose"):
        more["output_padding"] = _ints(c.attrs["output_padding"])
    return w.node("ConvTranspose" if more else "Conv", xs, strides=_ints(c.attrs["strides"]),
                  pads=_ints(c.attrs["padding"]), dilations=_ints(c.attrs["dilation"]),
                  group=int(c.attrs["groups"]), **more)  # fmt: skip


def pool(w: GraphWriter, c: Call, xs: list[str]) -> str:
    told = {"kernel_shape": _ints(c.attrs["pool_size"]), "strides": _ints(c.attrs["strides"]),
            "pads": _ints(c.attrs["padding"]), "dilations": _ints(c.attrs["dilation"])}  # fmt: skip
    if "max" in c.op:
        return w.node("MaxPool", xs, **told)
    return w.node("AveragePool", xs, count_include_pad=int(c.attrs["count_include_pad"]), **told)


def reduce(name: str) -> Write:
    def write(w: GraphWriter, c: Call, xs: list[str]) -> str:
        axes = c.attrs["axis"]
        given = [*xs, w.ints(axes)] if axes is not None else xs
        return w.node(name, given, keepdims=int(c.attrs["keepdims"]))

    return write


def reshape(w: GraphWriter, c: Call, xs: list[str]) -> str:
    shape = [e if isinstance(e, int) else -1 for e in c.result.shape]
    return w.node("Reshape", [*xs, w.ints(shape)])


def permute(w: GraphWriter, c: Call, xs: list[str]) -> str:
    axes = c.attrs["axes"]
    return w.node("Transpose", xs, **({} if axes is None else {"perm": _ints(axes)}))


def slice_(w: GraphWriter, c: Call, xs: list[str]) -> str:
    order = ("begin", "end", "axes", "strides")
    return w.node("Slice", [*xs, *(w.ints(c.attrs[k]) for k in order)])


def pad(w: GraphWriter, c: Call, xs: list[str]) -> str:
    width = _ints(c.attrs["pad_width"])
    value = w.scalar(c.attrs["pad_value"], c.result.dtype)
    return w.node("Pad", [*xs, w.ints(width[::2] + width[1::2]), value])


def norm(w: GraphWriter, c: Call, xs: list[str]) -> str:
    return w.node("LayerNormalization", xs, axis=-len(c.attrs["axes"]),
                  epsilon=float(c.attrs["epsilon"]))  # fmt: skip


def clipped(low: float | None = None, high: float | None = None) -> Write:
    def write(w: GraphWriter, c: Call, xs: list[str]) -> str:
        least = c.attrs["min"] if low is None else low
        most = c.attrs["max"] if high is None else high
        return w.node("Clip", [*xs, *(w.scalar(v, c.result.dtype) for v in (least, most))])

    return write


def silu(w: GraphWriter, c: Call, xs: list[str]) -> str:
    return w.node("Mul", [*xs, w.node("Sigmoid", xs)])


ELEMENTS: dict[str, Write] = {
    **{f"relax.{k}": plain(v) for k, v in (
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
    **{f"relax.{k}": binary(v) for k, v in (
        ("add", "Add"), ("subtract", "Sub"), ("multiply", "Mul"), ("divide", "Div"),
        ("maximum", "Max"), ("minimum", "Min"), ("power", "Pow"))},
}  # fmt: skip
REDUCED: dict[str, Write] = {
    f"relax.{k}": reduce(f"Reduce{k.capitalize()}") for k in ("mean", "sum", "max", "min", "prod")
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

#: By operator, how it is written.
WRITE: dict[str, Write] = {
    **ELEMENTS, **REDUCED, **SHAPED, **{k: write for k, (write, _) in OTHERS.items()},
}  # fmt: skip


def _steps() -> list[PatternStep]:
    own = (one(k, float32, *cs) for k, (_, cs) in OTHERS.items())
    return [one((*ELEMENTS, *REDUCED), float32, tensor), one(SHAPED, float32, one_unknown), *own]


NETWORK = Coarse("network", *_steps())
