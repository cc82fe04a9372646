"""Find OpenBLAS: the package `scipy-openblas32` or `scipy-openblas64`."""

from __future__ import annotations

import functools
from pathlib import Path

from ..common.installed import homes, linked, no_compiler, version_of

PACKAGES = ("scipy_openblas32", "scipy_openblas64")
MEND = "pip install 'opinfo[blas]'"


def available() -> str | None:
    """Why OpenBLAS cannot be used; None if it can."""
    if library() is None:
        return no_compiler() or f"OpenBLAS is not installed ({MEND})"
    return no_compiler()


def version() -> str:
    """The version of the package; empty if it is not installed."""
    versions = ((name, version_of(name)) for name in PACKAGES)
    return next((f"{name} {v}" for name, v in versions if v), "")


def options() -> tuple[str, ...]:
    """The compiler options for OpenBLAS."""
    shared = library()
    if shared is None:
        raise RuntimeError(available())
    return ("-O3", "-fno-math-errno", *linked(shared.parent.parent / "include", shared))


@functools.cache
def library() -> Path | None:
    """The shared object of the first package that also has the headers."""
    for name in PACKAGES:
        for home in homes(name):
            libraries = sorted(home.glob("lib/libscipy_openblas*.so"))
            if libraries and (home / "include" / "cblas.h").exists():
                return libraries[0]
    return None
