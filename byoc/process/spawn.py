"""Starting child processes, which read standard input and answer on standard output."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

#: Variables that set the number of threads of OpenMP's and TVM's pools.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TVM_NUM_THREADS")


def spawn(
    command: Sequence[str],
    threads: int = 1,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    stderr: IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process with the same import path as this one.

    It leads a process group of its own: what it started goes with it, and an interrupt of the
    terminal is its owner's to handle.

    Args:
        command: the program and its arguments.
        threads: those of its pools; they must be set before anything that has pools is imported.
        folder: what it works in, by default this process's. ``python -m`` imports what lies there.
        environment: variables beside those of this process.
        stderr: by default this process's.
    """
    path = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
    variables = {**os.environ, **dict.fromkeys(THREADS, str(threads)), "PYTHONPATH": path,
                 **(environment or {})}  # fmt: skip
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
                            cwd=folder, env=variables, start_new_session=True)  # fmt: skip
