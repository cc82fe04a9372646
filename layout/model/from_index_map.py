"""Index maps as digits of coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...analysis.index_map.maps.to_terms import MapLike, Unsupported, convert
from .align import pieces
from .digit import Digit


def digits_of(index_map: MapLike, shape: Sequence[Any]) -> tuple[tuple[Digit, ...], ...]:
    """The digits of each result of an index map over a value of this shape.

    Raises:
        ValueError: The map is not injective, or a result does not consist of digits of the axes,
            as in rotations and reversals.
    """
    try:
        map_terms = convert(index_map, shape)
    except Unsupported as error:
        raise ValueError(f"index map {index_map}: not supported: {error}") from None
    single = [k for k, e in enumerate(map_terms.extents) if e.const == 1]
    dims: list[tuple[Digit, ...]] = []
    for result in map_terms.results:
        parts = pieces(result, 0, map_terms.axes, frozenset())
        if result.const == 0 and single:
            dims.append((Digit(single.pop(0)),))
        elif not parts or any(not p.exact or p.shift for p in parts):
            raise ValueError(
                f"index map {map_terms.source}: {result} does not consist of digits of the axes"
            )
        else:
            dims.append(tuple(p.loop for p in parts))
    if {d.axis for parts in dims for d in parts} != set(range(len(map_terms.extents))):
        raise ValueError(f"index map {map_terms.source}: not injective, it leaves out an axis")
    return tuple(dims)
