"""Tune kernels: search for schedules of recorded shapes, and keep them in a database.

    Recording ─tasks▶ static PrimFuncs with their calls ─tune▶ JSONDatabase
    next compile: static PrimFunc ─tuned▶ the fastest schedule, or None

meta_schedule cannot search for symbolic PrimFuncs, so their shapes are bound. Each candidate is
built in a separate process, compared with the unscheduled PrimFunc, and timed through an RPC
tracker.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tvm
from tvm import tirx

from ...analysis.support.warn import warn
from ...analysis.support.wording import last_line
from ...byoc.dims.symbolic_dims import bind
from ...byoc.measure import Excluded, Measure, Measured, MeasureError
from ...byoc.schedule import Refusal, Scheduled, schedule
from .record import Recording, Shape
from .schedule_database import (
    RECORDS,
    WORKLOADS,
    OpenDatabase,
    Searched,
    TuneError,
    isolated,
    read,
    searchable,
    tuned,
)
from .schedule_search import buffers, search
from .timing import KernelBench

Progress = Callable[[int, int, str], None]
"""Called with the finished trials, the total, and the shape of the last trial."""


@dataclass(frozen=True, eq=False)
class Task:
    """A static PrimFunc and the number of its calls."""

    shape: Shape
    func: Any
    calls: int


@dataclass(frozen=True)
class TuneResult:
    """The result of a task.

    Attributes:
        shape: The shape.
        calls: How often it occurred.
        trials: Trials in the database.
        new: Trials in this run.
        microseconds: The best time; None if no trial succeeded.
        structure: The time of the rule's schedule, which is used if it is faster.
        failed: Why trials failed.
    """

    shape: Shape
    calls: int
    trials: int
    new: int
    microseconds: float | None
    structure: float | None
    failed: tuple[str, ...] = field(default=(), repr=False)


def tasks(recording: Recording) -> list[Task]:
    """Return the shapes of a recording as tasks, most frequent first.

    Call sites of the same function and shape form one task. A shape that cannot be bound, or whose
    function was not recorded, is skipped with a warning.

    Raises:
        RecordError: A function cannot be read.
    """
    functions = recording.prim_funcs()
    merged: dict[tuple[str, tuple[tuple[str, int], ...]], tuple[Shape, int]] = {}
    for shape, calls in recording.top():
        first, before = merged.get((shape.function, shape.values), (shape, 0))
        merged[shape.function, shape.values] = first, before + calls
    out = []
    for shape, calls in merged.values():
        try:
            func = functions[shape.function]
            if not all(map(tirx.is_buffer_var, func.params)):
                raise ValueError("its dimensions are passed as scalars")
            out.append(Task(shape, bind(func, dict(shape.values)), calls))
        except KeyError:
            warn(f"{shape} is not tuned: its function was not recorded")
        except ValueError as error:
            warn(f"{shape} is not tuned: {error}")
    return sorted(out, key=lambda task: -task.calls)


def tune(
    todo: Sequence[Task],
    database: str | Path,
    how: Measure | None = None,
    *,
    trials: int = 64,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> list[TuneResult]:
    """Search for schedules of each task, up to ``trials`` in the database.

    Args:
        todo: The tasks.
        database: The folder of the database.
        how: How to measure.
        trials: Trials of each task, including those already in the database.
        seconds: Time limit; when it has passed, no new batch begins. Results are kept.
        progress: Called after each batch.

    Raises:
        TuneError: The database cannot be used.
        MeasureError: Nothing can be measured.
        ValueError: A number is not positive.
    """
    for name, number in (("trials", trials), ("seconds", seconds)):
        if number is not None and not number > 0:
            raise ValueError(f"tune: {name} must be positive, got {number!r}")
    how = how or Measure()
    end = float("inf") if seconds is None else time.monotonic() + seconds
    target = searchable(how.target, how.threads)
    with _locked(Path(database)) as folder:
        schedules = OpenDatabase(folder, exclusive=True)
        missing = [max(0, trials - schedules.trials(t.func, target)) for t in todo]
        shown = _Shown(progress, sum(missing))
        if not any(missing):
            return [_task_result(schedules, t, target, 0, ()) for t in todo]
        with KernelBench(how) as bench:
            run = _TrialRunner(schedules, bench, target, trials, end, shown)
            return [run(t, count) for t, count in zip(todo, missing, strict=True)]


class _TrialRunner:
    """Runs trials of tasks, and adds them to the database."""

    def __init__(
        self,
        schedules: OpenDatabase,
        bench: KernelBench,
        target: Any,
        trials: int,
        end: float,
        shown: _Shown,
    ) -> None:
        self.schedules, self.bench, self.target = schedules, bench, target
        self.trials, self.end, self.shown = trials, end, shown

    def __call__(self, task: Task, count: int) -> TuneResult:
        """Run ``count`` more trials of a task."""
        results: list[Measured | Excluded] = []
        why: list[str] = []
        if count and time.monotonic() < self.end:
            try:
                self.run(task, count, results)
            except MeasureError:
                raise
            except Exception as error:  # meta_schedule does not support every function
                why = [f"the search failed: {last_line(error)}"]
        self.shown.finished += count
        failed = [r.reason for r in results if isinstance(r, Excluded)]
        return _task_result(self.schedules, task, self.target, len(results), (*why, *failed))

    def run(self, task: Task, count: int, results: list[Measured | Excluded]) -> None:
        """Search, appending to ``results`` batch by batch."""
        func = isolated(task.func)
        case = self.bench.case(tvm.IRModule({"main": func}), buffers(func))
        if isinstance(case, Excluded):
            raise RuntimeError(case.reason)

        def measure(mods: Sequence[Any]) -> list[Measured | Excluded]:
            return self.bench.measure(mods, self.target, case)

        for batch in search(func, self.target, self.schedules.database, measure, count, self.end):
            results += batch
            self.shown.tell(len(results), str(task.shape))
        if self.schedules.best(func, self.target) is not None:
            # There may be fewer candidates than trials.
            trials = self.trials if time.monotonic() < self.end else 0
            self.schedules.mark(func, self.target, Searched(trials, *self.compared(func, case)))

    def compared(self, func: Any, case: Path) -> tuple[float | None, float | None]:
        """Return microseconds of the best candidate and of the rule's schedule."""
        candidates = [tuned(self.schedules, func, self.target), schedule(func, self.target)]
        funcs = [f.func if isinstance(f, Scheduled) else f for f in candidates]
        mods = [tvm.IRModule({"main": f}) for f in funcs if not isinstance(f, Refusal)]
        times = [r.microseconds if isinstance(r, Measured) else None
                 for r in self.bench.in_turns(mods, self.target, case)]  # fmt: skip
        return times[0], times[1] if len(times) > 1 else None


