"""Attention as a recipe: loops of our own that read and write all tensors where they lie."""

from __future__ import annotations

from ....backend.region import Region
from ...common.attention_region import Attention, last_two, placed, traced
from .recipe import NotInPlace, Recipe
from .source import OneDnnFunction


def attention(frame: OneDnnFunction) -> Recipe:
    """The recipe of a match; ``numbers`` are described where C++ reads them.

    Raises:
        NotInPlace: A tensor cannot be read where it lies.
    """
    whole = traced(frame.region)
    numbers = None if whole is None else _numbers(whole, frame.region)
    if whole is None or numbers is None or whole.values is None:
        raise NotInPlace("the axes of a tensor are divided in a way that takes a copy")
    if whole.scale != 1:
        frame.rounds.append("the factors of scores are multiplied into the queries")
    recipe = Recipe("attention").views(
        queries=frame.of(whole.queries.tensor), keys=frame.of(whole.keys.tensor),
        values=frame.of(whole.values.tensor), dst=frame.out)  # fmt: skip
    for term in whole.terms:
        recipe.view("term", frame.of(term.tensor))
    return recipe.parameters(whole.scale, whole.values.factor).numbers(numbers)


def _numbers(whole: Attention, region: Region) -> list[int] | None:
    placement = placed(whole, region)
    if placement is None or any(place.offset for place in placement.places):
        return None
    steps = [last_two(place) for place in placement.places]
    each = [columns for _, columns in steps[4:]]
    if not {0, 1}.issuperset(each):  # a term has an element for each key, or one for all
        return None
    rows, keys = whole.scores[-2:]
    depth, columns = placement.places[0].shape[-1], placement.places[2].shape[-1]
    out = [len(placement.extents), *placement.extents, rows, keys, depth, columns]
    for axes, own in zip(placement.along, steps, strict=True):
        out += [*axes, *own]
    return out
