"""Patterns of quantised operators for oneDNN: integer products between dequantize and quantize.

    dequantize(x), dequantize(w) → conv or matmul → add → relu → quantize
        = saturate(round((s_x s_w Σ (x - z_x) w + bias …) / s_y + z_y))

Weights are int8 with zero point 0, and have a scale for each output channel or one for all. The
sums of products are exact; float32 would round them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, prod

import numpy as np

from ....layout.graph.relax_graph import Op, Value
from ...backend.region import Array
from ...patterns.conditions import elements
from ...patterns.extents.symbolic_shapes import same_shape, spread, static
from ...patterns.pattern import Condition, Node, Pattern, PatternStep, maybe, one
from ...patterns.suggest import Unmet, bind, want
from ...prepare.integers import DEQUANTIZE, POOLS, QUANTIZE, SMALL
from .cpu import has_int8
from .patterns import FOLLOWS, follows, kernel, matrices, parts, plain, window
from .recipes.conv import CONV

#: The largest number of operators between product and quantize; a residual takes three post-ops.
LONGEST = 8
#: The number of products of uint8 and int8 whose sum fits into 32 bits.
LONG = (1 << 31) // (255 * 128)
CPU = "this CPU has no instructions for products of int8 (avx512_vnni)"


def vnni(node: Node) -> str | None:
    """The CPU has VNNI: without it, sums of two products saturate at 16 bits."""
    return None if has_int8() else CPU


def parameters(node: Node) -> tuple[Array, Array] | str:
    """Scale and zero point of a quantize or a dequantize, or why oneDNN cannot use them."""
    scale, zero = elements(node, 1), elements(node, 2)
    if scale is None or zero is None:
        return f"{'scale' if scale is None else 'zero point'} is computed, expected a constant"
    if not all(isfinite(s) and s > 0 for s in scale.ravel().astype("float64")):
        return "a scale is not a positive number"
    if not np.array_equal(zero, zero.astype("int32")):
        return "a zero point is not an integer"
    return scale, zero


def per_tensor(node: Node) -> str | None:
    """A tensor of int8 or uint8 has one scale and one zero point."""
    small = node.result if node.info.name == QUANTIZE else node.operand(0)
    wide = node.operand(0) if node.info.name == QUANTIZE else node.result
    dtypes = [v.dtype if v is not None else "a literal" for v in (small, wide)]
    if dtypes[0] not in SMALL or dtypes[1] != "float32":
        expected = f"{' or '.join(SMALL)} and float32"
        return f"{node.info.name} has the dtypes {dtypes[0]} and {dtypes[1]}, expected {expected}"
    params = parameters(node)
    if isinstance(params, str):
        return params
    if params[0].size != 1 or params[1].size != 1:
        return f"{node.info.name} has one scale per channel, expected one for the whole tensor"
    return None


def _dequantized(node: Node, k: int) -> Node | str:
    """The dequantize that produces an operand, or why it cannot be part of the region."""
    producer = node.source(k)
    if producer is None or producer.info.name != DEQUANTIZE:
        return f"operand {k} is not the result of a relax.dequantize that only it reads"
    return producer


def integers(node: Node) -> str | None:
    """Both operands are dequantized."""
    producers = (_dequantized(node, k) for k in range(2))
    return next((producer for producer in producers if isinstance(producer, str)), None)


def data(node: Node) -> str | None:
    """The first operand is dequantized per tensor."""
    producer = _dequantized(node, 0)
    return producer if isinstance(producer, str) else per_tensor(producer)


def weights(node: Node) -> str | Unmet | None:
    """The second operand is int8 around 0, with one scale or one for each output channel."""
    producer = _dequantized(node, 1)
    if isinstance(producer, str):
        return producer
    value = producer.operand(0)
    if value is None or value.dtype != "int8" or producer.result.dtype != "float32":
        return f"the weights are {value.dtype if value else 'a literal'}, expected int8"
    params = parameters(producer)
    if isinstance(params, str):
        return params
    scale, zero = params
    if np.any(zero != 0):
        return f"the weights' zero point is {_first(zero)}, expected 0"
    channel, axis = _channel(node, value.rank), int(producer.info.attrs["axis"])
    if (reason := _short(node, value, channel)) is not None:
        return reason
    if scale.size > 1 and axis % value.rank != channel:
        return f"the weights have scales along axis {axis}, that of output channels is {channel}"
    return None


def _short(node: Node, value: Value, channel: int) -> str | Unmet | None:
    """Why a sum of products may not fit into 32 bits; None if it does."""
    over = [e for k, e in enumerate(value.shape) if k != channel]
    over = over[-1:] if node.info.name == "relax.matmul" else over
    if not static(over):
        return Unmet("the length of the sums is symbolic", bind(over))
    if prod(over) <= LONG:
        return None
    return f"{prod(over)} products are summed, expected at most {LONG} in int8"


def _first(zero: Array) -> int:
    return int(zero[zero != 0].ravel()[0])


def _channel(node: Node, rank: int) -> int:
    """The weights' axis of output channels."""
    layout = node.info.attrs.get("kernel_layout")
    return rank - 1 if layout is None else str(layout).index("O")


