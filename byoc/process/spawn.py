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

    It leads a process group: its children can be killed with it, and an interrupt from the terminal
    reaches only its owner.

    Args:
        command: The program and its arguments.
        threads: The number of threads of its pools, which libraries read when they are imported.
        folder: Its working directory, by default this process's. ``python -m`` imports from it.
        environment: Variables in addition to those of this process.
        stderr: By default this process's.
    """
    path = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
    variables = {**os.environ, **dict.fromkeys(THREADS, str(threads)), "PYTHONPATH": path,
                 **(environment or {})}  # fmt: skip
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
                            cwd=folder, env=variables, start_new_session=True)  # fmt: skip
