"""Jobs in child processes: build a candidate, compute the expected results, time it, serve.

They run in forks of a process that has imported this, and may crash or hang.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import socket
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm import relax
from tvm.rpc import client
from tvm.rpc.server import PopenRPCServerState

from ...analysis.support.wording import last_line
from ..backend.backend import Code
from ..codegen.export import export_library
from ..codegen.loading.cuda_device import cuda_device, no_runtime
from ..codegen.partition import attached
from ..patterns.failure import one_line
from ..prepare.fuse import fuse
from .compare import Array, difference
from .measured import Excluded, Measured, Result

#: The stages that a candidate goes through.
LOADED, CALLED, TIMED = "it was loaded", "it was called", "it was timed"


@dataclass(frozen=True)
class Build:
    """Compile a module, with a backend's code, to ``library``."""

    module: str
    code: Code | None
    target: str
    library: str

    def run(self) -> str | None:
        """Build it, and return None, or why it does not build."""
        try:
            _export(tvm.ir.load_json(self.module), self.code, self.target, self.library)
        except Exception as error:  # the compiler or the linker
            return one_line(error)
        return None


@dataclass(frozen=True)
class Compute:
    """Compute the expected results of operators from ``inputs``, by TVM's own code on this machine.

    Inputs and results are written to ``case``, which all candidates share. If ``on_gpu``, the
    library is for the GPU.
    """

    library: str
    function: str
    inputs: tuple[Array, ...]
    case: str
    on_gpu: bool = False

    def run(self) -> str | None:
        """Compute it, and return None, or why that fails."""
        try:
            device = cuda_device() if self.on_gpu else tvm.cpu()
            machine = relax.VirtualMachine(tvm.runtime.load_module(self.library), device)
            arguments = (tvm.runtime.tensor(x, device) for x in self.inputs)
            results = flat(machine[self.function](*arguments))
        except Exception as error:
            return one_line(error)
        Path(self.case).write_bytes(pickle.dumps((self.inputs, results), pickle.HIGHEST_PROTOCOL))
        return None


@dataclass(frozen=True)
class Effort:
    """``repeat`` means of calls for ``milliseconds`` each; fewer if a call takes long.

    Their median counts, or the least of them. A candidate that takes more than ``timeout`` seconds
    counts as hanging.
    """

    repeat: int = 11
    milliseconds: int = 5
    longest: float = 2.0
    timeout: float = 60.0
    least: bool = False


@dataclass(frozen=True)
class Unreachable:
    """The server ended before the candidate reached it."""

    reason: str


@dataclass(frozen=True)
class NotLoaded:
    """A library does not load; other code in it may be at fault."""

    excluded: Excluded


@dataclass(frozen=True)
class Server:
    """A session to open: its address, its key, and the job."""

    host: str
    port: int
    key: str
    device: str
    effort: Effort


@dataclass(frozen=True)
class OnServer(ABC):
    """Run code of a library on a server, compare the results with the case's, and time it."""

    library: str
    case: str
    server: Server

    def run(self) -> Result | Unreachable | NotLoaded:
        server, begun = self.server, time.monotonic()
        try:
            remote = client.connect(
                server.host, server.port, server.key, session_timeout=server.effort.timeout
            )
        except Exception as error:  # refused, or closed before it was accepted
            return Unreachable(one_line(error))
        stage = [LOADED]
        try:
            name = os.path.basename(self.library)
            remote.upload(self.library, name)
            module = remote.load_module(name)
            inputs, expected = pickle.loads(Path(self.case).read_bytes())
            return self.timed(module, remote.device(server.device, 0), inputs, expected, stage)
        except Exception as error:  # from the server, or because it no longer answers
            why = self._why(remote, error, stage[-1], time.monotonic() - begun)
            return NotLoaded(why) if stage == [LOADED] else why

    @abstractmethod
    def timed(
        self, module: Any, device: Any, inputs: Sequence[Array], expected: Sequence[Array] | None,
        stage: list[str],
    ) -> Result:  # fmt: skip
        """Check and time a loaded module; appends each stage that it reaches to ``stage``.

        Without ``expected``, results are not checked.
        """

    def median(self, timer: Callable[..., Any]) -> Measured:
        """The time of a call; ``timer`` takes the arguments of TVM's time evaluators."""
        effort = self.server.effort
        once = timer(number=1, repeat=1).mean
        repeat = min(effort.repeat, max(1, int(effort.longest / max(once, 1e-9))))
        times = timer(number=1, repeat=repeat, min_repeat_ms=effort.milliseconds).results
        return Measured((min(times) if effort.least else statistics.median(times)) * 1e6)

    def _why(self, remote: Any, error: Exception, stage: str, seconds: float) -> Excluded:
        limit = self.server.effort.timeout
        if "RPCSessionTimeout" in str(error) or seconds >= limit:
            return Excluded(f"it hangs: no result within {limit:g} s when {stage}")
        try:
            remote.get_function("tvm.rpc.server.workpath")("")
        except Exception:  # any error means that the server does not answer
            return Excluded(f"it crashes: the server's session ended when {stage}")
        return Excluded(f"it fails when {stage}: {last_line(error)}")


@dataclass(frozen=True)
class Time(OnServer):
    """Time a function of a Relax library; ``inputs`` are the numbers of the case's inputs."""

    function: str
    inputs: tuple[int, ...]

    def timed(
        self, module: Any, device: Any, inputs: Sequence[Array], expected: Sequence[Array] | None,
        stage: list[str],
    ) -> Result:  # fmt: skip
        machine = relax.VirtualMachine(module, device)
        arguments = [tvm.runtime.tensor(inputs[k], device=device) for k in self.inputs]
        machine.set_input(self.function, *arguments)
        stage.append(CALLED)
        machine.invoke_stateful(self.function)
        outputs = machine.get_outputs(self.function)
        reason = None if expected is None else difference(flat(outputs), expected)
        if reason is not None:
            return Excluded(reason)
        machine.save_function(self.function, "timed", *arguments, include_return=False)
        stage.append(TIMED)
        return self.median(lambda **how: machine.time_evaluator("timed", device, **how)())


@dataclass(frozen=True)
class Serve:
    """A server of a tracker, until it is killed or a session of it crashes."""

    tracker: tuple[str, int]
    key: str
    on_gpu: bool = False

    def run(self) -> None:
        if self.on_gpu:
            no_runtime()  # the driver is first called in a session, as it does not work in a fork
        # Sessions are forks of this process: it has no threads yet, and has imported everything.
        multiprocessing.set_start_method("fork", force=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        state = PopenRPCServerState("127.0.0.1", port, port + 200, tracker_addr=self.tracker,
                                    key=self.key)  # fmt: skip
        state.thread.join()


def flat(result: Any) -> Sequence[Array]:
    """The arrays of a tensor or of tuples of tensors."""
    if isinstance(result, tvm.runtime.Tensor):
        return [result.numpy()]
    return [array for part in result for array in flat(part)]


def _export(mod: Any, code: Code | None, target: str, library: str) -> None:
    if code is not None:
        mod = attached(mod, [code])
    options = code.options if code is not None else ()
    export_library(_compiled(mod, target), library, options)


def _compiled(mod: Any, target: str) -> Any:
    """The executable, by the schedules of `build_library`.

    It has no CUDA graphs: they keep the addresses of what is called once.
    """
    if str(tvm.target.Target(target).kind.name) != "cuda":
        return tvm.compile(fuse(mod), target=target)
    from ..backends.nvidia.tvm_schedules import GRAPHS, compiled

    with tvm.transform.PassContext(config={GRAPHS: False}):
        return compiled(mod, target, fuse)
