"""The object file that runs parallel loops of TVM's code on the threads of other code."""

from __future__ import annotations

from importlib.resources import files

from ..backends.common.kept_object import kept_object, object_key
from ..backends.common.region_source import LOOPS
from ..codegen.compilers.toolchain import CompilerError


def parallel_launch() -> str | None:
    """Return the path of the object; None if it cannot be compiled or kept.

    It is for libraries with code of `THREADS`. Parallel loops of other libraries run on TVM's pool.
    """
    text = LOOPS + (files(__package__) / "parallel_launch.hpp").read_text(encoding="utf-8")
    words = ("-std=c++17",)
    try:
        return str(kept_object("runtimes", f"parallel-{object_key(text, *words)}", text, words))
    except (CompilerError, OSError):
        return None
