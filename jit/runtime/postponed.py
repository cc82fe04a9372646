"""Shapes whose compilation something else interrupted, until they are tried again."""

from __future__ import annotations

import heapq
import itertools
import time
from collections import Counter
from dataclasses import dataclass, field

from .library import LoadedSite

#: Seconds until what was interrupted is tried again, the first times and from then on.
RETRIES, RARELY = (0.5, 1.0, 2.0, 4.0), 600.0
Shape = tuple[int, ...]


@dataclass(order=True)
class _Due:
    when: float
    number: int
    site: LoadedSite = field(compare=False)
    shape: Shape = field(compare=False)
    rarely: bool = field(compare=False)


class Postponed:
    """A queue by time. Nothing in it is given up: after `RETRIES` it is tried `RARELY`."""

    def __init__(self) -> None:
        self._heap: list[_Due] = []
        self._times: Counter[tuple[str, Shape]] = Counter()
        self._numbers = itertools.count()

    def wait(self, site: LoadedSite, shape: Shape, seconds: float, soon: bool) -> None:
        """For what no shape has a part in; ``soon``: somebody waits for it."""
        due = _Due(time.monotonic() + seconds, next(self._numbers), site, shape, not soon)
        heapq.heappush(self._heap, due)

    def add(self, function: str, site: LoadedSite, shape: Shape) -> tuple[float, bool]:
        """In how many seconds the shape is tried again, and whether that is `RARELY`."""
        self._times[function, shape] += 1
        times = self._times[function, shape]
        rarely = times > len(RETRIES)
        seconds = RARELY if rarely else RETRIES[times - 1]
        self.wait(site, shape, seconds, not rarely)
        return seconds, rarely

    def pop(self) -> tuple[LoadedSite, Shape] | None:
        """What is due."""
        if not self._heap or self._heap[0].when > time.monotonic():
            return None
        due = heapq.heappop(self._heap)
        return due.site, due.shape

    @property
    def is_awaited(self) -> bool:
        """Whether something is tried again soon."""
        return not all(due.rarely for due in self._heap)
