"""Options about measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...byoc.measure import Measure, Tracker
from ...byoc.measure.measure import Progress

#: Seconds that measuring candidates on a GPU may take, unless the caller says another number.
ON_GPU = 180.0


@dataclass(frozen=True)
class MeasureOptions:
    """Values as on the command line: ``tracker`` HOST:PORT/KEY, ``extents`` NAME=1,16."""

    database: Path | None
    tracker: str | None
    servers: int | None
    threads: int
    timeout: float
    extents: Sequence[str]
    seconds: float | None = None

    def measure(self, target: str, progress: Progress) -> Measure:
        """Return the measurement settings; raises ``ValueError`` for an invalid option."""
        how = Measure(
            self.database,
            None if self.tracker is None else parse_tracker(self.tracker),
            self.servers,
            self.threads,
            self.timeout,
            extents=parse_extents(self.extents),
            target=target,
            progress=progress,
            seconds=self.seconds,
        )
        return replace(how, seconds=ON_GPU) if self.seconds is None and how.on_gpu else how


def parse_tracker(text: str) -> Tracker:
    """Parse ``host:9190/key``."""
    address, _, key = text.partition("/")
    host, _, port = address.rpartition(":")
    if not (host and port.isdigit() and key):
        raise ValueError(f"--tracker {text}: expected HOST:PORT/KEY")
    return Tracker(host, int(port), key)


def parse_extents(texts: Sequence[str]) -> dict[str, list[int]]:
    """Parse several ``n=1,16``; raises ``ValueError`` for a repeated name."""
    extents: dict[str, list[int]] = {}
    for name, values in map(parse_extent, texts):
        if name in extents:
            both = (",".join(map(str, v)) for v in (extents[name], values))
            raise ValueError(f"--extent {name}: expected once, got {' and '.join(both)}")
        extents[name] = values
    return extents


def parse_extent(text: str) -> tuple[str, list[int]]:
    """Parse ``n=1,16``."""
    name, _, values = text.partition("=")
    if not name or not all(v.isdigit() for v in values.split(",")):
        raise ValueError(f"--extent {text}: expected NAME=NUMBER,NUMBER")
    return name, list(map(int, values.split(",")))