@dataclass
class _Shown:
    """The progress over all tasks."""

    progress: Progress | None
    total: int
    finished: int = 0

    def tell(self, more: int, name: str) -> None:
        if self.progress is not None:
            self.progress(self.finished + more, self.total, name)


@contextmanager
def _locked(folder: Path) -> Iterator[Path]:
    """Lock a database for writing, and repair what a killed writer left."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise TuneError(f"{folder}: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise TuneError(
                f"another process is tuning into {folder}: wait, or use another folder"
            ) from None
        for name in (WORKLOADS, RECORDS):
            _repair(folder / name)
        yield folder


def _repair(path: Path) -> None:
    """Remove an incomplete last line."""
    raw = read(path)
    if raw and not raw.endswith(b"\n"):
        warn(f"{path}: the incomplete last line was removed")
        path.write_bytes(raw[: raw.rfind(b"\n") + 1])
    elif not path.exists():
        path.touch()


def _task_result(
    schedules: OpenDatabase, task: Task, target: Any, new: int, failed: tuple[str, ...]
) -> TuneResult:
    count = len(schedules.records(task.func, target))
    searched = schedules.searched_for(task.func, target)
    return TuneResult(
        task.shape, task.calls, count, new, searched.microseconds, searched.structure, failed
    )
