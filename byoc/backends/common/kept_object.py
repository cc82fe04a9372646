"""Object files in the user's cache: C++ that is the same for all models is compiled once."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tvm.support import cc

from ....analysis.support.files.atomic_replace import replacing
from ....analysis.support.files.user_cache import user_cache
from ...codegen.compilers.toolchain import object_file
from ...process import trust

#: The suffix of the file beside an object with the digest of its content.
DIGEST = ".sha256"


def object_key(*parts: str) -> str:
    """A digest of what an object is compiled from, and of the compiler."""
    compiler = str(cc.get_cc())
    return hashlib.sha256("\0".join([*parts, compiler, _changed(compiler)]).encode()).hexdigest()[
        :24
    ]


def kept_object(folder: str, name: str, text: str, options: Sequence[str]) -> Path:
    """The object file of this name, from the cache or compiled now.

    Other processes that need it meanwhile wait for it.

    Args:
        folder: The folder in the user's cache.
        name: The name of the object, without suffix; it contains its `object_key`.
        text: The C++.
        options: Options of the compiler.

    Raises:
        CompilerError: It does not compile.
        OSError: The cache cannot be written, or other users could have written it.
        RuntimeError: The user has no home folder.
    """
    file = user_cache(folder) / f"{name}.o"
    if _is_kept(file):
        return file
    with _alone(file):
        if _is_kept(file):
            return file
        with tempfile.TemporaryDirectory(prefix=".source-", dir=file.parent) as temporary:
            source = Path(temporary) / "source.cpp"
            source.write_text(text, encoding="utf-8")
            with replacing(file) as part:
                object_file(str(part), str(source), options)
                digest = _digest(part.read_bytes())
            with replacing(file.with_suffix(DIGEST)) as part:
                part.write_text(digest, encoding="ascii")
    return file


def _changed(compiler: str) -> str:
    """When a compiler was installed: it may be another version at the same path."""
    try:
        return str(os.stat(compiler).st_mtime_ns)
    except OSError:
        return ""


def _is_kept(file: Path) -> bool:
    """Whether the object is there, with the content that was compiled."""
    with trust.folder(file.parent, create=True) as within:
        try:
            content = trust.read(file.name, within)
            digest = trust.read(file.with_suffix(DIGEST).name, within)
        except FileNotFoundError:
            return False
    return digest == _digest(content).encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@contextlib.contextmanager
def _alone(file: Path) -> Iterator[None]:
    """One process at a time compiles a file; the system ends the lock of one that dies."""
    try:
        import fcntl
    except ImportError:  # Windows: each process compiles it
        yield
        return
    path = file.with_suffix(".lock")
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)
