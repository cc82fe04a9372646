"""Run libraries in turns, in a process whose thread pools all have the same size.

Pools take their size from the environment when they are loaded, which the caller may have done long
ago. That process is `timing_process`.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from ..byoc.process.spawn import spawn
from ..byoc.process.temporary_folder import TemporaryFolder
from ..byoc.process.time_limit import TimeLimit
from ..byoc.process.without_torch import command
from . import timing_process
from .timing_process import CALLS, CPU, INPUTS
from .trial_values import TrialCall, layout_of, load, save, tensors_of

Array = np.ndarray[Any, Any]
#: The most seconds to load a library, of CPU time or of idling.
LOADING = 60.0


@dataclass(frozen=True)
class TrialRun:
    """Calls of one library.

    Attributes:
        times: Milliseconds of each call; empty if the first one raised an error.
        outputs: The arrays that the first call returned, in order.
        loaded: Whether the library could be loaded.
        error: Why it could not, as one line.
        further: The same for calls of other sizes, or of other functions.
    """

    times: tuple[float, ...]
    outputs: tuple[Array, ...]
    loaded: bool = True
    error: str = ""
    further: tuple[TrialRun, ...] = ()


class TrialProcess:
    """A process that runs libraries of one model; those that it has loaded are not loaded again."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._folder: TemporaryFolder | None = None
        self._job: tuple[int, str, list[Any], list[Array]] = 0, CPU, [], []
        self._places: dict[Path, int] = {}  # the libraries that it has, in the order of their files
        self._read = b""  # of its answers
        self._ready = False  # whether it has imported everything

    def __enter__(self) -> TrialProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(
        self, libraries: Sequence[Path], calls: Sequence[TrialCall], threads: int, device: str = CPU
    ) -> list[TrialRun]:
        """Make each call of each library in turns. Raises as `trial_runs` does.

        A process that has other calls or threads, or that failed, is replaced.
        """
        layout = layout_of(calls)
        values = [x.numpy() for call in calls for x in tensors_of(call.values)]
        *how, before = self._job
        same = [threads, device, layout] == how and len(values) == len(before) and all(
            map(np.array_equal, values, before))  # fmt: skip
        if self._child is None or not same:
            self.close()
            self._start(calls, layout, threads, device)
            self._job = threads, device, layout, values
        try:
            if not self._ready:
                self._ready = self._answer()
            loaded, times = self._asked(libraries)
        except BaseException:
            self.close()
            raise
        return [self._run(path, error, [by_call[k] for by_call in times])
                for k, (path, error) in enumerate(zip(libraries, loaded, strict=True))]  # fmt: skip

    def _run(self, path: Path, error: str, times: Sequence[Sequence[float]]) -> TrialRun:
        """Return the runs of a library from the times of each call."""
        assert self._folder is not None
        files = (self._folder.path / f"{self._places[path]}.{c}" for c in range(len(times)))
        first, *further = (
            TrialRun(tuple(ms), _outputs(file) if ms else (), not error, error)
            for file, ms in zip(files, times, strict=True)
        )
        return replace(first, further=tuple(further))

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            if self._child.poll() is None:
                os.killpg(self._child.pid, signal.SIGKILL)
                self._child.wait()
            for pipe in (self._child.stdin, self._child.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):  # what it has not read is lost
                        pipe.close()
        if self._folder is not None:
            self._folder.remove()
        self._child = self._folder = None

    def _start(
        self, calls: Sequence[TrialCall], layout: list[Any], threads: int, device: str
    ) -> None:
        self._folder = TemporaryFolder("opinfo-")
        tensors = [x for call in calls for x in tensors_of(call.values)]
        save(tensors, self._folder.path / INPUTS)
        (self._folder.path / CALLS).write_text(json.dumps(layout), encoding="utf-8")
        self._read, self._ready, self._places = b"", False, {}
        words = str(self._folder.path), str(threads), device
        self._child = spawn(command(timing_process.__name__, *words), threads)

    def _asked(self, libraries: Sequence[Path]) -> tuple[list[str], list[list[list[float]]]]:
        """Return why libraries could not be loaded, and by call milliseconds of each library."""
        child = self._child
        assert child is not None and child.stdin is not None and child.stdout is not None
        for path in libraries:
            self._places.setdefault(path, len(self._places))
        with contextlib.suppress(BrokenPipeError):  # it has ended, so it answers nothing
            child.stdin.write(json.dumps([str(path) for path in libraries]).encode() + b"\n")
            child.stdin.flush()
        loaded = [str(self._answer(LOADING)) for _ in libraries]
        return loaded, self._answer()

    def _answer(self, seconds: float = inf) -> Any:
        """Return the next answer, which takes at most so many seconds of CPU time or idling."""
        child = self._child
        assert child is not None and child.stdout is not None
        limit, ready = TimeLimit(child.pid, seconds), select.poll()
        ready.register(child.stdout, select.POLLIN)
        while b"\n" not in self._read:
            if ready.poll(1e3 * limit.next):
                part = os.read(child.stdout.fileno(), 1 << 16)
                if not part:
                    status = child.wait()
                    raise RuntimeError(f"verify: the timing process failed with status {status}")
                self._read += part
            elif limit.is_over():
                raise RuntimeError(f"verify: a library took more than {seconds:g} s to load")
        line, _, self._read = self._read.partition(b"\n")
        return json.loads(line)


def trial_runs(
    libraries: Sequence[Path], calls: Sequence[TrialCall], threads: int,
    process: TrialProcess | None = None, device: str = CPU,
) -> list[TrialRun]:  # fmt: skip
    """Make some calls of each library in turns.

    Args:
        libraries: The libraries.
        calls: The calls, at least one.
        threads: The threads of pools.
        process: A process that may have loaded some of them; by default a new one.
        device: ``cpu`` or ``gpu``.

    Raises:
        RuntimeError: The process fails.
    """
    if process is not None:
        return process.run(libraries, calls, threads, device)
    with TrialProcess() as own:
        return own.run(libraries, calls, threads, device)


def _outputs(path: Path) -> tuple[Array, ...]:
    return tuple(tensor.numpy() for tensor in load(path))
