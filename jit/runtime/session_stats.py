"""Statistics of a session: calls, kernels and events, by call site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from .session_events import Event


@dataclass(frozen=True)
class SiteStats:
    """The calls of one site.

    Attributes:
        site: The call site.
        caller: The Relax function that contains it.
        hits: Calls served by specialised kernels.
        misses: Calls served by the generic kernel.
        kernels: Loaded specialised kernels.
        failed_calls: Calls that failed in a specialised kernel and were served by the generic one.
        shapes: Calls by shape.
    """

    site: str
    caller: str
    hits: int
    misses: int
    kernels: int
    failed_calls: int
    shapes: Mapping[tuple[int, ...], int]

    @property
    def hit_rate(self) -> float:
        """The share of calls served by specialised kernels; 0 if there were no calls."""
        calls = self.hits + self.misses
        return self.hits / calls if calls else 0.0


@dataclass(frozen=True)
class Stats:
    """The statistics of a session.

    Attributes:
        sites: The calls of each site.
        events: The events of each shape.
        kernels: Loaded specialised kernels.
        bytes: Memory of these kernels in bytes.
    """

    sites: tuple[SiteStats, ...]
    events: tuple[Event, ...]
    kernels: int
    bytes: int

    @property
    def hit_rate(self) -> float:
        hits, misses = (sum(getattr(s, k) for s in self.sites) for k in ("hits", "misses"))
        return hits / (hits + misses) if hits + misses else 0.0

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of events of each kind."""
        return Counter(e.what for e in self.events)

    def __str__(self) -> str:
        if not self.sites:
            return ("calls are not counted: the library has no function compiled with jit or "
                    "record; kernels of aot are chosen inside the library")  # fmt: skip
        counts = ", ".join(f"{n} {what}" for what, n in sorted(self.counts.items()))
        calls = sum(s.hits + s.misses for s in self.sites)
        parts = (f"{self.hit_rate:.1%} of {calls} calls by specialised kernels",
                 f"{self.kernels} kernels, {self.bytes >> 10} KiB", counts)  # fmt: skip
        return "; ".join(filter(None, parts))
