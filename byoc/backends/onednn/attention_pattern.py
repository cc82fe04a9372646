"""The pattern of attention: two products around a softmax, as one region.

reshape, permute_dims of q, k → matmul → multiply → add → softmax → matmul → permute_dims
                                                           reshape of v ↗
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....layout.graph.relax_graph import Op
from ...patterns.conditions import float32
from ...patterns.pattern import Node, Pattern, PatternStep, one
from ...patterns.suggest import Unmet, bind
from ...patterns.symbolic_shapes import same_shape, spread, static
from ..common.moved_axes import Strided
from .int8 import elements
from .recipes.attention import MATMUL, MOVES, SCALES, SOFTMAX, moved, unmoved

#: Limits on operators in a row: before an operand, on the scores, after the result.
MOST = 8
#: Numbers below it, or above its inverse, do not scale scores.
LEAST = 1e-30


def known(node: Node) -> Unmet | None:
    """All extents are static and positive."""
    shapes = [v.shape for v in node.tensors]
    symbolic = next((s for s in shapes if not static(s)), None)
    if symbolic is not None:
        return Unmet("an extent is symbolic", bind(symbolic))
    return Unmet("a tensor is empty") if any(0 in s for s in shapes) else None


def both(node: Node) -> str | None:
    """Both operands are matrices, perhaps in a batch."""
    values = [node.operand(k) for k in range(2)]
    if any(v is None or v.rank < 2 for v in values):
        return "an operand has no rows and columns"
    return "both operands are the same value" if values[0] is values[1] else None


def product(node: Node) -> str | Unmet | None:
    """What the first product needs, as one condition.

    A product alone that several conditions refuse is then reported by the pattern of products,
    which says what the user can change.
    """
    return both(node) or float32(node) or known(node)


def sources(node: Node, k: int) -> list[Op]:
    """What moves and scales an operand and can be left out by reading its source in place."""
    taken: list[Node] = []
    for _ in range(MOST):
        producer = (taken[0] if taken else node).source(0 if taken else k)
        if producer is None or _unprepared(producer):
            break
        longer = [producer, *taken]
        if not _in_place(longer):
            break
        taken = longer
    return [n.op for n in taken]


def _unprepared(node: Node) -> bool:
    """Whether an operator does more than to move and scale."""
    if float32(node) is not None or known(node) is not None or node.operand(0) is None:
        return True
    name = node.info.name
    return name not in MOVES and (name not in SCALES or number(node) is not None)


def _in_place(chain: Sequence[Node]) -> bool:
    """Whether rows and columns are a fixed number of elements apart after some operators."""
    first = chain[0].operand(0)
    assert first is not None
    place: Strided | None = Strided.plain(first.shape)
    for node in chain:
        if place is not None and node.info.name in MOVES:
            place = moved(place, node.info.name, node.info.attrs, node.result.shape)
    return place is not None and None not in (place.step(-1), place.step(-2))


def queries_and_keys(node: Node) -> Sequence[Op]:
    return (*sources(node, 0), *sources(node, 1))


def values(node: Node) -> Sequence[Op]:
    return sources(node, 1)


def number(node: Node) -> str | None:
    """The first operand is multiplied with, or divided by, one number that is not 0."""
    name, attrs, count = node.info.name, node.info.attrs, len(node.info.operands)
    data = node.operand(0) if node.chain is None else node.chain
    if "x1" in attrs or data is None or node.operand(0) is not data:
        return "the value is its second operand, expected the first one"
    array = elements(node, 1) if count > 1 else np.asarray(attrs["x2"])
    if array is None or array.size != 1 or not same_shape(data.shape, node.result.shape):
        return f"{name} has another operand that is not one number"
    value = abs(float(array.reshape(-1)[0]))
    return None if LEAST < value < 1 / LEAST else f"{name} has the number {value:g}"


def between(node: Node) -> str | Unmet | None:
    """An operator on the scores: keeps rows and keys, scales, or adds a tensor."""
    assert node.chain is not None
    name = node.info.name
    if name in SCALES:
        return number(node)
    if name == "relax.add":
        return term(node)
    if name == "relax.permute_dims" or not same_shape(
        node.chain.shape[-2:], node.result.shape[-2:]
    ):
        return "the last two axes of the scores change"
    return None


def term(node: Node) -> str | None:
    """The scores keep their shape, and another tensor is added."""
    assert node.chain is not None
    if len(node.others) != 1:
        return "a number is added to the scores, or these to themselves"
    if not same_shape(node.chain.shape, node.result.shape):
        return "the scores are broadcast"
    if spread(node.others[0].shape, node.result.shape) is None:
        return "the tensor does not broadcast to the scores"
    return None


def last(node: Node) -> str | None:
    axis, rank = int(node.info.attrs["axis"]), node.result.rank
    return None if axis % rank == rank - 1 else f"axis is {axis}, expected the last one"


def weighted(node: Node) -> str | None:
    """The probabilities are the first operand, with an axis of batches as they have."""
    if node.operand(0) is not node.chain:
        return "the softmax is the second operand, expected the first one"
    assert node.chain is not None
    if not same_shape(node.chain.shape[:-2], node.result.shape[:-2]):
        return "the probabilities are broadcast"
    return None


def lands(node: Node) -> str | None:
    """The result of the product can be written where it lies after this operator."""
    place: Strided | None = Strided.plain(node.result.shape)
    while node.info.name in MOVES and place is not None:
        operand = node.operand(0)
        producer = Node(node.op, node.info, None, node.ops, node.infos).source(0)
        if operand is None or producer is None:
            break
        place = unmoved(place, node.info.name, node.info.attrs, operand.shape)
        node = producer
    if place is None or None in (place.step(-1), place.step(-2)):
        return "it divides rows or columns of the result"
    return None


ATTENTION = Pattern(
    "attention",
    one(MATMUL, product, takes=queries_and_keys),
    PatternStep(frozenset((*MOVES, *SCALES)), (float32, known, between), 0, MOST),
    PatternStep(frozenset((*MOVES, "relax.add")), (float32, known, between), 0, MOST),
    one(SOFTMAX, float32, last),
    PatternStep(frozenset(MOVES), (float32, between), 0, MOST),
    one(MATMUL, float32, known, weighted, takes=values),
    PatternStep(frozenset(MOVES), (float32, lands), 0, MOST),
)
