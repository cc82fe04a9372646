"""The process that reads model files.

It takes one line of JSON for each file, ``{"path", "shapes", "seconds", "memory", "into"}``, and
forks a process with limits to read it. It answers ``{"error": text}``, or ``{"shared": length}``
for so many bytes in the memory ``into`` (`shared_memory`), or ``{"module": length}`` followed by
them (`large_constants`); the client must check them before loading. A line with
``"static"``, a digest and the shapes of inputs, asks for an ONNX file instead (`static_onnx`).
Crashes, hangs and memory growth end with the fork, so each file gets a fresh process.
"""

from __future__ import annotations

import json
import mmap
import os
import select
import signal
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ...analysis.support import plugins
from ...analysis.support.garbage import rare_collections
from ...byoc.process.fork import forked
from ...byoc.process.status import ended
from ..checks.error import FrontendError, one_line
from ..reading import crash_place
from ..reading.limits import limit
from .shared_memory import opened, written

#: The package whose modules have names that begin with a dot.
PACKAGE = "opinfo.frontend"
#: Idle seconds after which the process ends.
IDLE = 120.0
#: Modules to import before the limits apply, once for all files.
IMPORTS: dict[str, Sequence[str]] = {
    ".onnx": ("onnx", "onnx.reference", "tvm.relax.frontend.onnx"),
    ".pt2": (
        "torch.export.pt2_archive._package", "torch._inductor.compiler_bisector",
        "torch._inductor.decomposition",
        "torch._inductor.virtualized", "torch.fx._graph_pickler", "torch._functorch.aot_autograd",
        "tvm.relax.frontend.torch", ".converters.program_importer",
        ".converters.sizes.derived_sizes",
    ),
    ".py": ("tvm.script.parser", "tvm.relax.script.parser"),
}  # fmt: skip


@rare_collections()
def main() -> int:
    """Answer jobs on standard input until it is closed, or silent for long."""
    answers = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from ..formats import read_file  # a test replaces it

    _send(answers, {"ready": os.getpid()})
    partial = b""
    while True:
        if not select.select([0], [], [], IDLE)[0]:
            return 0
        chunk = os.read(0, 1 << 16)
        if not chunk:
            return 0
        *lines, partial = (partial + chunk).split(b"\n")
        for line in lines:
            _answer(answers, json.loads(line), read_file)


def _answer(answers: int, job: dict[str, Any], read: Any) -> None:
    _prepare(Path(job["path"]).suffix.lower())
    seconds = job["seconds"]

    crash_place.share()
    into = job.get("into")
    with opened(into and (into[0], into[1])) as memory:

        def work() -> bytes:
            os.close(answers)
            return _read_file(job, read, memory)

        try:
            text, code = forked(work, 4 * seconds)  # the CPU limit normally strikes first
        except TimeoutError:
            text, code = b"", -signal.SIGXCPU
    place = crash_place.noted()
    where = f" at {place}" if place else ""
    if code == -signal.SIGXCPU:
        _send(answers, {"error": f"reading it took more than {seconds} s and was stopped{where}"})
    elif code or text[:1] not in (b"M", b"E", b"S"):
        _send(answers, {"error": f"reading it crashed{where}: {ended(code)}"})
    elif text[:1] == b"E":
        _send(answers, {"error": text[1:].decode(errors="replace"), "whole": True})
    elif text[:1] == b"S":
        _send(answers, {"shared": text[1:].decode(errors="replace")})
    else:
        _send(answers, {"module": len(text) - 1}, memoryview(text)[1:])


def _read_file(job: dict[str, Any], read: Any, memory: mmap.mmap | None) -> bytes:
    """Limit this process and read a file.

    Returns:
        ``S`` and the length of the module in the memory, ``M`` and the module, or ``E`` and an
        error.
    """
    path = Path(job["path"])
    tempfile.gettempdir()  # cached before the limits, since the search writes files
    limit(job["seconds"], job["memory"])
    try:
        if "static" in job:
            from ..formats.static_onnx import static_file

            parts = static_file(path, *job["static"])
        else:
            parts = read(path, {name: tuple(dims) for name, dims in job["shapes"].items()})
        length = written(parts, memory)
        return b"".join([b"M", *parts]) if length is None else b"S%d" % length
    except FrontendError as error:
        return b"E" + str(error).encode(errors="replace")
    except MemoryError:
        return f"E{path}: reading it exceeded the memory limit".encode()
    except Exception as error:  # TVM, torch and onnx may raise anything
        return f"E{path}: {one_line(error)}".encode(errors="replace")


def _prepare(suffix: str) -> None:
    if suffix == ".json" and plugins.installed(plugins.RECOGNISERS):
        from ...analysis.registry.registry import load_all

        load_all()  # they register the operators of raised modules
    from ..formats import MODULES

    modules: tuple[str, ...] = ()
    if suffix in MODULES:
        modules = (f".formats.{MODULES[suffix]}", ".checks.normalise_module")
    for name in (*modules, *IMPORTS.get(suffix, ())):
        try:
            import_module(name, PACKAGE)
        except Exception:  # the reader of the format reports missing packages
            continue


def _send(answers: int, header: dict[str, Any], then: memoryview | bytes = b"") -> None:
    with os.fdopen(os.dup(answers), "wb") as pipe:
        pipe.write(json.dumps(header).encode() + b"\n")
        pipe.write(then)


if __name__ == "__main__":
    sys.exit(main())
