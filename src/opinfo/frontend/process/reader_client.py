"""Client of the reader process."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ...byoc.process import without_torch
from ...byoc.process.line_process import LineProcess, ProcessDied
from ..checks.error import FrontendError
from ..checks.input_shapes import Shapes
from ..checks.ir_json.large_constants import Message
from ..reading.limits import share
from .shared_memory import SharedMemory

MIB = 1 << 20
#: Limit on memory in bytes, in addition to the file's `share`.
BASE = 4 << 30
#: Limit on CPU seconds, in total and for each MiB; TVM's parser takes 25 s for a MiB of TVMScript.
SECONDS = 60
PER_MIB = {".py": 120}
OTHERS_PER_MIB = 5


@dataclass
class Reader(LineProcess):
    """A reader process; see `reader`. A client has at most one."""

    #: The packages around `reader` import TVM before it runs.
    command: tuple[str, ...] = without_torch.command("opinfo.frontend.process.reader")

    name: ClassVar[str] = "reader"
    #: Files are read in forks, in which a GPU that was asked for before does not work.
    environment: ClassVar[Mapping[str, str]] = {"CUDA_VISIBLE_DEVICES": ""}

    def read(self, path: Path, shapes: Shapes, seconds: int | None = None) -> Message:
        """Return the module of a file as an unchecked message; raises `FrontendError`.

        Args:
            path: The file.
            shapes: As in `opinfo.load`.
            seconds: Limit on CPU seconds; by default it depends on the file's size.
        """
        return self._limited(path, {"shapes": shapes}, seconds)

    def static_file(self, path: Path, digest: str, extents: Sequence[Sequence[int]]) -> Message:
        """Return an ONNX file with static shapes as an unchecked message; raises `FrontendError`.

        The arguments are those of `formats.static_onnx.static_file`.
        """
        return self._limited(path, {"static": [digest, extents]}, None)

    def _limited(self, path: Path, job: Mapping[str, Any], seconds: int | None) -> Message:
        """Return the bytes that a job on a file answers, within limits by the file's size."""
        try:
            size = path.stat().st_size
        except OSError as error:
            raise FrontendError(f"{path}: {error.strerror or error}") from error
        more = PER_MIB.get(path.suffix.lower(), OTHERS_PER_MIB)
        limit = SECONDS + more * (size // MIB) if seconds is None else seconds
        limits = {"path": str(path.absolute()), "seconds": limit, "memory": BASE + share(size)}
        with self._lock:
            self.seconds = 4 * limit + self.starting
            try:
                return self._read({**job, **limits})
            except ProcessDied as error:
                raise FrontendError(f"{path}: {error}") from error
            except FrontendError:
                raise
            except BaseException:  # an interrupt: its answer would be taken for the next file's
                self.close()
                raise

    def _read(self, job: dict[str, Any]) -> Message:
        self._start()
        with _memory(job["memory"]) as memory:
            if memory is not None:
                job = {**job, "into": [memory.path, memory.size]}
            try:
                answer = self._ask(job, "reading")
            except ProcessDied:  # it ended because it was idle
                self._start()
                answer = self._ask(job, "reading")
            if memory is not None and "shared" in answer:
                return memory.content(_length(answer["shared"], memory.size))
        if "module" in answer:
            return self._bytes(int(answer["module"]), self.seconds, "reading")
        text = str(answer.get("error", "the reader answered nothing"))
        raise FrontendError(text if answer.get("whole") else f"{job['path']}: {text}")


@contextlib.contextmanager
def _memory(size: int) -> Iterator[SharedMemory | None]:
    """Memory for an answer; None where the system has none."""
    try:
        memory = SharedMemory(size)
    except (OSError, ValueError, OverflowError):
        yield None
        return
    try:
        yield memory
    finally:
        memory.close()


def _length(text: Any, most: int) -> int:
    """Return a length that the process which read the file has written."""
    if isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) < 20:
        if 0 < (length := int(text)) <= most:
            return length
    raise FrontendError(f"the reader wrote {str(text)[:40]!r} bytes, expected 1 to {most}")


_guard = threading.Lock()
_reader: Reader | None = None


def shared_reader() -> Reader:
    """Return the reader of this process; a forked process gets a new one."""
    global _reader, _guard
    with _guard:
        if _reader is None:
            _reader = Reader()
            atexit.register(_reader.close)
        return _reader


def _forget() -> None:
    global _reader, _guard
    _reader, _guard = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
