"""`opinfo.tune`: schedules for the shapes that came in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..byoc.building.read_target import read_target
from ..byoc.codegen.host import native_target
from ..byoc.measure import Measure
from ..jit.tune.record import Recording
from ..jit.tune.tune import Found, Progress, tasks
from ..jit.tune.tune import tune as search


def tune(
    recording: Recording | str | Path,
    database: str | Path,
    *,
    trials: int = 64,
    top: int | None = None,
    seconds: float | None = None,
    target: Any = None,
    measure: Measure | None = None,
    progress: Progress | None = None,
) -> list[Found]:
    """Search for schedules of recorded shapes, the most frequent first.

    Args:
        recording: Of `opinfo.Session.recording`, or the path that it was saved to.
        database: A folder that keeps what is found; shapes that have as many trials in it are
            skipped. `opinfo.jit.Config` takes it as ``tuned``.
        trials: Candidates of each shape.
        top: Only so many of the most frequent shapes.
        seconds: After this time no more candidates are drawn.
        target: TVM's that the model is compiled for; by default the CPU that this runs on. With
            ``measure`` it is that of ``measure``.
        measure: How candidates are timed.
        progress: Called with how many trials are done, of how many, and of which shape.

    Returns:
        What was found for each shape.

    Raises:
        OSError, ValueError: The recording or the database cannot be used.
        MeasureError: Nothing can be measured.
    """
    known = recording if isinstance(recording, Recording) else Recording.load(recording)
    wanted = native_target() if target is None else read_target(target)
    how = measure or Measure(target=str(wanted))
    return search(tasks(known)[:top], database, how, trials=trials, seconds=seconds,
                  progress=progress)  # fmt: skip
