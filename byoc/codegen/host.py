"""The CPU that code is built for on this machine: its own, or one that is chosen for a test."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import tvm
from tvm.target import codegen

#: Names a CPU as LLVM does, ``haswell``: code is built for it instead of for this machine's CPU.
VARIABLE = "OPINFO_MCPU"
INFO = Path("/proc/cpuinfo")
#: CPUs by what decides the width of vectors, and each feature's name in `INFO`.
STEPS = (("skylake-avx512", "avx512f"), ("haswell", "avx2"), ("x86-64", "sse2"))


def native_target() -> Any:
    """The CPU of this machine, one thread. Raises ``ValueError`` as `cpu` does."""
    return tvm.target.Target({"kind": "llvm", "mcpu": cpu(), "num-cores": 1})


def cpu() -> str:
    """LLVM's name of this machine's CPU, or ``$OPINFO_MCPU``.

    Raises ``ValueError`` for a name that LLVM does not know, and for a CPU with wider vectors than
    this machine has: its code could not run here.
    """
    chosen = os.environ.get(VARIABLE)
    if not chosen:
        return _own()
    if not codegen.llvm_is_valid_cpu(chosen, codegen.llvm_get_system_triple()):
        raise ValueError(f"{VARIABLE}={chosen}: LLVM does not know this CPU; name one like haswell")
    missing = _vectors(chosen) - _vectors(_own())
    if missing:
        raise ValueError(f"{VARIABLE}={chosen}: this machine ({_own()}) lacks "
                         f"{', '.join(sorted(missing))}; name a CPU without")  # fmt: skip
    return chosen


def flags() -> frozenset[str]:
    """The instruction sets that code may use, without ``_`` and ``-``: ``avx512vnni``."""
    if os.environ.get(VARIABLE):
        return frozenset(_plain(f) for f in _features(cpu()))
    return _told()


def _own() -> str:
    """LLVM goes by the CPU's model; a hypervisor may hide instructions that the model has."""
    name, told = str(codegen.llvm_get_system_cpu()), _told()
    if not told or _vectors(name) <= told:
        return name
    return next((step for step, feature in STEPS if feature in told), "x86-64")


def _told() -> frozenset[str]:
    """What the system says; empty where it does not."""
    try:
        text = INFO.read_text(encoding="utf-8")
    except OSError:
        return frozenset()
    line = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return frozenset(map(_plain, line.partition(":")[2].split()))


def _vectors(name: str) -> set[str]:
    return {feature for _, feature in STEPS if feature in _features(name)}


def _features(name: str) -> set[str]:
    target = tvm.target.Target({"kind": "llvm", "mcpu": name})
    return {str(f) for f in codegen.llvm_get_cpu_features(target)}


def _plain(feature: str) -> str:
    return feature.replace("_", "").replace("-", "")
