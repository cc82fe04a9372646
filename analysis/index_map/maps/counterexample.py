"""A point at which a claim about a map does not hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Point = tuple[int, ...]


@dataclass(frozen=True)
class Counterexample:
    """A point that refutes a claim about a map; ``sizes`` has the values of symbolic extents.

    ``collision``: two points with the same image. ``out_of_range``: a point whose image is outside
    the output box. ``different``: a point where two maps differ, with both images.
    """

    kind: Literal["collision", "out_of_range", "different"]
    points: tuple[Point, ...]
    images: tuple[Point, ...]
    sizes: tuple[tuple[str, int], ...] = ()
