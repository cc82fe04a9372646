"""What a compiled kernel depends on, as a key of `KernelStore`."""

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

#: All of opinfo: which of its modules a kernel's code comes from is not guessed.
PACKAGE = Path(__file__).parents[2]
#: What decides on code, or proves that it is right, beside opinfo.
TOOLS = ("opinfo", "apache-tvm", "apache-tvm-ffi", "z3-solver", "highspy", "numpy")
CPUINFO = Path("/proc/cpuinfo")
#: Hexadecimal digits of a key: 160 bits.
DIGITS = 40


def key(func: Any, values: Mapping[str, int], target: Any, schedule: str = "") -> str:
    """The same in every process for the same kernel, another one for any other.

    ``func``: the PrimFunc, bound or symbolic, or its `fingerprint`; ``values``: what its
    symbolic extents are; ``schedule``: what decides how it is scheduled beside the source of this
    package, such as a database of tuned schedules.
    """
    print_ = func if isinstance(func, str) else fingerprint(func)
    told = [print_, sorted(values.items()), str(target), schedule, toolchain()]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:DIGITS]


@lru_cache(maxsize=1024)
def fingerprint(func: Any) -> str:
    """Of a PrimFunc, whatever its name is.

    TVM's structural hash has 64 bits and a wrong kernel is a wrong answer: the text counts too.
    """
    import tvm_ffi

    if func.attrs and "global_symbol" in func.attrs:
        func = func.without_attr("global_symbol")
    text = hashlib.sha256(func.script(show_meta=True).encode()).hexdigest()
    return f"{tvm_ffi.structural_hash(func):016x}-{text[:DIGITS]}"


@cache
def toolchain() -> str:
    """Versions of what makes kernels, and the CPU that they are made for.

    Installed plug-ins count like opinfo's own files: schedules go by what recognisers say.
    """
    tools = (f"{n} {version(n)} {_binaries(n)}".rstrip() for n in TOOLS)
    outside = plugins.fingerprint()
    return "; ".join([*tools, sources(), *([f"plug-ins {outside}"] if outside else []), cpu()])


@cache
def sources() -> str:
    """A digest of opinfo's files: versions do not change while it is worked on."""
    digest = hashlib.sha256()
    for path in source_files():
        raw = path.read_bytes()
        digest.update(f"{path.relative_to(PACKAGE).as_posix()}\0{len(raw)}\0".encode() + raw)
    return digest.hexdigest()[:16]


def source_files() -> list[Path]:
    """Code and data of the package. Its folders are links where it is worked on."""
    found: list[Path] = []
    for folder, inner, names in os.walk(PACKAGE, followlinks=True):
        inner[:] = [name for name in inner if name != "__pycache__"]
        found += (Path(folder, name) for name in names)
    return sorted(found)


def _binaries(name: str) -> str:
    """A digest of a distribution's libraries as its record lists them: a build of one version may
    differ from another, by its LLVM for instance."""
    record = distribution(name).read_text("RECORD") or ""
    lines = sorted(line for line in record.splitlines() if ".so" in line.partition(",")[0])
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16] if lines else ""


@cache
def cpu() -> str:
    """The processor's architecture and a digest of its features."""
    return f"{platform.machine()} {hashlib.sha256(_features().encode()).hexdigest()[:16]}"


def _features() -> str:
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        return platform.processor()
    found = {line for line in lines if line.startswith(("flags", "Features", "model name"))}
    return "\n".join(sorted(found))
