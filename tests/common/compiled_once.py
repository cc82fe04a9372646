"""Shared libraries of C++ that tests need, compiled once for all processes of a run of pytest."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

#: The variable of the environment with the folder of a run, which ends with the run.
VARIABLE = "OPINFO_TEST_LIBRARIES"


def begin_run() -> tempfile.TemporaryDirectory[str] | None:
    """The folder of this run, for the process that starts the others; None for those."""
    if VARIABLE in os.environ:
        return None
    folder = tempfile.TemporaryDirectory(prefix="opinfo-test-libraries-")
    os.environ[VARIABLE] = folder.name
    return folder


def kept_text(text: str, suffix: str) -> Path:
    """A file with this text."""
    path = Path(os.environ[VARIABLE]) / f"{_key(text)}{suffix}"
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
        file.write(text)
    return Path(file.name).replace(path)  # another process may read it


@functools.cache
def compiled_once(*words: str, text: str = "") -> Path:
    """The library that g++ makes of a C++ text, options, and files that do not change."""
    source = kept_text(text, ".cc")
    library = source.with_name(f"{_key(text, *words)}.so")
    with library.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            part = library.with_suffix(".part")
            command = ["g++", "-Og", "-std=c++17", "-shared", "-fPIC", str(source), *words]
            subprocess.run([*command, "-o", str(part)], check=True)
            part.replace(library)
    return library


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
