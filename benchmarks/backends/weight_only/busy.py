"""A process that computes on one of the CPUs of this one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def busy_cpu() -> Iterator[None]:
    """Keep the last CPU that this process may use busy."""
    last = max(os.sched_getaffinity(0))
    code = f"import os\nos.sched_setaffinity(0, [{last}])\nwhile True: pass"
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        yield
    finally:
        process.kill()
        process.wait()
