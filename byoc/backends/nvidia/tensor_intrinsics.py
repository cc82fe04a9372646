"""TVM's intrinsics of tensor cores, imported in 2 s of CPU time instead of 30.

TVM parses 248 scripts when it imports them. Each decorator lists the frames of the stack with their
source lines, for which Python looks through all modules that are imported, and reads one line.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import linecache
import sys
from collections.abc import Iterator
from types import FrameType, ModuleType

from tvm.tirx.script.parser import entry

#: The frame whose line says whether a function is in a class, counted from the decorator's.
_READ = 2


@functools.cache
def import_tensor_intrinsics() -> None:
    """Import what TVM's rules for products import, once in a process."""
    with short_stacks():
        importlib.import_module("tvm.s_tir.tensor_intrin")


@contextlib.contextmanager
def short_stacks() -> Iterator[None]:
    """Let TVM's decorator of PrimFuncs list frames with no more than what it reads of them."""
    original = entry.inspect
    entry.inspect = with_short_stack(original)
    try:
        yield
    finally:
        entry.inspect = original


def with_short_stack(module: ModuleType) -> ModuleType:
    """Return a copy of `inspect` with `stack` in place of its own."""
    copy = ModuleType(module.__name__)
    vars(copy).update(vars(module))
    copy.stack = stack  # type: ignore[attr-defined]
    return copy


def stack() -> list[inspect.FrameInfo]:
    """Return the frames of `inspect.stack`, from the caller's, with the source line of one."""
    frames: list[inspect.FrameInfo] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code, line = frame.f_code, frame.f_lineno
        read = len(frames) == _READ
        lines = [linecache.getline(code.co_filename, line, frame.f_globals)] if read else None
        frames.append(inspect.FrameInfo(
            frame, code.co_filename, line, code.co_name, lines, 0 if read else None
        ))  # fmt: skip
        frame = frame.f_back
    return frames
