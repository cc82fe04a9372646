"""Products of few rows with packed weights are left to TVM, whose kernel reads the words once."""

from __future__ import annotations

from .....analysis.composites.grouped import DEQUANTIZE
from .....analysis.composites.products import TRANSPOSED_MATMUL
from ....patterns.pattern import Node
from .storage import MOST_ROWS, axes_of, refused

#: The largest number of moves between a dequantisation and the product.
MOVES = 2


def unpacked(node: Node) -> str | None:
    """The weights are stored in full, or worth to be dequantised first: there are many rows."""
    weights, moves = node.source(1), 0
    while weights is not None and weights.info.name == "relax.permute_dims" and moves < MOVES:
        weights, moves = weights.source(0), moves + 1
    if weights is None or weights.info.name != DEQUANTIZE:
        return None
    words, scale, left = weights.operand(0), weights.operand(1), node.operand(0)
    if words is None or scale is None or left is None or len(weights.info.operands) != 2:
        return None
    axis = _summed(node)
    if axis is None or not all(isinstance(e, int) for e in left.shape[:-1]):
        return None
    rows = 1
    for extent in left.shape[:-1]:
        rows *= extent
    summed = 1 - axis if moves % 2 else axis
    if rows > MOST_ROWS or axes_of(weights.info.attrs) != {1} or summed != 1:
        return None
    dtypes = words.dtype, scale.dtype, left.dtype
    if words.rank != 2 or refused(weights.info.attrs, words.shape, left.shape[-1], dtypes):
        return None
    return f"{rows} rows are multiplied with packed weights, which a kernel of TVM reads once"


def _summed(node: Node) -> int | None:
    """The axis of the second operand that a product sums over; None if it is no matrix."""
    right = node.operand(1)
    if right is None or right.rank != 2:
        return None
    if node.info.name != TRANSPOSED_MATMUL:
        return 0
    first, second = node.info.attrs["transposed"]
    return None if first else int(second)
