"""Patterns of oneDNN: an anchor, then operators that it applies before writing the result."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

from ....analysis.composites.products import TRANSPOSED_MATMUL
from ...patterns.conditions import float32
from ...patterns.extents.symbolic_shapes import same_shape, spread, static
from ...patterns.pattern import Condition, Node, Pattern, PatternStep, one
from ...patterns.suggest import Unmet, bind, cast
from ...patterns.unary_functions import HARD_SWISH
from ..common.fold_channels import SAME
from ..common.whole_axes import part_of_axes
from .cpu import has_bfloat16
from .recipes.conv import CONV, CONV_TRANSPOSE
from .recipes.pooling import GLOBAL, POOL
from .recipes.post import BINARY, eltwise_of

#: The largest number of operators after an anchor.
LONGEST = 12
#: The largest number of operands of `concat`: a region has at most 64 arguments.
MOST_PARTS = 48


def floating(node: Node) -> str | Unmet | None:
    """All tensors of the op are float32, or all bfloat16 if the CPU supports it."""
    if node.result.dtype != "bfloat16":
        return float32(node)
    for value in node.tensors:
        if value.dtype != "bfloat16":
            return Unmet(f"the dtype is {value.dtype}, expected bfloat16 as in the result",
                         cast(value.dtype, "bfloat16"))  # fmt: skip
    if has_bfloat16():
        return None
    return Unmet("the dtype is bfloat16, which this CPU has no instructions for", "cast to float32")


def plain(*attributes: str) -> Condition:
    """The layouts that these attributes name are permutations of axes."""

    def check(node: Node) -> str | None:
        for name in attributes:
            layout = str(node.info.attrs.get(name, ""))
            if any(c.isdigit() for c in layout):
                return f"{name} {layout} is packed, expected a permutation of axes"
        return None

    return check


def kernel(node: Node) -> str | Unmet | None:
    """The weights, the groups and the number of channels are static."""
    weights = node.operand(1)
    if weights is None or not static(weights.shape):
        shape = () if weights is None else weights.shape
        return Unmet("the kernel has a symbolic shape, expected a static shape", bind(shape))
    if not all(isinstance(g, int) for g in (node.info.attrs["groups"],)):
        return "groups is symbolic"
    return channels(node)


def channels(node: Node) -> Unmet | None:
    """Only the batch and the pixels may be symbolic."""
    layout, value = str(node.info.attrs["data_layout"]), node.operand(0)
    if value is None or not isinstance(value.shape[layout.index("C")], int):
        extents = () if value is None else (value.shape[layout.index("C")],)
        return Unmet("the number of channels is symbolic", bind(extents))
    return None


def window(node: Node) -> str | Unmet | None:
    """Spatial extents are static, and ceil_mode does not go with count_include_pad."""
    attrs, value = node.info.attrs, node.operand(0)
    if value is None:
        return "the operand is a literal"
    layout = str(attrs["layout"])
    spatial = [e for e, c in zip(value.shape, layout, strict=True) if c not in "NC"]
    if not static(spatial):
        reason = f"the extents {layout} of the operand are symbolic, expected static extents"
        return Unmet(reason, bind(spatial))
    if attrs.get("ceil_mode") and attrs.get("count_include_pad") and "avg" in node.info.name:
        return "ceil_mode is True with count_include_pad, expected False"
    return None


def to_one(node: Node) -> str | Unmet | None:
    """An adaptive pool has a single result for each channel."""
    sizes = node.info.attrs["output_size"]
    sizes = sizes if isinstance(sizes, (list, tuple)) else [sizes]
    if any(s != 1 for s in sizes):
        return f"output_size is {list(sizes)}, expected a single element"
    return window(node)


def picture(node: Node) -> str | Unmet | None:
    """mean: over one to three axes of known extents, which leaves two."""
    value, axes = node.operand(0), node.info.attrs["axis"]
    if value is None:
        return "the operand is a literal"
    over = {int(a) % value.rank for a in axes} if axes is not None else set(range(value.rank))
    if not 1 <= len(over) <= 3 or value.rank - len(over) != 2:
        return (f"axis is {sorted(over)} of rank {value.rank}, expected all but two axes of rank "
                "3 to 5")  # fmt: skip
    if not static([value.shape[a] for a in over]):
        return Unmet("the extents of the axes are symbolic", bind([value.shape[a] for a in over]))
    return None


def matrices(node: Node) -> str | None:
    """Both operands have at least two dimensions."""
    first, second = node.operand(0), node.operand(1)
    if first is None or second is None or first.rank < 2 or second.rank < 2:
        ranks = [v.rank if v is not None else 0 for v in (first, second)]
        return f"the operands have rank {ranks[0]} and {ranks[1]}, expected at least 2"
    return None


def parts(node: Node) -> str | None:
    """concat: at most `MOST_PARTS` tensors."""
    count = len(node.info.operands)
    if any(node.operand(k) is None for k in range(count)):
        return "an operand is a literal"
    return (
        None if count <= MOST_PARTS else f"it has {count} operands, expected at most {MOST_PARTS}"
    )


def last_axis(node: Node) -> str | Unmet | None:
    """layer_norm, rms_norm: one axis, the last one, of a known extent."""
    value = node.operand(0)
    axes = [int(a) for a in node.info.attrs["axes"]]
    if value is None or len(axes) != 1 or axes[0] % value.rank != value.rank - 1:
        return f"axes is {axes}, expected the last axis"
    if isinstance(value.shape[-1], int):
        return None
    return Unmet("the extent of the last axis is symbolic", bind(value.shape[-1:]))


def follows(node: Node) -> str | Unmet | None:
    """The op is elementwise over the result of the anchor."""
    name, attrs = node.info.name, node.info.attrs
    assert node.chain is not None
    if (reason := floating(node) or numbers(node)) is not None:
        return reason
    if name in SAME or eltwise_of(name, attrs) is not None:
        return None
    if name == "relax.nn.softplus":
        return "softplus is supported with beta 1 and a threshold of at least 17"
    if not same_shape(node.result.shape, node.chain.shape):
        return f"{name} broadcasts the value that it follows"
    if not node.others:
        has_literal = ("x1" in attrs) + ("x2" in attrs) == 1
        return None if has_literal else f"{name} has no other operand"
    first = node.operand(0) is node.chain
    if name == "relax.divide" and not first:
        return "the value that it follows is the divisor, expected the dividend"
    return broadcastable(node)


def numbers(node: Node) -> str | None:
    """Literals that C++ can write, and divisors that have an inverse."""
    literals = {k: float(v) for k, v in node.info.attrs.items() if isinstance(v, (int, float))}
    for name, value in literals.items():
        if isnan(value) or (node.info.name == "relax.divide" and name == "x2" and value == 0):
            return f"{node.info.name} has the literal {value}"
    return None


def varies(operand: Sequence[Any], result: Sequence[Any]) -> str | None:
    """Why an operand does not broadcast in a way that oneDNN has kernels for.

    It has them along one axis, perhaps of each element of a batch, and along the last axes.
    """
    axes, rank = spread(operand, result), len(result)
    if axes is None:
        return f"an operand of shape {tuple(operand)} does not broadcast"
    one, last = tuple(a for a in axes if a > 0), tuple(range(rank - len(axes), rank))
    if len(axes) <= 1 or len(one) <= 1 or axes == last:
        return None
    return (f"an operand varies along axes {axes}, expected one axis and perhaps the first, "
            "or the last axes")  # fmt: skip


def broadcastable(node: Node) -> str | None:
    """One other operand, which broadcasts to the result."""
    if len(node.others) != 1:
        return f"{node.info.name} has {len(node.others)} further operands"
    return varies(node.others[0].shape, node.result.shape)


def begins(node: Node) -> str | None:
    """A pointwise op without an anchor: its first operand has the result's shape."""
    if not node.result.shape:  # a primitive does nothing for a tensor without axes
        return "the result has no axes, expected at least one"
    first = node.operand(0)
    if first is None or not same_shape(first.shape, node.result.shape):
        return "the first operand does not have the result's shape"
    if len(node.info.operands) == 1:
        if eltwise_of(node.info.name, node.info.attrs) is None and "x2" not in node.info.attrs:
            return "the first operand is a literal"
        return None
    second = node.operand(1)
    if second is None or second is first:
        return "both operands are the same value"
    return varies(second.shape, node.result.shape)


