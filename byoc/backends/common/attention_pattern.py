"""The pattern of attention: two products around a softmax, as one region.

reshape, permute_dims of q, k → matmul → multiply → add → softmax → matmul → permute_dims
                                                           reshape of v ↗
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....layout.graph.relax_graph import Op
from ...backend.region import Region, region
from ...patterns.conditions import elements
from ...patterns.extents.symbolic_shapes import same_shape, spread, static
from ...patterns.pattern import Condition, Node, Pattern, PatternStep, one
from ...patterns.suggest import Unmet, bind
from .attention_region import MATMUL, SCALES, SOFTMAX
from .moved_axes import Strided, moved, unmoved

#: Limits on operators in a row: before an operand, on the scores, after the result.
MOST = 8
#: Numbers below it, or above its inverse, do not scale scores.
LEAST = 1e-30
#: What moves scores, weights and the result.
_MOVES = ("relax.reshape", "relax.permute_dims", "relax.astype")


def in_rows(place: Strided, across: int) -> bool:
    """Whether rows and columns are a fixed number of elements apart; see `AttentionRules`."""
    return None not in (place.step(-1), place.step(-2))


@dataclass(frozen=True)
class AttentionRules:
    """What a library takes of attention.

    Attributes:
        typed: A condition on the dtypes of each operator.
        moves: The operators through which it reads an operand.
        reads: Whether it reads an operand where it lies, given which of the last two axes, -1 or
            -2, has the elements of a head.
        masks: A condition on a sum of the scores and another tensor.
        whole: Why it does not take a region, if none of its operators says so. The region ends
            with the second product, or with an operator after it.
        symbolic: Whether extents may be known at run time only; ``whole`` says which.
    """

    typed: Condition
    moves: tuple[str, ...] = _MOVES
    reads: Callable[[Strided, int], bool] = in_rows
    masks: Condition = lambda node: None
    whole: Callable[[Region], str | None] | None = None
    symbolic: bool = False

    def known(self, node: Node) -> str | Unmet | None:
        """The extents of an operator are known when the library's kernel is chosen."""
        if not self.symbolic:
            return known(node)
        empty = any(isinstance(e, int) and e == 0 for v in node.tensors for e in v.shape)
        return Unmet("a tensor is empty") if empty else None

    def pattern(self, name: str, *after: PatternStep) -> Pattern:
        """The pattern; ``after`` follow the second product, by default only moves do."""
        typed, known = self.typed, self.known
        moves = PatternStep(frozenset(_MOVES), (typed, lands, self.fits), 0, MOST)
        return Pattern(
            name,
            one(MATMUL, self.product, takes=self.queries_and_keys),
            PatternStep(frozenset((*_MOVES, *SCALES)), (typed, known, between), 0, MOST),
            PatternStep(frozenset((*_MOVES, "relax.add")), (typed, known, between, self.masks), 0,
                        MOST, takes=self.term),
            one(SOFTMAX, typed, last),
            PatternStep(frozenset(_MOVES), (typed, between), 0, MOST),
            one(MATMUL, typed, known, weighted, self.fits, takes=self.values),
            *(after or (moves,)),
        )  # fmt: skip

    def product(self, node: Node) -> str | Unmet | None:
        """What the first product needs, as one condition.

        A product alone that several conditions refuse is then reported by the pattern of products,
        which says what the user can change.
        """
        failed = both(node) or self.typed(node) or self.known(node)
        return failed if isinstance(failed, (str, Unmet)) else None

    def queries_and_keys(self, node: Node) -> Sequence[Op]:
        return (*self.sources(node, 0, -1), *self.sources(node, 1, -2))

    def values(self, node: Node) -> Sequence[Op]:
        return self.sources(node, 1, -1)

    def term(self, node: Node) -> Sequence[Op]:
        """What moves or widens the tensor that is added to the scores."""
        if node.info.name != "relax.add" or "relax.expand_dims" not in self.moves:
            return ()
        k = 1 if node.operand(0) is node.chain else 0
        taken: list[Node] = []
        while len(taken) < MOST:
            producer = (taken[0] if taken else node).source(0 if taken else k)
            if producer is None or self._unprepared(producer, scales=()):
                break
            taken.insert(0, producer)
        return [n.op for n in taken]

    def sources(self, node: Node, position: int, across: int) -> list[Op]:
        """What moves and scales an operand and can be left out by reading its source in place."""
        taken: list[Node] = []
        best: list[Node] = []
        while len(taken) < MOST:
            producer = (taken[0] if taken else node).source(0 if taken else position)
            if producer is None or self._unprepared(producer):
                break
            taken.insert(0, producer)
            if self._in_place(taken, across):
                best = list(taken)
        return [n.op for n in best]

    def _unprepared(self, node: Node, scales: tuple[str, ...] = SCALES) -> bool:
        """Whether an operator does more than to move and scale."""
        if self.typed(node) is not None or self.known(node) is not None or not node.operand(0):
            return True
        name = node.info.name
        if name == "relax.astype" and narrows(node):
            return not scales_halves(node)
        return name not in self.moves and (name not in scales or number(node) is not None)

    def _in_place(self, chain: Sequence[Node], across: int) -> bool:
        """Whether the source of some operators is read in place."""
        first = chain[0].operand(0)
        assert first is not None
        place: Strided | None = Strided.plain(first.shape)
        for node in chain:
            if place is not None and node.info.name in self.moves:
                place = moved(place, node.info.name, node.info.attrs, node.result.shape)
        return place is not None and self.reads(place, across)

    def fits(self, node: Node) -> str | None:
        """The region that ends here is taken as a whole."""
        if self.whole is None:
            return None
        ops = self._region(node)
        if ops is None:
            return "it does not follow two products around a softmax"
        return self.whole(region("", ops, node.infos).region)

    def _region(self, node: Node) -> list[Op] | None:
        """The operators of a match that ends with a node."""
        chain = _back(node, False, 4 * MOST)
        if chain is None:
            return None
        steps = [self.queries_and_keys(chain[0]), *([] for _ in chain[1:])]
        for k, (before, at) in enumerate(itertools.pairwise(chain), 1):
            link = replace(at, chain=before.result)
            steps[k] = self.values(link) if at.info.name == MATMUL else self.term(link)
        return [op for own, at in zip(steps, chain, strict=True)
                for op in (*dict.fromkeys(own), *(at.ops or (at.op,)))]  # fmt: skip


