"""Time libraries in turns, in a process whose thread pools all have the same size.

``python -m opinfo.verify.time_builds INPUTS LIBRARY...`` prints milliseconds as JSON. Pools take
their size from the environment when they are loaded, which the caller may have done long ago.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import tvm
from tvm import relax

from ..byoc.process.folder import Folder
from ..byoc.process.spawn import spawn

Call = Callable[[], object]
#: Number of timed runs; after so many seconds, the least number.
RUNS, SECONDS, FEWEST = 9, 2.0, 3
#: Seconds before each run: threads of the library that ran before spin on the cores for a while.
PAUSE = 0.05
#: Seconds of a run: shorter calls are repeated, longer ones need no call to warm up.
LONG = 1e-2


def time_builds(
    libraries: Sequence[Path], inputs: Sequence[Any], threads: int
) -> list[list[float]]:
    """Return the milliseconds of calls of each library's ``main``, run in turns.

    A library whose first call raises an error has no times.

    Raises:
        RuntimeError: The process fails.
    """
    folder = Folder("opinfo-")
    try:
        file = folder.path / "inputs"
        tvm.runtime.save_param_dict_to_file({str(k): x for k, x in enumerate(inputs)}, str(file))
        child = spawn([sys.executable, "-m", __name__, str(file), *map(str, libraries)], threads)
        try:
            out, _ = child.communicate()
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    finally:
        folder.remove()
    if child.returncode:
        raise RuntimeError(f"verify: the timing process failed with status {child.returncode}")
    times: list[list[float]] = json.loads(out.splitlines()[-1])
    return times


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


def _call(library: str, values: Sequence[Any]) -> Call | None:
    try:
        main = relax.VirtualMachine(tvm.runtime.load_module(library), tvm.cpu())["main"]
        main(*values)
    except Exception as error:  # of any library in it
        print(f"{library}: {error}", file=sys.stderr)
        return None
    return lambda: main(*values)


if __name__ == "__main__":
    saved = tvm.runtime.load_param_dict_from_file(sys.argv[1])
    arguments = [saved[str(k)] for k in range(len(saved))]
    print(json.dumps(_times([_call(library, arguments) for library in sys.argv[2:]])))
