"""Products of few rows with packed weights are left to TVM, whose kernel reads the words once."""

from __future__ import annotations

from .....analysis.composites.grouped import DEQUANTIZE
from .....analysis.composites.products import TRANSPOSED_MATMUL
from .....layout.graph.relax_graph import Value
from ....patterns.pattern import Node
from ....patterns.pattern_node import node as node_of
from .storage import HALF_LANES, HALVES, MOST_ROWS, PLAIN_ROWS, axes_of, refused

#: The largest number of moves between a dequantisation and the product.
MOVES = 2


def unpacked(node: Node) -> str | None:
    """The weights are stored in full, or worth to be dequantised first: there are many rows."""
    return _packed(node) or _single_row(node)


def _single_row(node: Node) -> str | None:
    """Why a product of halves with a matrix in rows is left to TVM; None if it is not."""
    axis, left, right = _summed(node), node.operand(0), node.operand(1)
    turned = _producer(node, 1)
    if turned is not None and turned.info.name == "relax.permute_dims" and axis == 0:
        axis, right = 1, turned.operand(0)
    if axis != 1 or left is None or right is None or right.rank != 2 or right.constant:
        return None
    if not {left.dtype, right.dtype, node.result.dtype} <= set(HALVES):
        return None
    rows = _rows(left)
    if rows is None or rows > PLAIN_ROWS or not isinstance(left.shape[-1], int):
        return None
    if left.shape[-1] % HALF_LANES or left.dtype != right.dtype:
        return None
    return f"{rows} rows are multiplied with weights that a kernel of TVM reads once"


def _rows(value: Value) -> int | None:
    """The rows of a tensor; None if an extent is symbolic."""
    rows = 1
    for extent in value.shape[:-1]:
        if not isinstance(extent, int):
            return None
        rows *= extent
    return rows


def _packed(node: Node) -> str | None:
    weights, moves = _producer(node, 1), 0
    while weights is not None and weights.info.name == "relax.permute_dims" and moves < MOVES:
        weights, moves = _producer(weights, 0), moves + 1
    if weights is None or weights.info.name != DEQUANTIZE:
        return None
    words, scale, left = weights.operand(0), weights.operand(1), node.operand(0)
    if words is None or scale is None or left is None or len(weights.info.operands) > 3:
        return None
    axis = _summed(node)
    rows = _rows(left)
    if axis is None or rows is None:
        return None
    summed = 1 - axis if moves % 2 else axis
    if rows > MOST_ROWS or axes_of(weights.info.attrs) != {summed}:
        return None
    dtypes = words.dtype, scale.dtype, left.dtype
    if words.rank != 2 or refused(weights.info.attrs, words.shape, left.shape[-1], dtypes):
        return None
    return f"{rows} rows are multiplied with packed weights, which a kernel of TVM reads once"


def _producer(node: Node, k: int) -> Node | None:
    """The producer of an operand that nothing else reads, also if it is in the same chain."""
    value = node.operand(k)
    if value is None or value.producer is None or value.pinned is not None or len(value.uses) != 1:
        return None
    return node_of(value.producer, node.infos)


def _summed(node: Node) -> int | None:
    """The axis of the second operand that a product sums over; None if it is not a matrix."""
    right = node.operand(1)
    if right is None or right.rank != 2:
        return None
    if node.info.name != TRANSPOSED_MATMUL:
        return 0
    first, second = node.info.attrs["transposed"]
    return None if first else int(second)
