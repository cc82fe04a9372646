"""Run libraries in turns, in a process whose thread pools all have the same size.

``python -m opinfo.verify.trial_runs FOLDER LIBRARY...`` reads the inputs from a folder, writes the
outputs of each library to it, and prints milliseconds as JSON. Pools take their size from the
environment when they are loaded, which the caller may have done long ago.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np
import tvm
from tvm import relax

from ..byoc.process.folder import Folder
from ..byoc.process.spawn import spawn

Array = np.ndarray[Any, Any]
Call = Callable[[], object]
#: Number of timed runs; after so many seconds, the least number.
RUNS, SECONDS, FEWEST = 9, 2.0, 3
#: Seconds before each run: threads of the library that ran before spin on the cores for a while.
PAUSE = 0.05
#: Seconds of a run: shorter calls are repeated, longer ones need no call to warm up.
LONG = 1e-2
INPUTS = "inputs"


@dataclass(frozen=True)
class TrialRun:
    """Calls of one library.

    Attributes:
        times: Milliseconds of each call; empty if the first one raised an error.
        outputs: The arrays that the first call returned, in order.
    """

    times: tuple[float, ...]
    outputs: tuple[Array, ...]


def trial_runs(libraries: Sequence[Path], inputs: Sequence[Any], threads: int) -> list[TrialRun]:
    """Call ``main`` of each library in turns.

    Raises:
        RuntimeError: The process fails.
    """
    folder = Folder("opinfo-")
    try:
        values = {str(k): x for k, x in enumerate(inputs)}
        tvm.runtime.save_param_dict_to_file(values, str(folder.path / INPUTS))
        command = [sys.executable, "-m", __name__, str(folder.path), *map(str, libraries)]
        child = spawn(command, threads)
        try:
            out, _ = child.communicate()
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        if child.returncode:
            raise RuntimeError(f"verify: the timing process failed with status {child.returncode}")
        times: list[list[float]] = json.loads(out.splitlines()[-1])
        return [TrialRun(tuple(calls), _outputs(folder.path / str(k)) if calls else ())
                for k, calls in enumerate(times)]  # fmt: skip
    finally:
        folder.remove()


def _outputs(path: Path) -> tuple[Array, ...]:
    saved = tvm.runtime.load_param_dict_from_file(str(path))
    return tuple(saved[str(k)].numpy() for k in range(len(saved)))


def flat(result: Any) -> list[Any]:
    """Return the tensors of a result, in order."""
    if isinstance(result, tvm.runtime.Tensor):
        return [result]
    return [tensor for part in result for tensor in flat(part)]


def _times(calls: Sequence[Call | None]) -> list[list[float]]:
    """Return the milliseconds of each call, in turns."""
    times: list[list[float]] = [[] for _ in calls]
    end = perf_counter() + SECONDS
    for run in range(RUNS):
        for call, measured in zip(calls, times, strict=True):
            if call is not None:
                sleep(PAUSE)
                measured.append(_timed(call))
        if run + 1 >= FEWEST and perf_counter() > end:
            break
    return times


def _timed(call: Call) -> float:
    """Return the milliseconds of a call."""
    start = perf_counter()
    call()
    first = perf_counter() - start
    if first > LONG:
        return first * 1e3
    count = int(LONG / first)
    start = perf_counter()
    for _ in range(count):
        call()
    return (perf_counter() - start) * 1e3 / count


def _called(library: str, values: Sequence[Any], outputs: Path) -> Call | None:
    """Call a library once and write its outputs; return a further call."""
    try:
        main = relax.VirtualMachine(tvm.runtime.load_module(library), tvm.cpu())["main"]
        tensors = {str(k): x for k, x in enumerate(flat(main(*values)))}
        tvm.runtime.save_param_dict_to_file(tensors, str(outputs))
    except Exception as error:  # of any library in it
        print(f"{library}: {error}", file=sys.stderr)
        return None
    return lambda: main(*values)


def _main(folder: Path, libraries: Sequence[str]) -> None:
    saved = tvm.runtime.load_param_dict_from_file(str(folder / INPUTS))
    values = [saved[str(k)] for k in range(len(saved))]
    calls = [_called(name, values, folder / str(k)) for k, name in enumerate(libraries)]
    print(json.dumps(_times(calls)))


if __name__ == "__main__":
    _main(Path(sys.argv[1]), sys.argv[2:])
