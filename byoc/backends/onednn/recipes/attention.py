"""Attention: softmax(q k + terms) v, with the axes of all tensors read where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ....backend.region import Call, Region, Tensor
from ...common.moved_axes import Digit, Strided, common_steps
from ...common.region_source import literal
from .recipe import NotInPlace, Recipe
from .source import OneDnnFunction

MATMUL, SOFTMAX = "relax.matmul", "relax.nn.softmax"
#: Operators whose result is their operand in other axes.
MOVES = ("relax.reshape", "relax.permute_dims", "relax.astype")
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
    scores: tuple[int, ...]
    factor: float = 1.0
    terms: list[Source] = field(default_factory=list)
    values: Source | None = None
    moves: list[Call] = field(default_factory=list)


def moved(place: Strided, op: str, attrs: Any, shape: Sequence[int]) -> Strided | None:
    """The operand of one of `MOVES` as its result of this shape; None if that takes a copy."""
    match op:
        case "relax.permute_dims":
            axes = attrs["axes"]
            rank = len(place.axes)
            order = range(rank)[::-1] if axes is None else [int(a) % rank for a in axes]
            return place.permuted(order)
        case "relax.reshape":
            return place.reshaped(shape)
    return place


def unmoved(place: Strided, op: str, attrs: Any, shape: Sequence[int]) -> Strided | None:
    """The result of one of `MOVES` as its operand of this shape; None if that takes a copy."""
    if op != "relax.permute_dims":
        return moved(place, op, attrs, shape)
    axes, rank = attrs["axes"], len(place.axes)
    order = range(rank)[::-1] if axes is None else [int(a) % rank for a in axes]
    return place.permuted([list(order).index(k) for k in range(rank)])


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
    """An operand of a product after one of `MOVES` or `SCALES`."""
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


def attention(frame: OneDnnFunction) -> Recipe:
    """The recipe of a match; ``numbers`` are described where C++ reads them.

    Raises:
        NotInPlace: A tensor cannot be read where it lies.
    """
    whole = traced(frame.region)
    numbers = None if whole is None else _numbers(whole, frame.region)
    if whole is None or numbers is None or whole.values is None:
        raise NotInPlace("the axes of a tensor are divided in a way that takes a copy")
    factor = whole.factor * whole.queries.factor * whole.keys.factor
    if factor != 1:
        frame.rounds.append("the factors of scores are multiplied into the queries")
    recipe = Recipe("attention").views(
        queries=frame.of(whole.queries.tensor), keys=frame.of(whole.keys.tensor),
        values=frame.of(whole.values.tensor), dst=frame.out)  # fmt: skip
    for term in whole.terms:
        recipe.view("term", frame.of(term.tensor))
    return recipe.parameters(factor, whole.values.factor).numbers(numbers)


def _numbers(whole: Attention, region: Region) -> list[int] | None:
    assert whole.values is not None
    batch, (rows, keys) = whole.scores[:-2], whole.scores[-2:]
    depth, columns = whole.queries.place.shape[-1], whole.values.place.shape[-1]
    result: Strided | None = Strided.plain(region.result.shape)
    for call in reversed(whole.moves):
        (operand,) = call.operands
        assert isinstance(operand, Tensor) and result is not None
        result = unmoved(result, call.op, call.attrs, operand.shape)
        if result is None:
            return None
    assert result is not None
    given = [p.broadcast((*batch, *p.shape[-2:])) for p in (whole.queries.place, whole.keys.place)]
    value = whole.values.place
    value = value.broadcast((*result.shape[:-2], *value.shape[-2:]))
    places = [*given, value, result, *(t.place for t in whole.terms)]
    steps = [[p.step(-2), p.step(-1)] for p in places]
    common = common_steps([_batch(p) for p in places])
    each = [s[1] for s in steps[4:]]  # a term has an element for each key, or one for all
    if common is None or any(None in s for s in steps) or not {0, 1}.issuperset(each):
        return None
    extents, along = common
    out = [len(extents), *extents, rows, keys, depth, columns]
    for axes, own in zip(along, steps, strict=True):
        out += [*axes, *(s for s in own if s is not None)]
    return out


def _batch(place: Strided) -> tuple[Digit, ...]:
    """The digits of all axes but the last two."""
    return tuple(digit for axis in place.axes[:-2] for digit in axis)
