"""The CPU to build code for: that of this machine, or one chosen by a variable."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import tvm
from tvm.target import codegen

#: Names the CPU to build for as LLVM does, such as ``haswell``, instead of this machine's.
VARIABLE = "OPINFO_MCPU"
INFO = Path("/proc/cpuinfo")
#: CPUs that introduced a vector width, and the name of that feature in `INFO`.
STEPS = (("skylake-avx512", "avx512f"), ("haswell", "avx2"), ("x86-64", "sse2"))


def native_target(threads: int = 1) -> Any:
    """The target for this machine's CPU. Raises as `cpu` does."""
    return tvm.target.Target({"kind": "llvm", "mcpu": cpu(), "num-cores": threads})


def cpu() -> str:
    """LLVM's name of this machine's CPU, or ``$OPINFO_MCPU``.

    Raises:
        ValueError: LLVM does not know the name, or the CPU has wider vectors than this machine,
            where its code could not run.
    """
    chosen = os.environ.get(VARIABLE)
    if not chosen:
        return _machine_cpu()
    if not codegen.llvm_is_valid_cpu(chosen, codegen.llvm_get_system_triple()):
        raise ValueError(
            f"{VARIABLE}={chosen}: LLVM does not know this CPU; expected a name such as haswell"
        )
    missing = _vectors(chosen) - _vectors(_machine_cpu())
    if missing:
        raise ValueError(f"{VARIABLE}={chosen}: this machine ({_machine_cpu()}) lacks "
                         f"{', '.join(sorted(missing))}; name a CPU without them")  # fmt: skip
    return chosen


def flags() -> frozenset[str]:
    """The instruction sets that code may use, without ``_`` and ``-``: ``avx512vnni``."""
    if os.environ.get(VARIABLE):
        return frozenset(_plain(f) for f in _features(cpu()))
    return _reported()


def _machine_cpu() -> str:
    """The CPU's name. LLVM goes by the model, of which a hypervisor may hide instructions."""
    name, flags = str(codegen.llvm_get_system_cpu()), _reported()
    if not flags or _vectors(name) <= flags:
        return name
    return next((step for step, feature in STEPS if feature in flags), "x86-64")


def _reported() -> frozenset[str]:
    """The features that the system reports; empty if it reports none."""
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


def model_name() -> str:
    """The CPU's model name, if the system reports it."""
    try:
        lines = INFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor())
