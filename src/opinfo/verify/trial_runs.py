"""Run libraries in turns, in a process whose thread pools all have the same size.

``python -m opinfo.verify.trial_runs FOLDER THREADS DEVICE`` reads the inputs from a folder. For
each line of JSON, a list of libraries, it loads each and answers why it could not, then writes the
outputs of each new one to the folder, and answers milliseconds, all as lines of JSON. The first
answer says that it is ready. Pools take their size from the environment when they are loaded, which
the caller may have done long ago. Calls of one thread are timed by CPU time, which other processes
do not lengthen; calls on a GPU by the time until it is idle.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from time import perf_counter, process_time, sleep
from typing import Any

import numpy as np
import tvm
from tvm import relax

from ..byoc.codegen.loading.cuda_device import cuda_device
from ..byoc.patterns.failure import one_line
from ..byoc.process.folder import Folder
from ..byoc.process.patience import Patience
from ..byoc.process.spawn import spawn
from ..byoc.process.without_torch import command
from .emptied import can_be_emptied, emptied
from .short_parts import seconds_of
from .trial_values import TrialCall, layout_of, load, restored, save, tensors_of

Array = np.ndarray[Any, Any]
Call = Callable[[], object]
Clock = Callable[[], float]
#: Number of timed runs; after so many seconds of the clock, the least number.
RUNS, SECONDS, FEWEST = 9, 1.0, 3
#: What takes so many times as long as the fastest is not called again: it cannot win. The second
#: number is for two or more CPU times, of which the least differ by less.
SLOW, CLOSE = 1.5, 1.1
#: Seconds before each run: threads of the library that ran before spin on the cores for a while.
#: ONNX Runtime's do so a million times, which takes 40 ms on one CPU, and more on another.
PAUSE, MOST_PAUSES = 0.05, 6
#: The most seconds to load a library, of CPU time or of idling.
LOADING = 60.0
#: Rounds of calls for kernels of their shapes, which come after the second one; the most seconds of
#: a round until they are compiled.
KERNELS, SETTLING = 3, 60.0
#: A function of libraries that compile kernels for shapes.
SERVES = "opinfo_jit_about"
#: Sessions of libraries, which would end with them.
_SESSIONS: dict[str, Any] = {}
INPUTS, CALLS = "inputs", "calls"
CPU, GPU = "cpu", "gpu"


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
        self._folder: Folder | None = None
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
        self._folder = Folder("opinfo-")
        tensors = [x for call in calls for x in tensors_of(call.values)]
        save(tensors, self._folder.path / INPUTS)
        (self._folder.path / CALLS).write_text(json.dumps(layout), encoding="utf-8")
        self._read, self._ready, self._places = b"", False, {}
        self._child = spawn(command(__name__, str(self._folder.path), str(threads), device),
                            threads)  # fmt: skip

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
        patience, ready = Patience(child.pid, seconds), select.poll()
        ready.register(child.stdout, select.POLLIN)
        while b"\n" not in self._read:
            if ready.poll(1e3 * patience.next):
                part = os.read(child.stdout.fileno(), 1 << 16)
                if not part:
                    status = child.wait()
                    raise RuntimeError(f"verify: the timing process failed with status {status}")
                self._read += part
            elif patience.is_over():
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


def flat(result: Any) -> list[Any]:
    """Return the tensors of a result, in order."""
    if isinstance(result, tvm.runtime.Tensor):
        return [result]
    return [tensor for part in result for tensor in flat(part)]


def _times(calls: Sequence[Call | None], clock: Clock) -> list[list[float]]:
    """Return the milliseconds of each call by a clock, in turns.

    One run says which calls are slow if the clock is that of CPU time. Others need the fewest runs,
    as other processes lengthen some. Seconds of CPU time also limit how many there are: on a busy
    machine, those of the wall are over after the fewest.
    """
    times: list[list[float]] = [[] for _ in calls]
    end = clock() + SECONDS
    alone = clock is process_time
    for run in range(RUNS):
        slow = inf if run < (1 if alone else FEWEST) else CLOSE if alone and run > 1 else SLOW
        limit = slow * min((min(measured) for measured in times if measured), default=inf)
        for call, measured in zip(calls, times, strict=True):
            if call is not None and min(measured, default=0.0) <= limit:
                _settle()
                measured.append(1e3 * seconds_of(call, clock))
        if run + 1 >= FEWEST and clock() > end:
            break
    return times


def _settle() -> None:
    """Sleep until all threads of this process do."""
    for _ in range(MOST_PAUSES):
        used = process_time()
        sleep(PAUSE)
        if process_time() - used < PAUSE / 10:
            return


def _loaded(library: str, device: Any, functions: Sequence[str]) -> Any:
    """Return a library and its functions, or why it cannot be loaded."""
    try:
        module = tvm.runtime.load_module(library)
        machine = relax.VirtualMachine(module, device)
        return module, {name: machine[name] for name in functions}
    except Exception as error:  # of any library in it
        print(f"{library}: {error}", file=sys.stderr)
        return one_line(error)


def _served(library: str, module: Any, calls: Sequence[Call | None]) -> None:
    """Call a library that compiles kernels for shapes until it has those of these calls."""
    if not module.implements_function(SERVES, True):
        return
    from ..jit.runtime.session import Session  # imports all schedules

    session = _SESSIONS[library] = Session(library)
    for _ in range(KERNELS):
        for call in calls:
            if call is not None:
                call()
        session.settle(SETTLING)


def _called(main: Any, values: Sequence[Any], outputs: Path) -> Call | None:
    """Call a function once and write its outputs; return a further call, None if that fails.

    The outputs live as long as that call: if their memory went to the outputs of the next library,
    one that writes nothing there would seem right. Their content is not needed after this, so the
    pages of large ones are given back. What a second call returns at the same address, such as a
    constant, is kept: later calls read it.
    """
    try:
        tensors = flat(main(*values))
        save(tensors, outputs)
        given = list(tensors_of(list(values)))
        again = flat(main(*values)) if any(can_be_emptied(t, given) for t in tensors) else []
        for some, others in ((tensors, again), (again, tensors)):
            for tensor in some:
                emptied(tensor, [*given, *others])
    except Exception as error:  # of any library in it
        print(error, file=sys.stderr)
        return None

    def call(_kept: object = (tensors, again)) -> object:
        return main(*values)

    return call


def _clock(threads: int, device: Any) -> Clock:
    """Return a clock whose seconds a call takes."""
    if device.dlpack_device_type() == tvm.cpu().dlpack_device_type():
        return process_time if threads == 1 else perf_counter

    def idle() -> float:
        device.sync()
        return perf_counter()

    return idle


def _main(folder: Path, threads: int, kind: str) -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries may print too
    device = cuda_device() if kind == GPU else tvm.cpu()
    tensors = [tensor.copyto(device) for tensor in load(folder / INPUTS)]
    layout = json.loads((folder / CALLS).read_text(encoding="utf-8"))
    asked = [(name, [restored(v, tensors) for v in values]) for name, values in layout]
    names = list(dict.fromkeys(name for name, _ in asked))
    clock = _clock(threads, device)

    def answer(value: Any) -> None:
        answers.write(json.dumps(value).encode() + b"\n")
        answers.flush()

    answer(True)
    loaded: dict[str, Any] = {}
    calls: dict[str, list[Call | None]] = {}
    for line in sys.stdin:
        libraries = json.loads(line)
        for path in libraries:
            if path not in loaded:
                loaded[path] = _loaded(path, device, names)
            answer(loaded[path] if isinstance(loaded[path], str) else "")
        for k, (path, library) in enumerate(loaded.items()):
            if path not in calls and isinstance(library, str):
                calls[path] = [None] * len(asked)
            elif path not in calls:
                module, functions = library
                calls[path] = [_called(functions[name], values, folder / f"{k}.{c}")
                               for c, (name, values) in enumerate(asked)]  # fmt: skip
                _served(path, module, calls[path])
        answer([_times([calls[path][c] for path in libraries], clock) for c in range(len(asked))])


if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
