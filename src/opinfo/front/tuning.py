"""`opinfo.tune`: search for schedules of recorded shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..byoc.building.read_target import read_target
from ..byoc.codegen.host_target import native_target
from ..byoc.measure import Measure
from ..jit.tune.record import Recording
from ..jit.tune.tune import Progress, TuneResult, tasks
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
) -> list[TuneResult]:
    """Search for schedules of recorded shapes, most frequent first.

    Args:
        recording: A result of `opinfo.Session.recording`, or the path of a saved one.
        database: The folder of the tuning database; shapes with enough trials in it are skipped.
            `opinfo.jit.Config` takes it as ``tuned``.
        trials: Trials of each shape.
        top: Tune only this many shapes, the most frequent ones.
        seconds: Time limit of the search.
        target: TVM's target of the model; by default this CPU. With ``measure``, the target of
            ``measure``.
        measure: How to time candidates.
        progress: Called with the finished trials, the total, and the shape.

    Returns:
        The result for each shape.

    Raises:
        OSError, ValueError: The recording or the database cannot be used.
        MeasureError: Nothing can be measured.
    """
    recorded = recording if isinstance(recording, Recording) else Recording.load(recording)
    tvm_target = native_target() if target is None else read_target(target)
    how = measure or Measure(target=str(tvm_target))
    return search(tasks(recorded)[:top], database, how, trials=trials, seconds=seconds,
                  progress=progress)  # fmt: skip
