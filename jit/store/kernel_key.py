"""Keys of stored kernels: a digest of everything that a compiled kernel depends on."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any

from ...analysis.support import plugins
from ...analysis.support.files.file_digest import add_file

#: The whole package is hashed, so no dependency of a kernel can be missed.
PACKAGE = Path(__file__).parents[2]
#: Distributions that determine code or its proofs.
TOOLS = ("opinfo", "apache-tvm", "apache-tvm-ffi", "z3-solver", "highspy", "numpy")
CPUINFO = Path("/proc/cpuinfo")
#: Hexadecimal digits of a key: 160 bits.
DIGITS = 40


def key(func: Any, values: Mapping[str, int], target: Any, schedule: str = "") -> str:
    """Return the key of a kernel, equal in every process and different for every other kernel.

    Args:
        func: The PrimFunc, static or symbolic, or its `fingerprint`.
        values: The values of its symbolic extents.
        target: TVM's target.
        schedule: What determines the schedule besides this package, such as the version of a
            database of tuned schedules.
    """
    print_ = func if isinstance(func, str) else fingerprint(func)
    parts = [print_, sorted(values.items()), str(target), schedule, toolchain()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:DIGITS]


@lru_cache(maxsize=1024)
def fingerprint(func: Any) -> str:
    """Return a digest of a PrimFunc, independent of its name.

    It includes the text, because TVM's structural hash has only 64 bits and a collision would give
    wrong results.
    """
    import tvm_ffi

    if func.attrs and "global_symbol" in func.attrs:
        func = func.without_attr("global_symbol")
    text = hashlib.sha256(func.script(show_meta=True).encode()).hexdigest()
    return f"{tvm_ffi.structural_hash(func):016x}-{text[:DIGITS]}"


@cache
def toolchain() -> str:
    """Return the versions of everything that compiles kernels, and the CPU.

    Installed plug-ins count like opinfo's own files, because schedules depend on recognisers.
    """
    tools = (f"{n} {version(n)} {_binaries(n)}".rstrip() for n in TOOLS)
    outside = plugins.fingerprint()
    return "; ".join([*tools, sources(), *([f"plug-ins {outside}"] if outside else []), cpu()])


@cache
def sources() -> str:
    """Return a digest of opinfo's files, since the version is constant during development."""
    digest = hashlib.sha256()
    for path in source_files():
        add_file(digest, path.relative_to(PACKAGE).as_posix(), path)
    return digest.hexdigest()[:16]


def source_files() -> list[Path]:
    """Return all files of the package; in a checkout its folders are symbolic links."""
    paths: list[Path] = []
    for folder, inner, names in os.walk(PACKAGE, followlinks=True):
        inner[:] = [name for name in inner if name != "__pycache__"]
        paths += (Path(folder, name) for name in names)
    return sorted(paths)


def _binaries(name: str) -> str:
    """Return a digest of a distribution's shared libraries, from its record.

    Builds of one version may differ, for instance in their LLVM.
    """
    record = distribution(name).read_text("RECORD") or ""
    lines = sorted(line for line in record.splitlines() if ".so" in line.partition(",")[0])
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16] if lines else ""


@cache
def cpu() -> str:
    """Return the architecture of the CPU and a digest of its features."""
    return f"{platform.machine()} {hashlib.sha256(_features().encode()).hexdigest()[:16]}"


def _features() -> str:
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        return platform.processor()
    features = {line for line in lines if line.startswith(("flags", "Features", "model name"))}
    return "\n".join(sorted(features))
