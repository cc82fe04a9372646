"""The C++ compiler as TVM calls it, with a time limit and errors of one line."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tvm.support import cc

from ...patterns.failure import first_error
from ...process.status import signal_name
from .kept_code import kept_code
from .linking import is_source, steps

#: Time limit of one call in seconds: a model of CUTLASS kernels takes minutes.
SECONDS = 1800.0
#: Resolve symbols when the library is loaded, so that a missing one does not fail a call. An
#: identifier of the build would be a hash over all constants, most of the time of linking.
LINKING = ("-Wl,-z,now", "-Wl,--build-id=none") if sys.platform.startswith("linux") else ()
#: Lets exported C++ functions report their arguments, see `byoc.codegen.loading.check_arity`.
TELLING = "-DTVM_FFI_DLL_EXPORT_INCLUDE_METADATA=1"
#: Bytes that must fit on a disk for a failure to be that of the compiler.
PROBE = 1 << 20
OPTIONS = ("-O2", TELLING, *LINKING)


class CompilerError(RuntimeError):
    """The compiler failed; the message is one line. ``stage`` is ``compile`` or ``link``.

    ``broken``: it was killed or hangs, so its input may not be at fault.
    """

    def __init__(self, reason: str, stage: str = "compile", broken: bool = False) -> None:
        super().__init__(reason)
        self.stage, self.broken = stage, broken


def shared(
    output: str, objects: Sequence[str] | str, options: Sequence[str] | None = None,
    alone: Mapping[str, Sequence[str]] = MappingProxyType({}), **_: Any,
) -> None:  # fmt: skip
    """Compile and link a shared library; ``alone``: see `export_library`.

    Raises:
        CompilerError: The compiler or the linker fails.
    """
    compiler = cc.get_cc()
    if compiler is None:
        raise CompilerError("no C++ compiler on PATH: install g++ or clang++", broken=True)
    split = steps(options or ())
    files = [*([objects] if isinstance(objects, str) else objects), *split.sources]
    kind = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    with tempfile.TemporaryDirectory(dir=Path(output).parent, prefix=".objects-") as folder:
        jobs: list[tuple[Sequence[str], str]] = []
        for k, file in enumerate(files):
            if is_source(file):
                own = alone.get(_text(file)) if alone else None
                words = (split if own is None else steps([*OPTIONS, *own])).compiling
                files[k] = str(Path(folder) / f"{k}.o")
                jobs.append(([compiler, "-c", "-fPIC", *words, file], files[k]))
        _compile_at_once(jobs)
        _write("link", [compiler, "-shared", "-fPIC", *kind, *files, *split.linking], output)


def _text(source: str) -> str:
    """Return a source, in which names of files may have any bytes."""
    return Path(source).read_text("utf-8", "surrogateescape")


def object_file(output: str, source: str, options: Sequence[str]) -> None:
    """Compile a C++ file to an object for shared libraries. Raises `CompilerError`."""
    compiler = cc.get_cc()
    if compiler is None:
        raise CompilerError("no C++ compiler on PATH: install g++ or clang++", broken=True)
    compiling = steps([*OPTIONS, *options]).compiling
    _write("compile", [compiler, "-c", "-fPIC", *compiling, source], output)


def program(output: str, source: str, options: Sequence[str]) -> None:
    """Compile and link a program of one C++ file. Raises `CompilerError`."""
    compiler = cc.get_cc()
    if compiler is None:
        raise CompilerError("no C++ compiler on PATH: install g++ or clang++", broken=True)
    _write("compile", [compiler, source, *options], output)


def _compile_at_once(jobs: Sequence[tuple[Sequence[str], str]]) -> None:
    """Compile files, by commands and objects; the others end if one fails, or if interrupted."""
    live: list[subprocess.Popen[bytes]] = []
    with ThreadPoolExecutor(_at_once()) as threads:
        try:
            for done in [threads.submit(_compile, *job, live) for job in jobs]:
                done.result()
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            for process in live:
                if process.poll() is None:
                    with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                        os.killpg(process.pid, signal.SIGKILL)
            raise


def _compile(command: Sequence[str], output: str, live: list[subprocess.Popen[bytes]]) -> None:
    """Compile a file, or take its object if it was compiled before."""
    kept = kept_code(command)
    if kept is None:
        _write("compile", command, output, live)
    elif not kept.find(output):
        rule = Path(f"{output}.d")
        *words, source = command
        _write("compile", [*words, "-MD", "-MF", str(rule), source], output, live)
        with contextlib.suppress(OSError, UnicodeDecodeError):
            kept.keep(output, rule.read_text("utf-8"))


def _at_once() -> int:
    """How many compilers may run at once: as many as there are CPUs for this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _write(
    stage: str, command: Sequence[str], output: str,
    live: list[subprocess.Popen[bytes]] | None = None,
) -> None:  # fmt: skip
    """Run the compiler for one file; ``live`` gets its process. Raises `CompilerError`."""
    compiler = command[0]
    try:
        status, text = _run([*command, "-o", output], live)
    except OSError as error:
        raise CompilerError(
            f"{compiler} cannot be run: {error.strerror or error}", broken=True
        ) from error
    except subprocess.TimeoutExpired:
        raise CompilerError(
            f"{compiler} exceeded the limit of {SECONDS:g} s", broken=True
        ) from None
    if status < 0:
        raise CompilerError(f"{compiler} was killed by {signal_name(-status)}", broken=True)
    if (status or not os.path.exists(output)) and (reason := _why_unwritable(output)):
        raise CompilerError(f"{Path(output).parent}: {reason}", stage, broken=True)
    if status:
        raise CompilerError(first_error(text) or f"{compiler} ended with status {status}", stage)
    if not os.path.exists(output):
        raise CompilerError(f"{compiler} succeeded but wrote no file", broken=True)


def _why_unwritable(output: str) -> str:
    """Return why no file can be written beside one, such as a full disk; empty if one can be.

    A compiler reads what could be written of its source, and complains of that.
    """
    try:
        with tempfile.TemporaryFile(dir=Path(output).parent) as file:
            file.write(bytes(PROBE))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _run(command: Sequence[str], live: list[subprocess.Popen[bytes]] | None) -> tuple[int, str]:
    """Run a command and return its status and output; if interrupted, end its children too."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:  # fmt: skip
        if live is not None:
            live.append(process)
        try:
            text, _ = process.communicate(timeout=SECONDS)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return process.returncode, text.decode("utf-8", errors="replace")
