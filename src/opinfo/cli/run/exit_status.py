"""Run one command: exit status, one-line errors, signals.

This file imports nothing heavy, so that an interrupt during the import of TVM is also one line.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from ...report.printable import printable
from .signals import Signals, kill_descendants, scratch
from .suppress_output import quiet

#: Exit statuses: a user error, an internal error, a closed pipe.
PROBLEM, INTERNAL, CLOSED = 2, 1, 141

_stderr: list[TextIO] = []


class UserError(Exception):
    """A problem that the user can fix; the message is one line."""


def stderr() -> TextIO:
    """Return the real standard error, since a running command redirects the stream."""
    return _stderr[-1] if _stderr else sys.stderr


def traceback_wanted(words: Sequence[str]) -> bool:
    """Return whether a command line, or the environment, asks for full tracebacks."""
    return "--traceback" in words or os.environ.get("OPINFO_TRACEBACK", "") not in ("", "0")


def status_of(act: Callable[[], int | None], traceback: bool = False) -> int:
    """Run a command and return its exit status; an error becomes one line on standard error.

    With ``traceback``, print full errors and the output of libraries.
    """
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:  # a name that the terminal cannot encode must not fail
            reconfigure(errors="backslashreplace")
    with _standard_error(traceback) as out, scratch() as folder, Signals(out, folder) as signals:
        status, line = _outcome(act, out if traceback else None)
        if signals.number is not None:
            signals.end()
        if line:
            out.write(f"opinfo: {single_line(line)}\n")
    return status


def emit(text: str) -> None:
    """Write lines to standard output, with control characters from models escaped."""
    write(printable(text, keep="\n"))


def write(text: str) -> None:
    """Write to standard output and flush, so that errors are raised here."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from error


@contextlib.contextmanager
def _standard_error(loud: bool) -> Iterator[TextIO]:
    with _loud() if loud else quiet() as out:
        _stderr.append(out)
        try:
            yield out
        finally:
            _stderr.pop()


@contextlib.contextmanager
def _loud() -> Iterator[TextIO]:
    """Standard error, unchanged; warnings are shown with control characters escaped."""

    def show(
        message: Warning | str, category: type[Warning], filename: str, lineno: int,
        file: TextIO | None = None, line: str | None = None,
    ) -> None:  # fmt: skip
        text = warnings.formatwarning(message, category, filename, lineno, line)
        (file or sys.stderr).write(printable(text, keep="\n"))

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield sys.stderr


def _outcome(act: Callable[[], int | None], out: TextIO | None) -> tuple[int, str]:
    """Return exit status and message, and release the error, whose objects may print."""
    try:
        status = act() or 0
        if sys.stdout is not None:
            sys.stdout.flush()
        return status, ""
    except SystemExit as error:
        return (error.code if isinstance(error.code, int) else int(error.code is not None)), ""
    except KeyboardInterrupt:
        kill_descendants()
        return 130, "interrupted"
    except BaseException as error:
        if out is not None:
            import traceback

            out.write(printable("".join(traceback.format_exception(error)), keep="\n"))
        return _status_of_error(error)


def _status_of_error(error: BaseException) -> tuple[int, str]:
    """Return the exit status and the message of an error."""
    if isinstance(error, UserError) or (isinstance(error, ImportError) and error.name == "tvm"):
        return PROBLEM, str(error)  # TVM is not installed, or too old for the command
    if isinstance(error, BrokenPipeError):
        _discard_output()
        return CLOSED, ""
    if isinstance(error, OSError):
        _discard_output()
        return PROBLEM, os_error(error)
    usage = getattr(error, "format_message", None)
    if usage is not None:  # an error of click, whichever copy typer uses
        return getattr(error, "exit_code", PROBLEM), _usage(error, usage())
    return INTERNAL, (
        f"internal error: {type(error).__name__}: {error} ({_place(error)}); run with "
        "--traceback or OPINFO_TRACEBACK=1 for details"
    )


def os_error(oserror: OSError) -> str:
    """Return the file and the reason of an ``OSError``."""
    why = reason_of(oserror)
    return why if oserror.filename is None else f"{os.fsdecode(oserror.filename)}: {why}"


def reason_of(oserror: OSError) -> str:
    """Return the reason of an ``OSError``, which may be that the current folder was deleted."""
    if isinstance(oserror, FileNotFoundError):
        try:
            os.getcwd()
        except FileNotFoundError:
            return "the current folder was deleted: change to another one"
    return oserror.strerror or str(oserror) or type(oserror).__name__


def single_line(text: str) -> str:
    """Return a text as one line, with control characters escaped."""
    return printable(text.replace("\n", " ").replace("\t", " "))


def _usage(error: BaseException, message: str) -> str:
    context = getattr(error, "ctx", None)
    text = " ".join(message.split()).rstrip(".").replace(": Value error, ", ": ")
    return text if context is None else f"{text}; see `{context.command_path} --help`"


def _place(error: BaseException) -> str:
    """Return the innermost line of opinfo in a traceback, or else the innermost line."""
    import traceback

    root = str(Path(os.path.abspath(__file__)).parents[2])
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if f.filename.startswith(root)]
    if not frames:
        return "unknown line"
    last = (ours or frames)[-1]
    name = last.filename
    return f"{os.path.relpath(name, os.path.dirname(root)) if ours else name}:{last.lineno}"


def _discard_output() -> None:
    """Redirect standard output to nowhere, or flushing its buffer would fail again at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