ACTIVATIONS = tuple(f"relax.nn.{n}" for n in ("relu", "relu6", "leakyrelu", "gelu", "gelu_tanh",
                                              "silu", "softplus"))  # fmt: skip
UNARY = tuple(f"relax.{n}" for n in ("sigmoid", "tanh", "exp", "abs", "sqrt", "square", "log",
                                     "negative", "clip"))  # fmt: skip
FOLLOWS = frozenset((*ACTIVATIONS, *UNARY, *BINARY, *SAME, HARD_SWISH))
POST = PatternStep(FOLLOWS, (follows,), 0, LONGEST)


def anchored(
    name: str, names: tuple[str, ...], *conditions: Condition, dtype: Condition = float32
) -> Pattern:
    return Pattern(name, one(names, dtype, *conditions), POST)


PATTERNS = (
    anchored("conv", CONV,
             plain("data_layout", "kernel_layout", "out_layout"), kernel, dtype=floating),
    anchored("conv_transpose", CONV_TRANSPOSE,
             plain("data_layout", "kernel_layout", "out_layout"), kernel, dtype=floating),
    anchored("matmul", ("relax.matmul", TRANSPOSED_MATMUL), matrices, dtype=floating),
    anchored("pool", POOL, plain("layout", "out_layout"), window, part_of_axes),
    anchored("global_pool", GLOBAL, plain("layout", "out_layout"), to_one),
    anchored("mean", ("relax.mean",), picture),
    anchored("concat", ("relax.concat",), parts, dtype=floating),
    anchored("softmax", ("relax.nn.softmax", "relax.nn.log_softmax")),
    anchored("layer_norm", ("relax.nn.layer_norm",), last_axis),
    anchored("rms_norm", ("relax.nn.rms_norm",), last_axis),
    anchored("pointwise", (*ACTIVATIONS, *UNARY, *BINARY), numbers, begins),
)  # fmt: skip
