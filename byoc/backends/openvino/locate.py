"""Find OpenVINO: the package `openvino`, with headers and libraries of its C API."""

from __future__ import annotations

import functools
from pathlib import Path

from ..common.installed import homes, no_compiler, version_of

MEND = "pip install 'opinfo[openvino]'"


def available() -> str | None:
    """Why OpenVINO cannot be used; None if it can."""
    if (reason := no_compiler()) is not None:
        return reason
    if not homes("onnx"):
        return f"onnx is not installed ({MEND})"
    if library() is None:
        return f"libopenvino_c is not installed ({MEND})"
    return f"the headers of OpenVINO are not installed ({MEND})" if include() is None else None


def version() -> str:
    """The version of the package; empty if it is not installed."""
    return version_of("openvino")


@functools.cache
def library() -> Path | None:
    """The shared object of the C API. A compiled library opens it by this path, or by its name."""
    paths = (p for home in homes("openvino") for p in home.glob("libs/libopenvino_c.so.*"))
    return min(paths, default=None)


@functools.cache
def include() -> Path | None:
    """The folder with `openvino/c/openvino.h`."""
    folders = (home / "include" for home in homes("openvino"))
    return next((f for f in folders if (f / "openvino" / "c" / "openvino.h").exists()), None)
