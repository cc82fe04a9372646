"""Where oneDNN is: the packages `onednn-devel-cpu-gomp` (headers) and `onednn-cpu-gomp`."""

from __future__ import annotations

import functools
import shutil
from importlib.metadata import PackageNotFoundError, files
from importlib.metadata import version as metadata_version
from pathlib import Path

HEADERS = "onednn-devel-cpu-gomp"
LIBRARY = "onednn-cpu-gomp"
MEND = "pip install 'opinfo[onednn]'"


def available() -> str | None:
    """Why it cannot be used, None if it can."""
    if shutil.which("g++") is None:
        return "there is no g++"
    if include() is None:
        return f"the headers of oneDNN are not installed ({MEND})"
    if library() is None:
        return f"libdnnl is not installed ({MEND})"
    return None


def version() -> str:
    """That of the library; empty where it is not installed."""
    try:
        return metadata_version(LIBRARY)
    except PackageNotFoundError:
        return ""


def options() -> tuple[str, ...]:
    """What the compiler needs. The library is found by its path when the result is loaded."""
    headers, shared = include(), library()
    if headers is None or shared is None:
        raise RuntimeError(available() or "oneDNN is not installed")
    folder = shared.parent
    now = "-Wl,--no-as-needed,-z,now"  # what is missing is told when the result is loaded
    return ("-O1", "-std=c++17", f"-I{headers}", now, str(shared), f"-Wl,-rpath,{folder}")


@functools.cache
def include() -> Path | None:
    """The folder with `oneapi/dnnl/dnnl.hpp`."""
    found = _find(HEADERS, "oneapi/dnnl/dnnl.hpp")
    return None if found is None else found.parents[2]


@functools.cache
def library() -> Path | None:
    """The shared object, by the name that it has at run time."""
    return _find(LIBRARY, "libdnnl.so.3")


def _find(package: str, ending: str) -> Path | None:
    try:
        listed = files(package) or []
    except PackageNotFoundError:
        return None
    paths = (Path(str(f.locate())).resolve() for f in listed if str(f).endswith(ending))
    return next((p for p in paths if p.exists()), None)