def channels_last(key: str) -> Condition:
    """The layouts are channels last; for others, oneDNN only has a reference implementation."""

    def check(node: Node) -> Unmet | None:
        attrs = node.info.attrs
        for name in (key, "out_layout"):
            layout = str(attrs[name] or attrs[key])
            if not layout.startswith("N") or not layout.endswith("C"):
                last = "N" + "".join(c for c in layout if c not in "NC") + "C"
                layouts = (last, last.replace("N", "O").replace("C", "I"))
                suggestion = want(node.info.name, layouts if key == "data_layout" else layouts[:1])
                return Unmet(f"{name} is {layout}, expected {last} for int8", suggestion)
        return None

    return check


def not_constant(node: Node) -> str | None:
    """The operand is not a constant, as constants are folded when the model is compiled."""
    value = node.operand(0)
    return "its operand is a constant, so it is folded" if value is None or value.constant else None


def small(node: Node) -> str | None:
    """All tensors are int8 or uint8."""
    dtype = next((v.dtype for v in node.tensors if v.dtype not in SMALL), None)
    return None if dtype is None else f"the dtype is {dtype}, expected {' or '.join(SMALL)}"


def operands(node: Node) -> Sequence[Op]:
    """The dequantize of each operand."""
    return [producer.op for k in range(2) if (producer := node.source(k)) is not None]


def in_between(node: Node) -> str | Unmet | bool | None:
    """As for float32, but operands must vary by channel or along all axes.

    Post-ops are applied before the result is written.
    """
    if (reason := follows(node)) is not None:
        return reason
    for value in node.others:
        axes = spread(value.shape, node.result.shape)
        if not same_shape(value.shape, node.result.shape) and axes not in (
            (),
            (node.result.rank - 1,),
        ):
            return f"an operand varies along axes {axes}, expected the channel axis, or all axes"
    return None


def residual(node: Node) -> Sequence[Op]:
    """The dequantize of the other operand of a sum."""
    producers = (node.source(k) for k in range(2) if node.info.name == "relax.add")
    return [
        producer.op
        for producer in producers
        if producer is not None
        and producer.info.name == DEQUANTIZE
        and (value := producer.operand(0)) is not None
        and not value.constant
        and per_tensor(producer) is None
        and same_shape(value.shape, node.result.shape)
    ]


def both(node: Node) -> str | None:
    """Both operands are dequantized per tensor, and have the same shape."""
    for k in range(2):
        producer = _dequantized(node, k)
        if isinstance(producer, str) or (reason := per_tensor(producer)) is not None:
            return producer if isinstance(producer, str) else reason
        value = producer.operand(0)
        if value is None or not same_shape(value.shape, node.result.shape):
            return f"operand {k} is broadcast"
    if node.operand(0) is node.operand(1):
        return "both operands are the same value"
    return None


def requantized(node: Node) -> str | Unmet | None:
    """The operand is dequantized just before."""
    producer = _dequantized(node, 0)
    return producer if isinstance(producer, str) else per_tensor(producer) or not_constant(producer)


def first(node: Node) -> Sequence[Op]:
    """The dequantize of the first operand."""
    return operands(node)[:1]


def even(node: Node) -> str | None:
    """The zero point is even: a reorder of oneDNN adds it to halves before it rounds to even."""
    zero = elements(node, 2)
    if zero is None or not np.any(zero.astype("int64") % 2):
        return None
    return f"the zero point is {int(zero.ravel()[0])}, expected an even one"


POST = PatternStep(FOLLOWS, (in_between,), 0, LONGEST, residual)
INTO = maybe(QUANTIZE, per_tensor)

CONVOLUTION = one(
    CONV, integers, vnni, plain("data_layout", "kernel_layout", "out_layout"), kernel, data,
    weights, takes=operands, laid=(channels_last("data_layout"),),
)  # fmt: skip
PRODUCT = one("relax.matmul", integers, vnni, matrices, data, weights, takes=operands)
POOL = one(POOLS, small, plain("layout", "out_layout"), window, laid=(channels_last("layout"),))

QUANTIZED = (
    Pattern("conv_int8", CONVOLUTION, POST, INTO),
    Pattern("matmul_int8", PRODUCT, POST, INTO),
    Pattern("add_int8", one("relax.add", both, takes=operands), POST, one(QUANTIZE, per_tensor)),
    Pattern("max_pool_int8", POOL),
    Pattern("concat_int8", one("relax.concat", small, parts)),
    Pattern("requantize", one(QUANTIZE, requantized, per_tensor, even, takes=first)),
    Pattern("dequantize", one(DEQUANTIZE, per_tensor, not_constant)),
    Pattern("quantize", one(QUANTIZE, per_tensor, even)),
)
