"""Where ONNX Runtime is: the package `onnxruntime`, with the shared object of its C API."""

from __future__ import annotations

import functools
import shutil
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as metadata_version
from importlib.util import find_spec
from pathlib import Path

MEND = "pip install 'opinfo[onnx]'"


def available() -> str | None:
    """Why it cannot be used, None if it can."""
    if shutil.which("g++") is None:
        return "there is no g++"
    if find_spec("onnx") is None:
        return f"onnx is not installed ({MEND})"
    if library() is None:
        return f"libonnxruntime is not installed ({MEND})"
    return None


def version() -> str:
    """That of the package; empty where it is not installed."""
    try:
        return metadata_version("onnxruntime")
    except PackageNotFoundError:
        return ""


@functools.cache
def library() -> Path | None:
    """The shared object. It is found by this path when a result is loaded, or else by its name."""
    spec = find_spec("onnxruntime")
    for home in (spec.submodule_search_locations or []) if spec is not None else []:
        found = sorted(Path(home).glob("capi/libonnxruntime.so*"))
        if found:
            return found[0]
    return None
