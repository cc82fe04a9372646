"""Schedules found by search for the shapes that came in, kept in a database of meta_schedule.

    Recording ─tasks▶ PrimFuncs with their shapes bound, and calls of each ─tune▶ JSONDatabase
    next compile: PrimFunc with its shape bound ─tuned▶ the fastest that was found, or None

Symbolic PrimFuncs cannot be searched for; those with a bound shape are. Each candidate is built
apart, must compute what the unscheduled PrimFunc does, and is timed through an RPC tracker.
"""

from __future__ import annotations

import fcntl
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tvm
from tvm import tirx

from ...byoc.measure import Excluded, Measure, Measured, MeasureError
from ...byoc.patterns.failure import last_line
from ..dims.symbolic_dims import bind
from ..schedule import Refusal, Scheduled, schedule
from .record import Recording, Shape
from .schedule_database import (
    RECORDS,
    WORKLOADS,
    OpenDatabase,
    Searched,
    TuneError,
    alone,
    read,
    searchable,
    tuned,
)
from .schedule_search import buffers, search
from .timing import KernelBench

Progress = Callable[[int, int, str], None]
"""Of how many trials, how many are done, and of which shape the last one was."""


@dataclass(frozen=True, eq=False)
class Task:
    """A PrimFunc with a bound shape, and how often it was called."""

    shape: Shape
    func: Any
    calls: int


@dataclass(frozen=True)
class Found:
    """What became of a task: how many trials there are of it, the best time, what failed.

    ``structure``: the time of the schedule by structure, which is used where it is the faster one.
    """

    shape: Shape
    calls: int
    trials: int
    new: int
    microseconds: float | None
    structure: float | None
    failed: tuple[str, ...] = field(default=(), repr=False)


def tasks(recording: Recording) -> list[Task]:
    """The shapes of a recording, the most frequent first.

    Sites that call the same function with the same shape are one task. What cannot be bound, or is
    of a function that was not recorded, is told in a warning. Raises `RecordError` where a
    function cannot be read.
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
                raise ValueError("dimensions are passed to it as numbers")
            out.append(Task(shape, bind(func, dict(shape.values)), calls))
        except KeyError:
            warnings.warn(f"{shape} is not tuned: its function was not recorded", stacklevel=2)
        except ValueError as e:
            warnings.warn(f"{shape} is not tuned: {e}", stacklevel=2)
    return sorted(out, key=lambda t: -t.calls)


def tune(
    todo: Sequence[Task],
    database: str | Path,
    how: Measure | None = None,
    *,
    trials: int = 64,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> list[Found]:
    """Search for ``trials`` candidates of each task; what has as many in the database is skipped.

    ``seconds``: when they have passed, no more candidates are drawn; what was found is kept.
    Raises `TuneError` where the database cannot be used, ``MeasureError`` where nothing can
    be measured, ``ValueError`` for a number that is not positive.
    """
    for name, number in (("trials", trials), ("seconds", seconds)):
        if number is not None and not number > 0:
            raise ValueError(f"tune: {name} must be positive, got {number!r}")
    how = how or Measure()
    end = float("inf") if seconds is None else time.monotonic() + seconds
    target = searchable(how.target, how.threads)
    with _alone(Path(database)) as folder:
        known = OpenDatabase(folder, mine=True)
        missing = [max(0, trials - known.trials(t.func, target)) for t in todo]
        shown = _Shown(progress, sum(missing))
        if not any(missing):
            return [_found(known, t, target, 0, ()) for t in todo]
        with KernelBench(how) as bench:
            run = _Search(known, bench, target, trials, end, shown)
            return [run(t, count) for t, count in zip(todo, missing, strict=True)]


class _Search:
    def __init__(
        self,
        known: OpenDatabase,
        bench: KernelBench,
        target: Any,
        trials: int,
        end: float,
        shown: _Shown,
    ) -> None:
        self.known, self.bench, self.target = known, bench, target
        self.trials, self.end, self.shown = trials, end, shown

    def __call__(self, t: Task, count: int) -> Found:
        """``count`` more trials."""
        results: list[Measured | Excluded] = []
        why: list[str] = []
        if count and time.monotonic() < self.end:
            try:
                self.run(t, count, results)
            except MeasureError:
                raise
            except Exception as e:  # TVM's search, of a function that it is not made for
                why = [f"it cannot be searched for: {last_line(e)}"]
        self.shown.done += count
        failed = [r.reason for r in results if isinstance(r, Excluded)]
        return _found(self.known, t, self.target, len(results), (*why, *failed))

    def run(self, t: Task, count: int, results: list[Measured | Excluded]) -> None:
        """Adds to ``results`` as they come."""
        func = alone(t.func)
        case = self.bench.case(tvm.IRModule({"main": func}), buffers(func))
        if isinstance(case, Excluded):
            raise RuntimeError(case.reason)

        def measure(mods: Sequence[Any]) -> list[Measured | Excluded]:
            return self.bench.measure(mods, self.target, case)

        for found in search(func, self.target, self.known.database, measure, count, self.end):
            results += found
            self.shown.tell(len(results), str(t.shape))
        if self.known.best(func, self.target) is not None:
            # There may be fewer candidates than trials.
            done = self.trials if time.monotonic() < self.end else 0
            self.known.mark(func, self.target, Searched(done, *self.compared(func, case)))

    def compared(self, func: Any, case: Path) -> tuple[float | None, float | None]:
        """Microseconds of the best that was found, and of the schedule by structure."""
        made = [tuned(self.known, func, self.target), schedule(func, self.target)]
        funcs = [f.func if isinstance(f, Scheduled) else f for f in made]
        mods = [tvm.IRModule({"main": f}) for f in funcs if not isinstance(f, Refusal)]
        times = [r.microseconds if isinstance(r, Measured) else None
                 for r in self.bench.in_turns(mods, self.target, case)]  # fmt: skip
        return times[0], times[1] if len(times) > 1 else None


@dataclass
class _Shown:
    progress: Progress | None
    total: int
    done: int = 0

    def tell(self, more: int, name: str) -> None:
        if self.progress is not None:
            self.progress(self.done + more, self.total, name)


@contextmanager
def _alone(folder: Path) -> Iterator[Path]:
    """One process at a time writes a database; what a killed one left is mended."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as e:
        raise TuneError(f"{folder}: {e.strerror}") from e
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise TuneError(f"another process tunes into {folder}") from None
        for name in (WORKLOADS, RECORDS):
            _mend(folder / name)
        yield folder


def _mend(path: Path) -> None:
    """Every line is whole: the last one may be torn."""
    raw = read(path)
    if raw and not raw.endswith(b"\n"):
        warnings.warn(f"{path}: its last line is torn, and removed", stacklevel=4)
        path.write_bytes(raw[: raw.rfind(b"\n") + 1])
    elif not path.exists():
        path.touch()


def _found(known: OpenDatabase, t: Task, target: Any, new: int, failed: tuple[str, ...]) -> Found:
    count = len(known.records(t.func, target))
    done = known.searched_for(t.func, target)
    return Found(t.shape, t.calls, count, new, done.microseconds, done.structure, failed)
