"""Shared objects and headers in Python packages, and options for linking with them."""

from __future__ import annotations

import functools
import shutil
from importlib.metadata import PackageNotFoundError, files
from importlib.metadata import version as metadata_version
from importlib.util import find_spec
from pathlib import Path

#: Why no C++ can be compiled.
NO_COMPILER = "g++ is not on PATH"


def no_compiler() -> str | None:
    """Why no C++ compiler can be used; None if one can."""
    return NO_COMPILER if shutil.which("g++") is None else None


def version_of(package: str) -> str:
    """The version of a package; empty if it is not installed."""
    try:
        return metadata_version(package)
    except PackageNotFoundError:
        return ""


def homes(module: str) -> list[Path]:
    """The folders of a module, without importing it; empty if it is not installed."""
    spec = find_spec(module)
    return [] if spec is None else [Path(p) for p in spec.submodule_search_locations or ()]


def linked(include: Path, shared: Path) -> tuple[str, ...]:
    """Compiler options that link a library by its path.

    ``-z now`` resolves symbols at load time, so a missing one does not fail the first call.
    """
    return ("-std=c++17", f"-I{include}", "-Wl,--no-as-needed,-z,now", str(shared),
            f"-Wl,-rpath,{shared.parent}")  # fmt: skip


@functools.cache
def package_folders(package: str, kind: str) -> tuple[Path, ...]:
    """The folders called `include` or `lib` of an installed package."""
    try:
        listed = files(package) or []
    except PackageNotFoundError:
        return ()
    # One file for each folder: a package of headers has thousands.
    folders = {f.parts[: f.parts.index(kind) + 1]: f for f in listed if kind in f.parts[:-1]}
    places = (Path(str(f.locate())).parents[len(f.parts) - 1 - len(k)] for k, f in folders.items())
    return tuple(dict.fromkeys(place.resolve() for place in places))
