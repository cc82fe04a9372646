"""Shared libraries of C++ that tests need, compiled once for all runs of pytest.

They are kept in the user's cache, as the product keeps its objects. A name is made of all that a
library depends on, by content. So their paths stay, which code that contains them is kept by.
Another checkout has its headers, sources and packages elsewhere, which a name does not depend on.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from opinfo.analysis.support.files.bounded_folder import forget_oldest
from opinfo.analysis.support.files.user_cache import user_cache

#: The variable of the environment with the folder of all processes of a run, and bytes in it.
VARIABLE, MOST = "OPINFO_TEST_LIBRARIES", 256 << 20
#: How the names of files end that a library may include.
SOURCES = {".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp"}


def begin_run() -> None:
    """Name the folder of libraries to the processes that this starts."""
    if VARIABLE in os.environ:
        return
    folder = user_cache("test-libraries")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    forget_oldest(folder, MOST)
    os.environ[VARIABLE] = str(folder)


def kept_text(text: str, suffix: str) -> Path:
    """A file with this text. One that exists stays, as its time says when it changed."""
    path = Path(os.environ[VARIABLE]) / f"{_key(text)}{suffix}"
    if path.exists() and path.read_text("utf-8") == text:
        return path
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
        file.write(text)
    return Path(file.name).replace(path)  # another process may read it


@functools.cache
def compiled_once(*words: str, text: str = "") -> Path:
    """The library that g++ makes of a C++ text, options, and files.

    What its name depends on besides them: the files beside each file, as they may include each
    other, those in folders of headers, and the compiler.
    """
    source = kept_text(text, ".cc")
    library = source.with_name(f"{_key(text, *map(_named, words), *_contents(words))}.so")
    with _locked(library):
        if library.exists():
            os.utime(library)  # it was used last
            return library
        part = library.with_suffix(".part")
        command = ["g++", "-Og", "-std=c++17", "-shared", "-fPIC", str(source), *words]
        subprocess.run([*command, "-o", str(part)], check=True)
        part.replace(library)
    return library


@contextlib.contextmanager
def _locked(library: Path) -> Iterator[None]:
    with library.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _contents(words: tuple[str, ...]) -> list[str]:
    folders = [Path(w[2:]) for w in words if w.startswith("-I")]
    files = [Path(w) for w in words if w.startswith("/")]
    folders += [file.parent for file in files if file.suffix in SOURCES]
    binaries = [file for file in files if file.suffix not in SOURCES]
    binaries.append(Path(shutil.which("g++") or "g++").resolve())
    return [*map(_digest, dict.fromkeys(folders)), *map(_content, binaries)]


def _named(word: str) -> str:
    """A word without what its place is: folders of headers are compared by content.

    So are files; of them the name stays, which a library of a package is loaded by. One that a test
    compiled is loaded by its path.
    """
    if word.startswith("-I"):
        return "-I"
    compiled = word.startswith(os.environ[VARIABLE])
    return Path(word).name if word.startswith("/") and not compiled else word


@functools.cache
def _content(file: Path) -> str:
    """The digest of a binary. Its time is that of its last use."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


@functools.cache
def _digest(folder: Path) -> str:
    """The digest of all sources in a folder and those inside."""
    sources = sorted(p for p in folder.rglob("*") if p.suffix in SOURCES and p.is_file())
    return _key(*(f"{p.relative_to(folder)}\0{p.read_text('utf-8')}" for p in sources))


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
