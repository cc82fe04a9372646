"""The queue of shapes whose compilation was interrupted and is retried."""

from __future__ import annotations

import heapq
import itertools
import time
from collections import Counter
from dataclasses import dataclass, field

from .library import LoadedSite

#: Seconds before the first retries, and before each later one.
RETRIES, RARELY = (0.5, 1.0, 2.0, 4.0), 600.0
Shape = tuple[int, ...]


@dataclass(order=True)
class _Due:
    """A shape, and when it is retried."""

    when: float
    number: int
    site: LoadedSite = field(compare=False)
    shape: Shape = field(compare=False)
    rarely: bool = field(compare=False)


class RetryQueue:
    """A queue by time. No shape is given up: after `RETRIES` it is retried `RARELY`."""

    def __init__(self) -> None:
        self._heap: list[_Due] = []
        self._times: Counter[tuple[str, Shape]] = Counter()
        self._numbers = itertools.count()

    def wait(self, site: LoadedSite, shape: Shape, seconds: float, soon: bool) -> None:
        """Retry a shape after ``seconds``; ``soon`` says that `is_awaited` counts it."""
        due = _Due(time.monotonic() + seconds, next(self._numbers), site, shape, not soon)
        heapq.heappush(self._heap, due)

    def add(self, function: str, site: LoadedSite, shape: Shape) -> tuple[float, bool]:
        """Schedule the next retry of a shape; return its delay and whether that is `RARELY`."""
        self._times[function, shape] += 1
        times = self._times[function, shape]
        rarely = times > len(RETRIES)
        seconds = RARELY if rarely else RETRIES[times - 1]
        self.wait(site, shape, seconds, not rarely)
        return seconds, rarely

    def pop(self) -> tuple[LoadedSite, Shape] | None:
        """Return the next shape that is due, or None."""
        if not self._heap or self._heap[0].when > time.monotonic():
            return None
        due = heapq.heappop(self._heap)
        return due.site, due.shape

    def awaited(self) -> list[tuple[LoadedSite, Shape]]:
        """Return the shapes that are retried soon."""
        return [(due.site, due.shape) for due in tuple(self._heap) if not due.rarely]

    @property
    def is_awaited(self) -> bool:
        """Whether a retry is due soon."""
        return not all(due.rarely for due in self._heap)
