"""What a region of attention computes: softmax(q k + terms) v, with all tensors where they lie."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from ...backend.region import Call, Region, Tensor
from ...patterns.extents.symbolic_extents import Extent
from .moved_axes import Digit, Strided, common_steps, moved, unmoved
from .region_source import literal

MATMUL, SOFTMAX = "relax.matmul", "relax.nn.softmax"
SCALES = ("relax.multiply", "relax.divide")


@dataclass(frozen=True)
class Source:
    """A tensor of a region as an operator of it reads it: moved, then multiplied."""

    tensor: Tensor
    place: Strided
    factor: float = 1.0


@dataclass
class Attention:
    """What a region computes; ``scores`` is the shape of the scores."""

    queries: Source
    keys: Source
    scores: tuple[Any, ...]
    factor: float = 1.0
    terms: list[Source] = field(default_factory=list)
    values: Source | None = None
    moves: list[Call] = field(default_factory=list)

    @property
    def scale(self) -> float:
        """The number that the product of queries and keys is multiplied with."""
        return self.factor * self.queries.factor * self.keys.factor


@dataclass(frozen=True)
class PlacedAttention:
    """Queries, keys, values, the result, then each term, with their batches as common axes.

    Attributes:
        places: The tensors, each in the shape in which the two products and the sums see it.
        extents: The extents of the axes of batches that all have in common.
        along: The steps of each tensor along these.
    """

    places: tuple[Strided, ...]
    extents: tuple[Extent, ...]
    along: tuple[tuple[Extent, ...], ...]


def is_attention(region: Region) -> bool:
    """Whether a region is a match of the attention pattern: no other one has such operators."""
    products = [c.op for c in region.calls].count(MATMUL)
    return products == 2 and region.find(SOFTMAX) is not None


def traced(region: Region) -> Attention | None:
    """What a match of the attention pattern computes; None if a tensor must be copied first."""
    sources: dict[int, Source] = {}
    whole: Attention | None = None

    def source(operand: Any) -> Source:
        if operand.source == "call":
            return sources[operand.index]
        return Source(operand, Strided.plain(operand.shape))

    for k, call in enumerate(region.calls):
        tensors = [o for o in call.operands if isinstance(o, Tensor)]
        first = next((t for t in tensors if t.source == "call" and t.index not in sources), None)
        if call.op == MATMUL and first is None:
            whole = Attention(source(tensors[0]), source(tensors[1]), call.result.shape)
        elif first is None:
            moved_on = _prepared(source(tensors[0]), call, region)
            if moved_on is None:
                return None
            sources[k] = moved_on
        else:
            assert whole is not None
            _follow(whole, call, [source(t) for t in tensors if t is not first], region)
    return whole


def _prepared(source: Source, call: Call, region: Region) -> Source | None:
    """An operand of a product or a term after a move, or after one of `SCALES`."""
    if call.op in SCALES:
        return replace(source, factor=source.factor * _factor(call, region))
    place = moved(source.place, call.op, call.attrs, call.result.shape)
    return None if place is None else replace(source, place=place)


def _follow(whole: Attention, call: Call, others: list[Source], region: Region) -> None:
    """Add a call that reads the scores, or what is computed from them."""
    if whole.values is not None:
        whole.moves.append(call)
    elif call.op == MATMUL:
        (whole.values,) = others
    elif call.op in SCALES:
        whole.factor *= _factor(call, region)
    elif call.op == "relax.add":
        (term,) = others
        place = term.place.broadcast(call.result.shape)
        whole.terms.append(replace(term, place=place))


def _factor(call: Call, region: Region) -> float:
    """The number that one of `SCALES` multiplies with."""
    numbers = [literal(call, name) for name in ("x1", "x2")]
    numbers += [float(region.constants[o.index].reshape(-1)[0]) for o in call.operands[1:]
                if isinstance(o, Tensor) and o.source == "constant"]  # fmt: skip
    (number,) = (n for n in numbers if n is not None)
    return 1.0 / number if call.op == "relax.divide" else number


def placed(whole: Attention, region: Region) -> PlacedAttention | None:
    """Where the tensors of a region lie; None if one must be copied first."""
    assert whole.values is not None
    result: Strided | None = Strided.plain(region.result.shape)
    for call in reversed(whole.moves):
        (operand,) = call.operands
        assert isinstance(operand, Tensor) and result is not None
        result = unmoved(result, call.op, call.attrs, operand.shape)
        if result is None:
            return None
    assert result is not None
    queries, keys = (p.broadcast((*whole.scores[:-2], *p.shape[-2:]))
                     for p in (whole.queries.place, whole.keys.place))  # fmt: skip
    value = whole.values.place
    value = value.broadcast((*result.shape[:-2], *value.shape[-2:]))
    places = (queries, keys, value, result, *(t.place for t in whole.terms))
    common = common_steps([batch(p) for p in places])
    if common is None or any(p.step(k) is None for p in places for k in (-2, -1)):
        return None
    return PlacedAttention(places, *common)


def batch(place: Strided) -> tuple[Digit, ...]:
    """The digits of all axes but the last two."""
    return tuple(digit for axis in place.axes[:-2] for digit in axis)


def last_two(place: Strided) -> tuple[Extent, Extent]:
    """The steps of the last two axes of a placed tensor."""
    rows, columns = place.step(-2), place.step(-1)
    assert rows is not None and columns is not None
    return rows, columns
