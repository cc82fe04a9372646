"""What runs in processes of their own: build a candidate, compute what it must, time it, serve.

They are forked from one that has imported this (see `byoc.measure.forked`), so that each starts at
once, and may crash or hang.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import re
import socket
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm import relax
from tvm.rpc import client
from tvm.rpc.server import PopenRPCServerState

from ..backend.backend import Code
from ..codegen.partition import attached
from ..codegen.toolchain import OPTIONS, shared
from ..prepare.fuse import fuse
from .compare import Array, difference
from .measured import Excluded, Measured, Result

#: The first of the stages that a candidate goes through.
LOADED = "it was loaded"


@dataclass(frozen=True)
class Build:
    """Compile a module, with a backend's code, to ``library``."""

    module: str
    code: Code | None
    target: str
    library: str

    def run(self) -> str | None:
        """None, or why it does not build."""
        try:
            _export(tvm.ir.load_json(self.module), self.code, self.target, self.library)
        except Exception as e:  # the compiler or the linker
            return first_line(e)
        return None


@dataclass(frozen=True)
class Compute:
    """What the operators compute, by TVM's own code on this machine, from ``inputs``.

    Inputs and results are written to ``case``, for any number of candidates.
    """

    library: str
    function: str
    inputs: tuple[Array, ...]
    case: str

    def run(self) -> str | None:
        """None, or why it cannot be computed."""
        try:
            machine = relax.VirtualMachine(tvm.runtime.load_module(self.library), tvm.cpu())
            results = flat(machine[self.function](*map(tvm.runtime.tensor, self.inputs)))
        except Exception as e:
            return first_line(e)
        Path(self.case).write_bytes(pickle.dumps((self.inputs, results), pickle.HIGHEST_PROTOCOL))
        return None


@dataclass(frozen=True)
class Effort:
    """``repeat`` medians of calls for ``milliseconds`` each; less where one call takes long.

    A candidate that is not done after ``timeout`` seconds hangs.
    """

    repeat: int = 11
    milliseconds: int = 5
    longest: float = 2.0
    timeout: float = 60.0


@dataclass(frozen=True)
class Unreachable:
    """The server was gone before the candidate reached it."""

    reason: str


@dataclass(frozen=True)
class NotLoaded:
    """What is in the library beside the candidate may be at fault."""

    excluded: Excluded


@dataclass(frozen=True)
class Time:
    """Run a function of a library on a server, compare the results, and time it.

    ``inputs`` are those of the case that it takes, by number.
    """

    library: str
    function: str
    case: str
    inputs: tuple[int, ...]
    server: tuple[str, int, str]
    device: str
    effort: Effort

    def run(self) -> Result | Unreachable | NotLoaded:
        host, port, match = self.server
        begun = time.monotonic()
        try:
            remote = client.connect(host, port, match, session_timeout=self.effort.timeout)
        except Exception as e:  # refused, or closed before it was accepted
            return Unreachable(first_line(e))
        stage = [LOADED]
        try:
            return self._timed(remote, stage)
        except Exception as e:  # what the server says, or that it says nothing any more
            why = self._why(remote, e, stage[-1], time.monotonic() - begun)
            return NotLoaded(why) if stage == [LOADED] else why

    def _timed(self, remote: Any, stage: list[str]) -> Result:
        inputs, expected = pickle.loads(Path(self.case).read_bytes())
        name = os.path.basename(self.library)
        remote.upload(self.library, name)
        device = remote.device(self.device, 0)
        machine = relax.VirtualMachine(remote.load_module(name), device)
        given = [tvm.runtime.tensor(inputs[k], device=device) for k in self.inputs]
        machine.set_input(self.function, *given)
        stage.append("it was called")
        machine.invoke_stateful(self.function)
        apart = difference(flat(machine.get_outputs(self.function)), expected)
        if apart is not None:
            return Excluded(apart)
        machine.save_function(self.function, "timed", *given, include_return=False)
        stage.append("it was timed")
        once = machine.time_evaluator("timed", device, number=1, repeat=1)().mean
        repeat = min(self.effort.repeat, max(1, int(self.effort.longest / max(once, 1e-9))))
        timer = machine.time_evaluator("timed", device, number=1, repeat=repeat,
                                       min_repeat_ms=self.effort.milliseconds)  # fmt: skip
        return Measured(statistics.median(timer().results) * 1e6)

    def _why(self, remote: Any, error: Exception, stage: str, seconds: float) -> Excluded:
        limit = self.effort.timeout
        if "RPCSessionTimeout" in str(error) or seconds >= limit:
            return Excluded(f"it hangs: {limit:g} s passed when {stage}")
        try:
            remote.get_function("tvm.rpc.server.workpath")("")
        except Exception:  # whatever it is: nobody answers
            return Excluded(f"it crashes: the server's session ended when {stage}")
        return Excluded(f"it fails when {stage}: {first_line(error)}")


@dataclass(frozen=True)
class Serve:
    """A server of a tracker, until it is killed or a session of it crashes."""

    tracker: tuple[str, int]
    key: str

    def run(self) -> None:
        # Sessions are forks of this process: it has no threads yet, and has imported everything.
        multiprocessing.set_start_method("fork", force=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        state = PopenRPCServerState("127.0.0.1", port, port + 200, tracker_addr=self.tracker,
                                    key=self.key)  # fmt: skip
        state.thread.join()


Job = Build | Compute | Time | Serve


def flat(result: Any) -> Sequence[Array]:
    """The arrays of a tensor or of tuples of tensors."""
    if isinstance(result, tvm.runtime.Tensor):
        return [result.numpy()]
    return [array for part in result for array in flat(part)]


def first_line(e: BaseException) -> str:
    """What an error says, of a compiler's output the first error."""
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    compiler = (m.group() for line in lines if (m := re.search(r"(?<=: )(fatal )?error: .*", line)))
    told = next(compiler, lines[0] if lines else "")
    return f"{type(e).__name__}: {told}" if told else type(e).__name__


def _export(mod: Any, code: Code | None, target: str, library: str) -> None:
    if code is not None:
        mod = attached(mod, [code])
    options = [*OPTIONS, *(code.options if code is not None else ())]
    tvm.compile(fuse(mod), target=target).export_library(library, fcompile=shared, options=options)
