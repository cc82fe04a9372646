"""Suppress the output of C++ libraries."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from typing import TextIO


@contextlib.contextmanager
def quiet() -> Iterator[TextIO]:
    """Redirect standard error of this process to nowhere; yields a stream to the real one.

    TVM's importers and legalisation print warnings and source dumps from C++, bypassing
    `sys.stderr`. The redirection affects the whole process and its children, so only the command
    line uses it.
    """
    if sys.stderr is not None:
        sys.stderr.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        real = os.dup(2)
    except OSError:  # standard error is closed
        real = os.dup(nowhere)
    encoding = getattr(sys.stderr, "encoding", None)
    with (
        open(real, "w", encoding=encoding, errors="backslashreplace", closefd=False) as stream,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        os.dup2(nowhere, 2)
        try:
            yield stream
        finally:
            stream.flush()
            os.dup2(real, 2)
            os.close(nowhere)
    os.close(real)
