"""The C++ compiler as TVM calls it, with a time limit; what it says becomes one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tvm.support import cc

from ..patterns.failure import first_error
from ..process.status import signal_name
from .linking import is_source, steps

#: Seconds that one call may take: a whole model of CUTLASS kernels takes minutes.
SECONDS = 1800.0
#: What a library needs and does not find is found when it is loaded, not when it is called.
NOW = ("-Wl,-z,now",) if sys.platform.startswith("linux") else ()
#: Exported C++ functions say what they take, see `byoc.codegen.arity`.
TELLING = "-DTVM_FFI_DLL_EXPORT_INCLUDE_METADATA=1"
OPTIONS = ("-O2", TELLING, *NOW)


class CompilerError(RuntimeError):
    """The compiler failed; the message is one line. ``stage`` is ``compile`` or ``link``.

    ``broken``: it was killed or hangs, so that what it was given may not be at fault.
    """

    def __init__(self, reason: str, stage: str = "compile", broken: bool = False) -> None:
        super().__init__(reason)
        self.stage, self.broken = stage, broken


def shared(
    output: str, objects: Sequence[str] | str, options: Sequence[str] | None = None, **_: Any
) -> None:
    """Compile and link a shared library. Raises `CompilerError`."""
    compiler = cc.get_cc()
    if compiler is None:
        raise CompilerError("there is no C++ compiler (g++ or clang++) on PATH", broken=True)
    found = steps(options or ())
    files = [*([objects] if isinstance(objects, str) else objects), *found.sources]
    kind = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    with tempfile.TemporaryDirectory(dir=Path(output).parent, prefix=".objects-") as folder:
        for k, file in enumerate(files):
            if is_source(file):
                files[k] = str(Path(folder) / f"{k}.o")
                _write("compile", [compiler, "-c", "-fPIC", *found.compiling, file], files[k])
        _write("link", [compiler, "-shared", "-fPIC", *kind, *files, *found.linking], output)


def _write(stage: str, command: Sequence[str], output: str) -> None:
    """Run the compiler for one file. Raises `CompilerError`."""
    compiler = command[0]
    try:
        status, text = _run([*command, "-o", output])
    except OSError as e:
        raise CompilerError(f"{compiler} cannot be run: {e.strerror or e}", broken=True) from e
    except subprocess.TimeoutExpired:
        raise CompilerError(f"{compiler} did not end within {SECONDS:g} s", broken=True) from None
    if status < 0:
        raise CompilerError(f"{compiler} was killed by {signal_name(-status)}", broken=True)
    if status:
        raise CompilerError(first_error(text) or f"{compiler} ended with status {status}", stage)
    if not os.path.exists(output):
        raise CompilerError(f"{compiler} ended without an error and wrote nothing", broken=True)


def _run(command: Sequence[str]) -> tuple[int, str]:
    """The exit status and what it said; its children end with it where it is stopped."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            text, _ = process.communicate(timeout=SECONDS)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return process.returncode, text.decode("utf-8", errors="replace")
