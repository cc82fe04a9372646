"""What tuning runs in processes of their own: build a kernel, run it, check it, time it."""

from __future__ import annotations

import os
import pickle
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm.rpc import client

from ...byoc.measure.compare import Array, difference, drawn
from ...byoc.measure.measure_jobs import Effort, Unreachable, first_line
from ...byoc.measure.measured import Excluded, Measured
from ...byoc.measure.subject import Buffer
from ..process.errors import last_line

#: The name of the kernel in its library.
ENTRY = "main"


@dataclass(frozen=True)
class BuildKernel:
    """Compile a module with the PrimFunc ``main`` to ``library``."""

    module: str
    target: str
    library: str

    def run(self) -> str | None:
        """None, or why it does not build."""
        try:
            mod = tvm.ir.load_json(self.module)
            tvm.tirx.build(mod, target=tvm.target.Target(self.target)).export_library(self.library)
        except Exception as e:  # lowering, LLVM or the linker
            return first_line(e)
        return None


@dataclass(frozen=True)
class RunKernel:
    """What the kernel leaves in its buffers, by the code of ``library``, on this machine.

    Which of them are results does not matter: all are compared, and all begin with seeded values.
    """

    library: str
    buffers: tuple[Buffer, ...]
    case: str

    def run(self) -> str | None:
        """None, or why it cannot be run."""
        try:
            given = drawn(self.buffers)
            arrays = [tvm.runtime.tensor(a) for a in given]
            tvm.runtime.load_module(self.library)[ENTRY](*arrays)
            after = [a.numpy() for a in arrays]
        except Exception as e:
            return first_line(e)
        Path(self.case).write_bytes(pickle.dumps((given, after), pickle.HIGHEST_PROTOCOL))
        return None


@dataclass(frozen=True)
class TimeKernel:
    """Run a library's kernel on a server, compare what it leaves in its buffers, time it."""

    library: str
    case: str
    server: tuple[str, int, str]
    device: str
    effort: Effort

    def run(self) -> Measured | Excluded | Unreachable:
        host, port, match = self.server
        begun = time.monotonic()
        try:
            remote = client.connect(host, port, match, session_timeout=self.effort.timeout)
        except Exception as e:
            return Unreachable(first_line(e))
        try:
            return self._timed(remote)
        except Exception as e:  # what the server says, or that it says nothing any more
            if time.monotonic() - begun >= self.effort.timeout:
                return Excluded(f"it hangs: {self.effort.timeout:g} s passed")
            if not _answers(remote):
                return Excluded("it crashes: the server's session ended")
            return Excluded(f"it fails: {last_line(e)}")

    def _timed(self, remote: Any) -> Measured | Excluded:
        given, expected = pickle.loads(Path(self.case).read_bytes())
        name = os.path.basename(self.library)
        remote.upload(self.library, name)
        device = remote.device(self.device, 0)
        module = remote.load_module(name)
        arrays = [tvm.runtime.tensor(a, device=device) for a in given]
        module[ENTRY](*arrays)
        found: list[Array] = [a.numpy() for a in arrays]
        apart = difference(found, expected)
        if apart is not None:
            return Excluded(apart)
        once = module.time_evaluator(ENTRY, device, number=1, repeat=1)(*arrays).mean
        repeat = min(self.effort.repeat, max(1, int(self.effort.longest / max(once, 1e-9))))
        timer = module.time_evaluator(ENTRY, device, number=1, repeat=repeat,
                                      min_repeat_ms=self.effort.milliseconds)  # fmt: skip
        return Measured(statistics.median(timer(*arrays).results) * 1e6)


def _answers(remote: Any) -> bool:
    try:
        remote.get_function("tvm.rpc.server.workpath")("")
    except Exception:  # whatever it is: nobody answers
        return False
    return True
