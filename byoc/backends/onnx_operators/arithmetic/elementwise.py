"""Elementwise operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....backend.region import Call, Tensor
from ....patterns.pattern import Node
from ....patterns.unary_functions import HARD_SWISH, is_softplus
from ..graph.element_types import ALL, ELEMENT_TYPES, FLOAT, NUMBERS
from ..graph.graph_writer import GraphWriter
from ..graph.onnx_conditions import OnnxOperator, Write, arguments, some_tensor, typed
from .fold_affine import affine_folded

BOOL = ("bool",)
SIGNED = (*NUMBERS, "int8")


def single(name: str, **attrs: Any) -> Write:
    """Return a writer of one node over all arguments."""
    return lambda w, c, xs: w.node(name, arguments(w, c, xs), **attrs)


def mixed(node: Node) -> str | None:
    """All tensor operands have one dtype, as ONNX requires."""
    dtypes = {v.dtype for v in node.tensors if v is not node.result}
    return None if len(dtypes) <= 1 else f"the operands are {' and '.join(sorted(dtypes))}"


def add(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    both = arguments(writer, call, xs)
    return affine_folded(writer, call, both) or writer.node("Add", both)


def square(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    """A power, of which both runtimes know the normalisations."""
    return writer.node("Pow", [*xs, writer.scalar(2, call.result.dtype)])


def clip(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    return clipped(writer, call, xs[0], float(call.attrs["min"]), float(call.attrs["max"]))


def clipped(writer: GraphWriter, call: Call, x: str, low: float, high: float) -> str:
    """A clip; one of a linear function to 0 … 1 as the hard sigmoid, which convolutions fuse."""
    linear = _linear(writer, x) if (low, high) == (0.0, 1.0) else None
    if linear is not None:
        source, alpha, beta = linear
        return writer.node("HardSigmoid", [source], alpha=alpha, beta=beta)
    bounds = (writer.scalar(v, call.result.dtype) for v in (low, high))
    return writer.node("Clip", [x, *bounds])


def _linear(writer: GraphWriter, name: str) -> tuple[str, float, float] | None:
    """The tensor, factor and term of a linear function of one tensor."""
    added = writer.before(name, "Add")
    parts = None if added is None else _with_number(writer, added.inputs)
    if parts is None:
        return None
    inner, beta = parts
    scaled = writer.before(inner, "Mul")
    parts = None if scaled is None else _with_number(writer, scaled.inputs)
    return (inner, 1.0, beta) if parts is None else (parts[0], parts[1], beta)


def _with_number(writer: GraphWriter, names: tuple[str, ...]) -> tuple[str, float] | None:
    for name, other in (names, names[::-1]):
        if (value := writer.number(other)) is not None and writer.arrays[other].ndim == 0:
            return name, float(value)
    return None


def bounded(name: str) -> Write:
    """A maximum or minimum; with a number, after one of the other kind, a clip."""

    def write(writer: GraphWriter, call: Call, xs: list[str]) -> str:
        both = arguments(writer, call, xs)
        parts = _with_number(writer, tuple(both))
        before = None if parts is None else _bound(writer, parts[0])
        if parts is None or before is None or call.result.dtype != "float32":
            return writer.node(name, both)
        source, other, value = before
        low, high = (parts[1], value) if name == "Max" else (value, parts[1])
        if other == name or low > high:
            return writer.node(name, both)
        return clipped(writer, call, source, low, high)

    return write


def _bound(writer: GraphWriter, name: str) -> tuple[str, str, float] | None:
    """The tensor, the kind and the number of a maximum or minimum."""
    node = writer.before(name, "Relu", "Max", "Min")
    if node is None or node.op == "Relu":
        return None if node is None else (node.inputs[0], "Max", 0.0)
    parts = _with_number(writer, node.inputs)
    return None if parts is None else (parts[0], node.op, parts[1])


def multiply(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    both = arguments(writer, call, xs)
    for name, other in (both, both[::-1]):
        gate = writer.before(other, "HardSigmoid")
        if gate is not None and gate.inputs == (name,) and writer.readers[other] == 1:
            return _hard_swish(writer, name, gate.attrs["alpha"], gate.attrs["beta"])
    return writer.node("Mul", both)


def hard_swish(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    return _hard_swish(writer, xs[0], float(call.attrs["alpha"]), float(call.attrs["beta"]))


def _hard_swish(writer: GraphWriter, x: str, alpha: float, beta: float) -> str:
    """A tensor times a hard sigmoid of it; ONNX has an operator for one slope, which is fused."""
    if (np.float32(alpha), np.float32(beta)) == (np.float32(1 / 6), np.float32(0.5)):
        return writer.node("HardSwish", [x])
    return writer.node("Mul", [x, writer.node("HardSigmoid", [x], alpha=alpha, beta=beta)])


def silu(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    return writer.node("Mul", [*xs, writer.node("Sigmoid", xs)])


def swapped(name: str) -> Write:
    """Return a writer of one node over two arguments in the other order.

    In OpenVINO 2026.4, NaN is greater than any number, but not less.
    """
    return lambda w, c, xs: w.node(name, arguments(w, c, xs)[::-1])


def cast(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    """A cast; of floats to bool, a comparison, as OpenVINO casts NaN to false."""
    (source,) = (o.dtype for o in call.operands if isinstance(o, Tensor))
    if call.result.dtype == "bool" and source in FLOAT:
        return writer.node("Not", [writer.node("Equal", [*xs, writer.scalar(0, source)])])
    return writer.node("Cast", xs, to=ELEMENT_TYPES[call.result.dtype])


def negated(name: str) -> Write:
    return lambda w, c, xs: w.node("Not", [w.node(name, arguments(w, c, xs))])


def finite(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    bad = [writer.node(name, xs) for name in ("IsNaN", "IsInf")]
    return writer.node("Not", [writer.node("Or", bad)])


def floor_divided(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    both = arguments(writer, call, xs)
    if call.result.dtype in FLOAT:
        return writer.node("Floor", [writer.node("Div", both)])
    remainder = writer.node("Mod", both)
    return writer.node("Div", [writer.node("Sub", [both[0], remainder]), both[1]])


def select(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    """A choice between tensors or literals of the result's dtype."""
    return writer.node("Where", arguments(writer, call, xs, call.result.dtype))


