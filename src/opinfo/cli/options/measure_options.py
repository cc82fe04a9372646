"""Options about measurements: ``--tune --database times.json``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..run.exit_status import UserError
from .shared_options import positive

if TYPE_CHECKING:
    from ...byoc.measure import Measure, Tracker
    from ...byoc.measure.measure import Progress

_option = partial(typer.Option, rich_help_panel="Measured costs")

#: Seconds that measuring candidates on a GPU may take, unless the caller says another number.
ON_GPU = 180.0


@dataclass(frozen=True, kw_only=True)
class MeasureOptions:
    """Values as on the command line: ``tracker`` HOST:PORT/KEY, ``extents`` NAME=1,16."""

    tune: Annotated[bool, _option("--tune", help="Choose backends by measured times.")] = False
    database: Annotated[
        Path | None,
        _option(metavar="FILE", help="With --tune: a file that stores measured times."),
    ] = None
    tracker: Annotated[
        str | None,
        _option(
            metavar="TRACKER",
            help="With --tune: an RPC tracker, HOST:PORT/KEY; default: local servers.",
        ),
    ] = None
    servers: Annotated[
        int | None,
        _option(metavar="N", min=1, max=1024, help="With --tune: number of local servers."),
    ] = None
    threads: Annotated[
        int,
        _option(metavar="N", min=1, max=1024, help="With --tune: threads of each local server."),
    ] = 1
    timeout: Annotated[
        float,
        _option(
            metavar="SECONDS",
            callback=positive,
            help="With --tune: time limit of a candidate in seconds.",
        ),
    ] = 60.0
    seconds: Annotated[
        float | None,
        _option(
            metavar="SECONDS",
            callback=positive,
            help="With --tune: seconds that measuring may take; default: 180 on a GPU, else all.",
        ),
    ] = None
    extents: Annotated[
        list[str] | None,
        _option(
            "--extent",
            metavar="DIM=VALUES",
            help="With --tune: likely values of a dimension: n=1,16.",
        ),
    ] = None

    def check(self) -> None:
        """Raise `UserError` for options without ``--tune``."""
        options = {"--database": self.database, "--tracker": self.tracker,
                   "--servers": self.servers, "--seconds": self.seconds,
                   "--extent": self.extents}  # fmt: skip
        for option, value in options.items():
            if value is not None and not self.tune:
                raise UserError(f"{option} requires --tune")

    def measure(self, target: str, progress: Progress) -> Measure:
        """Return the measurement settings; raises ``ValueError`` for an invalid option."""
        from ...byoc.measure import Measure

        how = Measure(
            self.database,
            parse_tracker(self.tracker),
            self.servers,
            self.threads,
            self.timeout,
            extents=parse_extents(self.extents or ()),
            target=target,
            progress=progress,
            seconds=self.seconds,
        )
        return replace(how, seconds=ON_GPU) if self.seconds is None and how.on_gpu else how


def parse_tracker(text: str | None) -> Tracker | None:
    """Parse ``host:9190/key``."""
    from ...byoc.measure import Tracker

    if text is None:
        return None
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
