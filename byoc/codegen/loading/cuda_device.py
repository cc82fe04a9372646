"""The GPUs of this machine.

TVM's package has its CUDA runtime in a library of its own, which needs CUDA's. PyPI's
`nvidia-cuda-runtime` puts that where the dynamic linker does not look, so TVM goes without it and
sees no GPU, unless torch was imported first. Here it is loaded by its path.
"""

from __future__ import annotations

import ctypes
import functools
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

import tvm

#: TVM's libraries of this process, by name.
LOADED: dict[str, Any] = tvm.base._LOADED_LIBS
#: TVM's library with devices and modules of CUDA, and the one of CUDA that it needs.
RUNTIME, CUDART = "tvm_runtime_cuda", "libcudart.so.13"
#: The major version of CUDA that TVM's runtime is for.
CUDA = 13


class NoGpu(RuntimeError):
    """A GPU is needed, and none is visible; the message says why."""


def cuda_device(number: int = 0) -> Any:
    """Return a device of CUDA, after TVM's runtime for it was loaded if it can be."""
    no_runtime()
    return tvm.cuda(number)


@functools.cache
def no_runtime() -> str | None:
    """Load TVM's CUDA runtime, and return why that fails; None if it is loaded."""
    if RUNTIME in LOADED:
        return None
    folder = Path(LOADED["tvm_runtime"]._name).resolve().parent
    path = folder / f"lib{RUNTIME}.so"
    if not path.exists():
        return f"this package of TVM has no {path.name}"
    try:
        for shared in _packaged():
            ctypes.CDLL(str(shared))
        LOADED[RUNTIME] = ctypes.CDLL(str(path))
    except OSError as error:
        return _explained(str(error))
    return None


def _packaged() -> list[Path]:
    """The library of CUDA in its package."""
    try:
        listed = files("nvidia-cuda-runtime") or []
    except PackageNotFoundError:
        return []
    return [Path(str(f.locate())) for f in listed if f.name == CUDART]


def needed_gpu(what: str) -> Any:
    """Return the GPU of this machine. Raises `NoGpu`, with ``what`` in front, if there is none."""
    if (reason := no_gpu()) is not None:
        raise NoGpu(f"{what}: {reason}")
    return tvm.cuda(0)


def no_gpu() -> str | None:
    """Why code cannot run on a GPU here; None if it can."""
    reason = no_runtime()
    if reason is None and tvm.cuda(0).exist:
        return None
    reason = reason or _old_driver()
    seen = "no NVIDIA GPU is visible to TVM's CUDA runtime"
    return seen if reason is None else f"{seen}: {reason}"


def _old_driver() -> str | None:
    """That the driver is too old for TVM's runtime; None if it is not."""
    version = ctypes.c_int(0)
    try:
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return None
    major, minor = version.value // 1000, version.value % 1000 // 10
    if not 0 < major < CUDA:
        return None
    return f"the driver is for CUDA {major}.{minor}, expected {CUDA} or later (driver 580)"


def _explained(reason: str) -> str:
    if reason.startswith("libcuda.so"):
        return "NVIDIA's driver is not installed (no libcuda.so.1)"
    if reason.startswith(CUDART):
        return f"{CUDART} is not installed (pip install 'opinfo[cuda]')"
    return reason
