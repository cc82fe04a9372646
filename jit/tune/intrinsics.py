"""Import the tensor intrinsics of one architecture only.

meta_schedule imports ``tvm.s_tir.tensor_intrin``, which parses TVMScript for CUDA, ROCm, Hexagon
and others for tens of seconds. A search for a CPU needs only the module of that CPU.
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
    """Replace the package within the context by one with only the modules of this CPU.

    Afterwards the package counts as not imported, so a later import loads all of it. Modules that
    were imported stay, because their registrations must not be repeated. Targets other than CPUs,
    and a package that is already imported, are left alone.
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
    """Return a package whose modules can be imported but whose ``__init__`` has not run."""
    parent = import_module(PACKAGE.rpartition(".")[0])
    spec = PathFinder.find_spec(PACKAGE, parent.__path__)
    if spec is None or spec.submodule_search_locations is None:
        raise ImportError(f"package {PACKAGE} not found")
    out = ModuleType(PACKAGE)
    out.__path__ = list(spec.submodule_search_locations)
    out.__spec__ = spec
    return out


def _needed(target: Any) -> list[str]:
    """Choose modules by LLVM's triple, or by this machine without one."""
    import platform

    triple = str(target.attrs.get("mtriple", "") or platform.machine()).lower()
    if triple.startswith(("aarch64", "arm")):
        return ["arm_cpu"]
    if triple.startswith("riscv"):
        return ["riscv_cpu"]
    return ["x86"] if triple.startswith(("x86", "amd64", "i386", "i686")) else []