def _back(node: Node, weighed: bool, most: int) -> list[Node] | None:
    """The chain from the first product to a node; ``weighed``: a softmax is between."""
    name = node.info.name
    if name == MATMUL and weighed:
        return [node]
    if most == 0:
        return None
    alone = replace(node, chain=None)
    for k in range(2 if name == "relax.add" else 1):
        producer = alone.source(k)
        before = None if producer is None else _back(producer, weighed or name == SOFTMAX, most - 1)
        if before is not None:
            return [*before, node]
    return None


def narrows(node: Node) -> bool:
    """Whether a cast rounds: its result is a half, its operand is not."""
    value = node.operand(0)
    return value is not None and value.dtype == "float32" and node.result.dtype != "float32"


def scales_halves(node: Node) -> bool:
    """Whether a cast rounds halves that were widened and scaled: a library scales the scores."""
    scaled = node.source(0)
    if scaled is None or scaled.info.name not in SCALES or number(scaled) is not None:
        return False
    wide = scaled.source(0)
    if wide is None or wide.info.name != "relax.astype" or narrows(wide):
        return False
    halves = wide.operand(0)
    return halves is not None and halves.dtype == node.result.dtype


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
    while node.info.name in _MOVES and place is not None:
        operand = node.operand(0)
        producer = Node(node.op, node.info, None, node.ops, node.infos).source(0)
        if operand is None or producer is None:
            break
        place = unmoved(place, node.info.name, node.info.attrs, operand.shape)
        node = producer
    if place is None or any(place.step(k) is None for k in (-1, -2)):
        return "it divides rows or columns of the result"
    return None