def prelu(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    rank = len(call.result.shape)
    after = rank - 1 - int(call.attrs["axis"]) % rank
    return writer.node("PRelu", [xs[0], writer.reshape(xs[1], [-1] + [1] * after)])


def softplus_of_one(node: Node) -> str | None:
    return None if is_softplus(node.info.attrs) else "beta is not 1, or the threshold is below 17"


def _table(
    names: dict[str, str], *conditions: Any, **attrs: Any
) -> dict[str, OnnxOperator]:  # fmt: skip
    return {f"relax.{k}": OnnxOperator(single(v, **attrs), conditions) for k, v in names.items()}


_FLOATS = typed(FLOAT), some_tensor
_NUMBERS = typed(NUMBERS), some_tensor, mixed
_COMPARED = typed(BOOL, NUMBERS), some_tensor, mixed

ELEMENTWISE: dict[str, OnnxOperator] = {
    **_table({
        "sigmoid": "Sigmoid", "tanh": "Tanh", "exp": "Exp", "log": "Log", "sqrt": "Sqrt",
        "erf": "Erf", "floor": "Floor", "ceil": "Ceil", "round": "Round", "sin": "Sin",
        "cos": "Cos", "tan": "Tan", "sinh": "Sinh", "cosh": "Cosh", "asin": "Asin",
        "acos": "Acos", "atan": "Atan", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh",
        "nn.relu": "Relu", "nn.gelu": "Gelu", "power": "Pow"}, *_FLOATS),
    **_table({"abs": "Abs", "negative": "Neg", "sign": "Sign"}, typed(SIGNED), some_tensor),
    **_table({"subtract": "Sub", "divide": "Div"}, *_NUMBERS),
    "relax.multiply": OnnxOperator(multiply, _NUMBERS),
    "relax.maximum": OnnxOperator(bounded("Max"), _NUMBERS),
    "relax.minimum": OnnxOperator(bounded("Min"), _NUMBERS),
    **_table({"equal": "Equal", "less": "Less", "less_equal": "LessOrEqual"}, *_COMPARED),
    "relax.greater": OnnxOperator(swapped("Less"), _COMPARED),
    "relax.greater_equal": OnnxOperator(swapped("LessOrEqual"), _COMPARED),
    **_table({"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor",
              "logical_not": "Not", "bitwise_and": "And", "bitwise_or": "Or",
              "bitwise_not": "Not"}, typed(BOOL), some_tensor),
    **_table({"mod": "Mod"}, *_NUMBERS, fmod=1),
    **_table({"floor_mod": "Mod"}, typed(("int32", "int64")), some_tensor, mixed),
    **_table({"isnan": "IsNaN", "isinf": "IsInf"}, typed(BOOL, FLOAT), some_tensor),
    **_table({"nn.gelu_tanh": "Gelu"}, *_FLOATS, approximate="tanh"),
    "relax.add": OnnxOperator(add, _NUMBERS),
    "relax.not_equal": OnnxOperator(negated("Equal"), _COMPARED),
    "relax.isfinite": OnnxOperator(finite, (typed(BOOL, FLOAT), some_tensor)),
    "relax.floor_divide": OnnxOperator(floor_divided, _NUMBERS),
    "relax.where": OnnxOperator(select, (typed(NUMBERS, BOOL, NUMBERS), some_tensor)),
    "relax.astype": OnnxOperator(cast, (typed(ALL, ALL), some_tensor)),
    "relax.clip": OnnxOperator(clip, _FLOATS),
    "relax.nn.relu6": OnnxOperator(
        lambda w, c, xs: clipped(w, c, xs[0], 0.0, 6.0), _FLOATS),
    "relax.nn.silu": OnnxOperator(silu, _FLOATS),
    HARD_SWISH: OnnxOperator(hard_swish, _FLOATS),
    "relax.square": OnnxOperator(square, _FLOATS),
    "relax.rsqrt": OnnxOperator(
        lambda w, c, xs: w.node("Reciprocal", [w.node("Sqrt", xs)]), _FLOATS),
    "relax.nn.leakyrelu": OnnxOperator(
        lambda w, c, xs: w.node("LeakyRelu", xs, alpha=float(c.attrs["alpha"])), _FLOATS),
    "relax.nn.softplus": OnnxOperator(
        lambda w, c, xs: w.node("Softplus", xs), (*_FLOATS, softplus_of_one)),
    "relax.nn.selu": OnnxOperator(lambda w, c, xs: w.node("Selu", xs), _FLOATS),
    "relax.nn.prelu": OnnxOperator(prelu, _FLOATS),
}  # fmt: skip
