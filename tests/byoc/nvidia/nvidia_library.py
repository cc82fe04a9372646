"""C++ of NVIDIA's backends over the headers of `nvidia_stub`, and kernels for the host."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import tvm_ffi

from opinfo.byoc.backends.nvidia.cudnn.cudnn import HEADERS
from opinfo.byoc.backends.nvidia.cudnn.kernels.conv_epilogue import source
from opinfo.byoc.backends.nvidia.libraries.source import library_headers

from ...common.compiled_once import compiled_once, kept_text

Array = np.ndarray[Any, Any]
STUB = Path(__file__).parent / "nvidia_stub"
#: What computes on the host what the headers declare.
LIBRARIES = ("cuda_runtime.cpp", "cublasLt.cpp", "cudnn.cpp", "cudnn_attention.cpp")
#: Options of generated C++, without those of `stub_options`.
OPTIONS = ("-Og", "-std=c++17", f"-I{STUB}", "-DOPINFO_DEVICE=kDLCPU")


def stub_options() -> tuple[str, ...]:
    """Options by which generated C++ is compiled and linked with the stub."""
    return (*OPTIONS, driver(), stub())


def driver() -> str:
    """The option by which generated C++ loads the stub of CUDA's driver."""
    library = compiled_once(f"-I{STUB}", str(STUB / "libcuda.cpp"), stub(), "-ldl")
    return f'-DOPINFO_LIBCUDA="{library}"'


def stub() -> str:
    """The library of the headers. All libraries of a process share it, and what it counts."""
    files = [str(STUB / name) for name in LIBRARIES]
    return str(compiled_once(f"-I{STUB}", "-Wl,-z,nodelete", *files))


def stub_library(text: str) -> Path:
    """Compile C++ to a library on CPUs, and return its path."""
    folders = [f"-I{p}" for p in tvm_ffi.libinfo.include_paths()]
    return compiled_once(*stub_options(), *folders, tvm_ffi.libinfo.find_libtvm_ffi(), text=text)


def convolutions() -> Path:
    """cuDNN's convolutions, by the functions of `convolutions.cpp`."""
    headers = library_headers("opinfo.byoc.backends.nvidia.cudnn", *HEADERS)
    return stub_library(headers + (STUB / "convolutions.cpp").read_text("utf-8"))


@functools.cache
def host_kernels(text: str) -> bytes:
    """Compile kernels for the host; in place of `compiled` of nvrtc/kernel_image.py.

    The result lives as long as this process: libraries keep its address.
    """
    kernels = re.findall(r'^extern "C" __global__ .*\b(\w+)\((\w+) \w+\) \{', text, re.M)
    text += "".join(f"\nEMULATED_KERNEL({name}, {kind})" for name, kind in kernels)
    path = compiled_once("-Wno-unknown-pragmas", f'-DKERNEL="{kept_text(text, ".cu")}"',
                         str(STUB / "emulated_kernel.cpp"), "-ldl")  # fmt: skip
    return f"{path}\0".encode()


def load_copy(library: Path, folder: Path, dtypes: Iterable[str] = ("float32",)) -> Any:
    """Load a copy of `convolutions`, which has its own memory as in another process."""
    folder.mkdir(exist_ok=True)
    copy = folder / f"{len(os.listdir(folder))}.so"
    shutil.copy(library, copy)
    loaded = ctypes.CDLL(str(copy))
    for dtype in dtypes:
        loaded.kernels(host_kernels(source(dtype)))
    return loaded


def in_memory(array: Array, dtype: str, last: bool) -> Array:
    """An array of images with the channels first, as a library takes it: perhaps last."""
    array = np.moveaxis(array, 1, -1) if last and array.ndim == 4 else array
    return np.ascontiguousarray(array).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
