"""Patterns: a product with a dequantisation by group, then elementwise operators.

matmul(x, dequantize)     matmul(x, permute_dims(astype(dequantize)))     einsum("abc,dc->abd")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....analysis.composites.grouped import DEQUANTIZE
from ....analysis.composites.products import TRANSPOSED_MATMUL
from ....layout.graph.relax_graph import Op, Value
from ...patterns import unary_functions as unary
from ...patterns.extents.symbolic_shapes import same_shape, spread
from ...patterns.pattern import Node, Pattern, PatternStep
from ...patterns.suggest import Unmet, cast
from ..common.epilogue import BINARY, UNARY
from .packed_kernels import PRODUCTS
from .stored_words import FLOATS, unreadable
from .weight_panels import STORED

#: The highest rank of a tensor.
MOST = 8
#: The largest number of operators after a product.
LONGEST = 12
#: The shortest groups whose scales are less than the values.
SHORTEST = 16
WORDS = ("uint32", "uint8", "int8", "int32", "uint16")
CASTS = ("relax.astype",)
MOVES = ("relax.permute_dims",)


def dequantization(node: Node) -> tuple[Node, ...] | str:
    """The operators from a dequantisation to the second operand, or why there is none."""
    nodes: list[Node] = []
    source = node.source(1)
    while source is not None and source.info.name in (*CASTS, *MOVES):
        nodes.append(source)
        source = source.source(0)
    if source is None or source.info.name != DEQUANTIZE:
        return "the weights are not the result of a dequantisation by group that only it reads"
    return (source, *reversed(nodes))


def sources(node: Node) -> Sequence[Op]:
    nodes = dequantization(node)
    return () if isinstance(nodes, str) else [n.op for n in nodes]


def weights(node: Node) -> str | Unmet | None:
    """The weights are a matrix in groups along the reduced axis."""
    nodes = dequantization(node)
    if isinstance(nodes, str):
        return nodes
    first = nodes[0]
    if (reason := storage(first)) is not None:
        return reason
    axis = int(first.info.attrs["axis"]) % 2
    for move in nodes[1:]:
        if move.info.name in MOVES:
            axis = 1 - axis if transposes(move) else axis
    if reduced(node) != axis:
        return "the groups are along the columns of the product, expected along the reduced axis"
    return None


def storage(node: Node) -> str | Unmet | None:
    """A dequantisation of some bits to a matrix, of constants or of parameters."""
    attrs, data = node.info.attrs, node.operand(0)
    values = node.operands
    if data is None or len(values) < len(node.info.operands):
        return "the weights are literals"
    constant = all(v.constant for v in values)
    if not constant and (reason := unreadable([v.dtype for v in values], attrs)):
        return Unmet(f"{reason} and are parameters, which are not packed when a model is compiled",
                     "bind them with relax.transform.BindParams")  # fmt: skip
    if node.result.rank != 2:
        return f"the weights have rank {node.result.rank}, expected 2"
    if (symbolic := symbolic_groups(node)) is not None:
        return symbolic
    if node.result.dtype not in FLOATS:
        return f"the scales are {node.result.dtype}, expected {' or '.join(FLOATS)}"
    if attrs["bits"] not in STORED or data.dtype not in WORDS:
        return f"{attrs['bits']} bits in {data.dtype}, expected 2, 3, 4 or 8 in integers"
    if attrs["bits"] == 8 and data.dtype == "int32":
        return "8 bits in int32, expected an unsigned integer or int8"
    group = min(int(attrs["group_size"]), int(node.result.shape[int(attrs["axis"]) % 2]))
    if group < SHORTEST:
        return f"groups of {group} values, expected {SHORTEST} or more"
    return None


def symbolic_groups(node: Node) -> str | None:
    """Why the groups of a matrix are unknown; the extent along the other axis may be symbolic."""
    axis = int(node.info.attrs["axis"]) % 2
    names = ("matrix", "words", "scales", "zero points")
    for name, value in zip(names, (node.result, *node.operands), strict=False):
        if not isinstance(value.shape[axis], int):
            return f"the extent of the {name} along the groups is symbolic"
    return None


def transposes(node: Node) -> bool:
    """Whether a permutation of a matrix exchanges its axes."""
    axes = node.info.attrs["axes"]
    return not isinstance(axes, (list, tuple)) or int(axes[0]) % 2 == 1


def reduced(node: Node) -> int | None:
    """The axis of the second operand that a product sums over; None if it is not such a product.

    The other axis is the last one of the result, after those of the first operand but its last.
    """
    left, right = node.operand(0), node.operand(1)
    if left is None or right is None or right.rank != 2 or not 2 <= left.rank <= MOST:
        return None
    return reduced_axis(node.info.name, node.info.attrs)


def reduced_axis(name: str, attrs: Mapping[str, Any]) -> int | None:
    """`reduced` of a product by its name and attributes."""
    if name == "relax.matmul":
        return 0
    if name == TRANSPOSED_MATMUL:
        first, second = attrs["transposed"]
        return None if first else int(second)
    return reduced_by(str(attrs["subscripts"]))


def reduced_by(subscripts: str) -> int | None:
    """`reduced` of an einsum."""
    operands, _, out = subscripts.replace(" ", "").partition("->")
    left, _, right = operands.partition(",")
    if len(right) != 2 or not left or len({*left}) != len(left) or left[-1] not in right:
        return None
    axis = right.index(left[-1])
    free = right[1 - axis]
    return axis if free not in left and out == left[:-1] + free else None


def product(node: Node) -> str | Unmet | None:
    """A product of rows with a matrix, of float16 or float32."""
    if len(node.operands) != 2 or reduced(node) is None:
        return "it is not a product of the last axis with an axis of a matrix"
    for value in (node.result, *node.operands):
        if (reason := floating(value)) is not None:
            return reason
    return None


def floating(value: Value) -> Unmet | None:
    if value.dtype in FLOATS:
        return None
    return Unmet(f"the dtype is {value.dtype}, expected {' or '.join(FLOATS)}",
                 cast(value.dtype, "float32"))  # fmt: skip


def follows(node: Node) -> str | Unmet | None:
    """Elementwise over the chain; other operands broadcast to it, and have one dtype."""
    assert node.chain is not None
    name = node.info.name
    if not same_shape(node.result.shape, node.chain.shape):
        return f"{name} broadcasts the value that it follows"
    for value in (*node.others, node.result):
        if (reason := floating(value)) is not None:
            return reason
        if spread(value.shape, node.result.shape) is None:
            return f"an operand of shape {value.shape} does not broadcast"
    if any(v.dtype != node.chain.dtype for v in node.others):
        return "an operand has another dtype than the value that it follows"
    if name == "relax.nn.softplus" and not unary.is_softplus(node.info.attrs):
        return "beta is not 1, or the threshold is below 17"
    return None


PRODUCT = PatternStep(frozenset(PRODUCTS), (product, weights), takes=sources)
POST = PatternStep(frozenset((*UNARY, *BINARY, *CASTS)), (follows,), 0, LONGEST)
PATTERNS = (Pattern("product", PRODUCT, POST),)
