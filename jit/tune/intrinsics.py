"""The tensor intrinsics of one architecture, without those of all others.

meta_schedule imports ``tvm.s_tir.tensor_intrin``, which parses TVMScript for CUDA, ROCm, Hexagon, …
for tens of seconds of CPU. A search for a CPU needs those of that CPU, in one module of it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

PACKAGE = "tvm.s_tir.tensor_intrin"
_lock = threading.RLock()


@contextmanager
def only_for(target: Any) -> Iterator[None]:
    """Whoever imports the package meanwhile gets one with the modules of this CPU.

    After it the package is as if it had not been imported, so that importing it then gives all of
    it; modules that were imported remain, since they register what must be registered once. For
    what is no CPU, or where the package is imported already, nothing is done.
    """
    with _lock:
        if PACKAGE in sys.modules or str(target.kind.name) != "llvm":
            yield
            return
        parent = import_module(PACKAGE.rpartition(".")[0])
        sys.modules[PACKAGE] = stand_in = _stand_in()
        try:
            for name in _needed(target):
                import_module(f"{PACKAGE}.{name}")
            yield
        finally:
            if sys.modules.get(PACKAGE) is stand_in:
                del sys.modules[PACKAGE]
            if getattr(parent, "tensor_intrin", None) is stand_in:
                del parent.tensor_intrin


def _stand_in() -> ModuleType:
    """A package whose modules can be imported, but whose own code was not run."""
    parent = import_module(PACKAGE.rpartition(".")[0])
    spec = PathFinder.find_spec(PACKAGE, parent.__path__)
    if spec is None or spec.submodule_search_locations is None:
        raise ImportError(f"there is no package {PACKAGE}")
    out = ModuleType(PACKAGE)
    out.__path__ = list(spec.submodule_search_locations)
    out.__spec__ = spec
    return out


def _needed(target: Any) -> list[str]:
    """By LLVM's triple; without one the code is for this machine."""
    import platform

    triple = str(target.attrs.get("mtriple", "") or platform.machine()).lower()
    if triple.startswith(("aarch64", "arm")):
        return ["arm_cpu"]
    if triple.startswith("riscv"):
        return ["riscv_cpu"]
    return ["x86"] if triple.startswith(("x86", "amd64", "i386", "i686")) else []
