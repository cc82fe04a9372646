"""A point at which a claim about a map does not hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Point = tuple[int, ...]


@dataclass(frozen=True)
class Counterexample:
    """``collision``: two points with one image; ``out_of_range``: a point whose image lies outside
    the output box; ``different``: a point at which two maps differ, with both images.

    ``sizes`` are the values of the symbolic extents.
    """

    kind: Literal["collision", "out_of_range", "different"]
    points: tuple[Point, ...]
    images: tuple[Point, ...]
    sizes: tuple[tuple[str, int], ...] = ()
