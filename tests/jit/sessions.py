"""Compilers under the control of a test, and calls that are compared."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tvm

from opinfo.jit import (
    Compiler,
    Session,
)
from opinfo.jit.store import kernel_key

from . import modules

#: A process that is ready, and then does this with each job (`job` is a line).
STUB = """
import json, os, sys, time
print('{"ready": 1}', flush=True)
for job in sys.stdin:
    %s
"""


def stub(what: str, seconds: float = 20.0) -> Compiler:
    return Compiler(seconds=seconds, command=(sys.executable, "-c", STUB % what))


def counted(tmp_path: Path, kernel: Path, what: str) -> Compiler:
    """A process that copies a kernel; before that `what` is done, where ``runs`` is how many
    processes there were with this one, and ``jobs`` how many jobs this one has."""
    started = str(tmp_path / "started")
    code = f"""
import json, os, shutil, signal, sys
with open({started!r}, "a") as file:
    file.write("x")
runs, jobs = os.path.getsize({started!r}), 0
print(json.dumps({{"ready": 1, "toolchain": {kernel_key.toolchain()!r}}}), flush=True)
for job in sys.stdin:
    jobs += 1
    {what}
    shutil.copy({str(kernel)!r}, json.loads(job)["library"])
    print('{{"rule": "x", "milliseconds": 1}}', flush=True)
"""
    return Compiler(command=(sys.executable, "-c", code))


def ask(session: Session, sizes: Sequence[int], layers: int = 1) -> None:
    """Call with each size, and compare."""
    for n in sizes:
        x = modules.rows(n)
        got = session(tvm.runtime.tensor(x)).numpy()
        np.testing.assert_allclose(got, modules.expected(x, layers), rtol=1e-4, atol=1e-5)
