"""Where OpenBLAS is: the package `scipy-openblas32`, or `scipy-openblas64`."""

from __future__ import annotations

import functools
import shutil
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as metadata_version
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("scipy_openblas32", "scipy_openblas64")
MEND = "pip install 'opinfo[blas]'"


def available() -> str | None:
    """Why it cannot be used, None if it can."""
    if shutil.which("g++") is None:
        return "there is no g++"
    if library() is None:
        return f"OpenBLAS is not installed ({MEND})"
    return None


def version() -> str:
    """That of the package; empty where there is none."""
    for name in PACKAGES:
        try:
            return f"{name} {metadata_version(name)}"
        except PackageNotFoundError:
            continue
    return ""


def options() -> tuple[str, ...]:
    """What the compiler needs. The library is found by its path when the result is loaded."""
    shared = library()
    if shared is None:
        raise RuntimeError(available() or "OpenBLAS is not installed")
    headers = shared.parent.parent / "include"
    now = "-Wl,--no-as-needed,-z,now"  # what is missing is told when the result is loaded
    return ("-O3", "-fno-math-errno", "-std=c++17", f"-I{headers}", now, str(shared),
            f"-Wl,-rpath,{shared.parent}")  # fmt: skip


@functools.cache
def library() -> Path | None:
    """The shared object; its headers are in the folder beside it."""
    for name in PACKAGES:
        spec = find_spec(name)
        for home in (spec.submodule_search_locations or []) if spec is not None else []:
            found = sorted(Path(home).glob("lib/libscipy_openblas*.so"))
            if found and (Path(home) / "include" / "cblas.h").exists():
                return found[0]
    return None
