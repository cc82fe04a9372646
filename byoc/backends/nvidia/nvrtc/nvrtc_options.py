"""Contexts that change what TVM gives NVRTC, for which TVM has no settings."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

#: Returns the options to compile with from those of TVM.
Change = Callable[[Sequence[bytes]], list[bytes]]


@contextmanager
def nvrtc_options(change: Change) -> Iterator[None]:
    """A context in which NVRTC gets other options; TVM reports if ``cuda.bindings`` is missing."""
    try:
        nvrtc: Any = importlib.import_module("cuda.bindings.nvrtc")
    except ImportError:
        yield
        return
    compiling = nvrtc.nvrtcCompileProgram

    def changed(program: Any, _: int, options: Any) -> Any:
        new_options = change(options)
        return compiling(program, len(new_options), new_options)

    nvrtc.nvrtcCompileProgram = changed
    try:
        yield
    finally:
        nvrtc.nvrtcCompileProgram = compiling


@contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    """A context with another value of a variable of the environment."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before
