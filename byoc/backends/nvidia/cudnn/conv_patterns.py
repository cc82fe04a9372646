"""Convolutions that cuDNN takes, with bias by channel, residual and activation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from .....analysis.proposal.proposal import Constant
from .....layout.graph.relax_graph import Op
from ....patterns.conditions import constant
from ....patterns.extents.symbolic_shapes import same_shape, spread, static
from ....patterns.pattern import Condition, Node, Pattern, many, maybe, one
from ....patterns.unary_functions import HARD_SWISH
from ..libraries.dtypes import HALVES, of, typed
from ..products.product_patterns import full_size, sums

CONV = ("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d")
TRANSPOSED = tuple(f"{name}_transpose" for name in CONV)
ACTIVATIONS = ("relax.nn.relu", "relax.nn.relu6", "relax.clip", "relax.sigmoid", "relax.tanh",
               "relax.nn.silu", "relax.nn.leakyrelu", HARD_SWISH)  # fmt: skip


def summed(dtype: str) -> Condition:
    """Return a condition: both operands have this dtype, and the result is float32."""

    def check(node: Node) -> str | None:
        dtypes = [v.dtype for v in node.tensors]
        if dtypes == ["float32", dtype, dtype]:
            return None
        return f"the dtypes are {', '.join(dtypes)}, expected float32 of {dtype}"

    return check


def cast(before: str, after: str) -> Condition:
    """Return a condition: a cast between these dtypes."""

    def check(node: Node) -> str | None:
        value = node.operand(0)
        dtypes = None if value is None else value.dtype, node.result.dtype
        return None if dtypes == (before, after) else f"it is not a cast of {before} to {after}"

    return check


def layouts(last: bool) -> Condition:
    """Return a condition: operand and result have channels last, or first."""

    def check(node: Node) -> str | None:
        data, out = (str(node.info.attrs[k]) for k in ("data_layout", "out_layout"))
        expected = data_layout(node.info.name, last)
        if data != expected or out not in ("", data):
            return f"the layouts are {data} and {out}, expected {expected}"
        return None

    return check


def weights(node: Node) -> str | None:
    """The weights are constant, or in the layout that cuDNN takes."""
    expected = kernel_layout(node.info.name, str(node.info.attrs["data_layout"]))
    layout, value = str(node.info.attrs["kernel_layout"]), node.operand(1)
    if sorted(layout) != sorted(expected):
        return f"kernel_layout {layout} is packed, expected a permutation of axes"
    if value is None or not static(value.shape):
        return "the kernel has a symbolic shape, expected a static shape"
    if not value.constant and layout != expected:
        return f"kernel_layout of an input is {layout}, expected {expected}"
    return None


def data_layout(name: str, last: bool) -> str:
    pixels = {"1": "W", "2": "HW", "3": "DHW"}[name.partition("conv")[2][0]]
    return f"N{pixels}C" if last else f"NC{pixels}"


def kernel_layout(name: str, data: str) -> str:
    """The kernel layout that cuDNN requires for it: OIHW with NCHW, OHWI with NHWC.

    A transposed convolution has the weights of the one that it is the gradient of.
    """
    first, second = "IO" if name in TRANSPOSED else "OI"
    return data.replace("N", first).replace("C", second)


def window(node: Node) -> str | None:
    """The padding is symmetric; the numbers of groups and channels are static."""
    attrs, value = node.info.attrs, node.operand(0)
    padding = [int(p) for p in attrs["padding"]]
    half = len(padding) // 2
    if padding[:half] != padding[half:]:
        return f"padding is {padding}, expected the same before and after"
    if value is None or not isinstance(value.shape[str(attrs["data_layout"]).index("C")], int):
        return "the number of channels is symbolic"
    if is_depthwise(node):
        return "the convolution is depthwise: a kernel that TVM builds takes less time"
    return None if isinstance(attrs["groups"], int) else "groups is symbolic"


#: Elements of the windows of depthwise convolutions for which kernels of TVM's take less time; for
#: 5x5 cuDNN is as fast.
WINDOWS = (9, 49)


def is_depthwise(node: Node) -> bool:
    """Whether each channel of halves has a window of its own, of a size in `WINDOWS`.

    cuDNN reads and writes at a third of the memory's bandwidth there, and has few fused engines.
    """
    value, kernel, result = node.operand(0), node.operand(1), node.result
    if node.info.name != "relax.nn.conv2d" or value is None or kernel is None:
        return False
    axis = str(node.info.attrs["data_layout"]).index("C")
    groups = node.info.attrs["groups"]
    channels = {value.shape[axis], result.shape[axis], groups}
    several = len(channels) == 1 and all(isinstance(c, int) and c % 8 == 0 for c in channels)
    window = prod(kernel.shape) / groups if static(kernel.shape) else 0
    return several and value.dtype in HALVES and kernel.constant and (
        window in WINDOWS and static(value.shape))  # fmt: skip


def by_channel(last: bool) -> Condition:
    """Return a condition: a sum with one value for each channel."""

    def check(node: Node) -> str | None:
        reason = sums(node)
        if reason is None and not _differs(node, node.others[0].shape, last, most=1):
            shape = node.others[0].shape
            return f"an operand has the shape {shape}, expected a bias: one value per channel"
        return reason

    return check


def by_constant(last: bool) -> Condition:
    """Return a condition: the other operand is a literal, or a constant by channel."""

    def check(node: Node) -> str | None:
        if (reason := typed(node)) is not None:
            return reason
        if node.info.name in ("relax.subtract", "relax.divide") and (
            node.operand(0) is not node.chain
        ):
            return f"{node.info.name} has the chain's value as operand 1, expected operand 0"
        if not node.others:
            literals = any(isinstance(o, Constant) for o in node.info.operands)
            has_literal = literals or "x1" in node.info.attrs or "x2" in node.info.attrs
            return None if has_literal else "it has one operand"
        operand = node.others[0]
        if len(node.others) != 1 or not operand.constant:
            return "the other operand is not constant"
        valid = _differs(node, operand.shape, last) and _as_chain(node)
        return None if valid else f"a constant of shape {operand.shape} is not by channel"

    return check


def _as_chain(node: Node) -> bool:
    assert node.chain is not None
    return same_shape(node.result.shape, node.chain.shape)


def _differs(node: Node, shape: Sequence[object], last: bool, most: int = 0) -> bool:
    """Whether a shape varies along the channel axis only; with ``most`` 0, also along none."""
    axis = len(node.result.shape) - 1 if last else 1
    axes = spread(shape, node.result.shape)
    return axes == (axis,) or (most == 0 and axes == ())


def clipped(node: Node) -> str | None:
    """A clip starts at 0, and a hard swish rises."""
    attrs = node.info.attrs
    if node.info.name == "relax.clip" and float(attrs["min"]) != 0.0:
        return f"clip has min={attrs['min']}, expected 0"
    if node.info.name == HARD_SWISH and float(attrs["alpha"]) <= 0.0:
        return f"hard swish has alpha={attrs['alpha']}, expected a positive one"
    return None


FACTORS = ("relax.add", "relax.subtract", "relax.multiply", "relax.divide")


def patterns() -> tuple[Pattern, ...]:
    """For channels first and last: with constants by channel, or with a bias known at run time."""
    out = []
    convs = (*CONV, *TRANSPOSED)
    for last in (True, False):
        anchor = (typed, layouts(last), weights, window)
        residual = maybe("relax.add", full_size)
        after = (residual, maybe(ACTIVATIONS, typed, clipped), residual)
        name = "conv_channels_last" if last else "conv_channels_first"
        scaled, bias = many(FACTORS, by_constant(last)), maybe("relax.add", by_channel(last))
        out.append(Pattern(name, one(convs, *anchor, constant(1)), scaled, *after))
        out.append(Pattern(f"{name}_inputs", one(convs, *anchor), bias, *after))
        out += [p for dtype in HALVES for p in _rounded(dtype, last, name)]
    return tuple(out)


def _rounded(dtype: str, last: bool, name: str) -> list[Pattern]:
    """A half-precision program, parts of it in float32: cuDNN rounds once, at the end.

    conv2d -> add (bias) -> astype (half) -> astype (float32) -> add (residual) -> astype -> relu

    The last operator of a region has a result in half precision: each pattern ends with another.
    """
    anchor = one((*CONV, *TRANSPOSED), summed(dtype), layouts(last), weights, window, constant(1))
    casts, scaled = many("relax.astype", rounding(dtype)), many(FACTORS, by_constant(last))
    residual = replace(one("relax.add", addend(dtype), takes=widened_addend), least=0)
    activation = maybe(ACTIVATIONS, typed, clipped)
    summed_up = (anchor, scaled, casts, scaled, casts, residual, casts)
    return [
        Pattern(f"{name}_{dtype}", *summed_up, activation, casts, residual,
                one("relax.astype", cast("float32", dtype))),
        Pattern(f"{name}_{dtype}_activated", *summed_up, one(ACTIVATIONS, of(dtype), clipped)),
        Pattern(f"{name}_{dtype}_added", *summed_up, activation, casts,
                one("relax.add", of(dtype), full_size)),
    ]  # fmt: skip


def rounding(dtype: str) -> Condition:
    """Return a condition: a cast from this dtype to float32, or back."""
    narrow, wide = cast("float32", dtype), cast(dtype, "float32")
    return lambda node: None if narrow(node) is None or wide(node) is None else narrow(node)


def addend(dtype: str) -> Condition:
    """Return a condition: a tensor of this dtype is added, perhaps as float32."""

    def check(node: Node) -> str | None:
        if (reason := full_size(node)) is not None or node.result.dtype == dtype:
            return reason
        (source,) = widened_sources(node) or (None,)
        if source is not None and cast(dtype, "float32")(source) is None:
            return None
        return f"a float32 tensor is added, expected one that was {dtype}"

    return check


def widened_addend(node: Node) -> tuple[Op, ...]:
    """The cast of what is added."""
    return tuple(source.op for source in widened_sources(node))


def widened_sources(node: Node) -> tuple[Node, ...]:
    if len(node.others) != 1:
        return ()
    sources = (node.source(k) for k in range(2) if node.operand(k) is not node.chain)
    return tuple(s for s in sources if s is not None and s.info.name == "relax.astype")
