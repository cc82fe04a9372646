"""Object files in the user's cache: C++ that is the same for all models is compiled once."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tvm.support import cc

from ...codegen.compilers.toolchain import object_file
from .kept_file import kept_file


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
        OSError: Neither the cache nor a temporary folder can be written.
    """

    def write(part: Path) -> None:
        with tempfile.TemporaryDirectory(prefix=".source-") as temporary:
            source = Path(temporary) / "source.cpp"
            source.write_text(text, encoding="utf-8")
            object_file(str(part), str(source), options)

    return kept_file(folder, f"{name}.o", write)


def _changed(compiler: str) -> str:
    """When a compiler was installed: it may be another version at the same path."""
    try:
        return str(os.stat(compiler).st_mtime_ns)
    except OSError:
        return ""
