"""What a compiled kernel depends on, as a key of :class:`.KernelStore`."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent
CPUINFO = Path("/proc/cpuinfo")
#: Hexadecimal digits of a key: 160 bits.
DIGITS = 40


def key(func: Any, values: Mapping[str, int], target: Any, schedule: str = "") -> str:
    """The same in every process for the same kernel, another one for any other.

    ``func``: the PrimFunc, bound or symbolic, or its :func:`fingerprint`; ``values``: what its
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
    """Versions of what makes kernels, and the CPU that they are made for."""
    names = ("opinfo", "apache-tvm", "apache-tvm-ffi")
    told = [*(f"{n} {version(n)}" for n in names), sources(), cpu()]
    return "; ".join(told)


@cache
def sources() -> str:
    """A digest of the source that schedules: versions do not change while it is worked on."""
    digest = hashlib.sha256()
    for folder in ("jit", "analysis"):
        for path in sorted((PACKAGE.parent / folder).rglob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


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
