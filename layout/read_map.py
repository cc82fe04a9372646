"""Index maps as layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..analysis.index_map.convert import MapLike, Unsupported, convert
from .align import pieces
from .layout import Digit, Layout


def layout_of(index_map: MapLike, shape: Sequence[Any], pad_value: float | None = 0) -> Layout:
    """The layout that an injective index map is over a value of this shape.

    Raises ``ValueError`` for maps whose results are not numbers made of digits of the axes, such as
    rotations and reversals, and for those that are not injective.
    """
    try:
        found = convert(index_map, shape)
    except Unsupported as e:
        raise ValueError(f"the index map {index_map} is not understood: {e}") from None
    single = [k for k, e in enumerate(found.extents) if e.const == 1]
    dims: list[tuple[Digit, ...]] = []
    for result in found.results:
        parts = pieces(result, 0, found.axes, frozenset())
        if result.const == 0 and single:
            dims.append((Digit(single.pop(0)),))
        elif not parts or any(not p.exact or p.shift for p in parts):
            raise ValueError(f"{result} is no digit of the axes in {found.source}")
        else:
            dims.append(tuple(p.loop for p in parts))
    made = Layout(tuple(dims), pad_value)
    if made.rank != len(found.extents):
        raise ValueError(f"{found.source} is not injective: it leaves out an axis")
    return made
