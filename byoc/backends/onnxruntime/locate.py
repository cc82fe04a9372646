"""Find ONNX Runtime: the package `onnxruntime`, with the shared object of its C API."""

from __future__ import annotations

import functools
from pathlib import Path

from ..common.installed import homes, no_compiler, version_of

MEND = "pip install 'opinfo[onnx]'"


def available() -> str | None:
    """Why ONNX Runtime cannot be used; None if it can."""
    if (reason := no_compiler()) is not None:
        return reason
    if not homes("onnx"):
        return f"onnx is not installed ({MEND})"
    return f"libonnxruntime is not installed ({MEND})" if library() is None else None


def version() -> str:
    """The version of the package; empty if it is not installed."""
    return version_of("onnxruntime")


@functools.cache
def library() -> Path | None:
    """The shared object. A compiled library opens it by this path, or else by its name."""
    paths = (p for home in homes("onnxruntime") for p in home.glob("capi/libonnxruntime.so*"))
    return min(paths, default=None)
