"""C++ of NVIDIA's backends over the headers of `nvidia_stub`, and kernels for the host."""

from __future__ import annotations

import functools
import hashlib
import re
import subprocess
import tempfile
from pathlib import Path

import tvm_ffi

STUB = Path(__file__).parent / "nvidia_stub"


def stub_library(library: Path, text: str) -> Path:
    """Compile C++ to a library on CPUs, and return its path."""
    source = library.with_suffix(".cc")
    source.write_text(text)
    folders = [f"-I{p}" for p in (STUB, *tvm_ffi.libinfo.include_paths())]
    runtime = tvm_ffi.libinfo.find_libtvm_ffi()
    # Without -O1 the loops of the stub take longer than it does.
    subprocess.run(["g++", "-O1", "-std=c++17", "-shared", "-fPIC", "-DOPINFO_DEVICE=kDLCPU",
                    driver(), *folders, str(source), runtime, "-o", str(library)],
                   check=True)  # fmt: skip
    return library


def driver() -> str:
    """The option by which generated C++ loads the stub of CUDA's driver."""
    return f'-DOPINFO_LIBCUDA="{_built("libcuda.cpp", "libcuda")}"'


@functools.cache
def host_kernels(source: str) -> bytes:
    """Compile kernels for the host; in place of `compiled` of nvrtc/kernel_image.py.

    The result lives as long as this process: libraries keep its address.
    """
    kernels = re.findall(r'^extern "C" __global__ .*\b(\w+)\((\w+) \w+\) \{', source, re.M)
    text = source + "".join(f"\nEMULATED_KERNEL({name}, {kind})" for name, kind in kernels)
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    kernel = _folder() / f"{name}.cu"
    kernel.write_text(text)
    path = _built("emulated_kernel.cpp", name, "-Wno-unknown-pragmas", f'-DKERNEL="{kernel}"')
    return f"{path}\0".encode()


@functools.cache
def _folder() -> Path:
    """Of this process: removed with its other files."""
    kept = tempfile.TemporaryDirectory(prefix="opinfo-kernels-")
    _KEPT.append(kept)
    return Path(kept.name)


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


@functools.cache
def _built(source: str, name: str, *words: str) -> Path:
    to = _folder() / f"{name}.so"
    command = ["g++", "-O1", "-std=c++17", "-shared", "-fPIC", *words, str(STUB / source), "-ldl"]
    subprocess.run([*command, "-o", str(to)], check=True)
    return to
