"""C++ of NVIDIA's backends over the headers of `nvidia_stub`, as a library."""

from __future__ import annotations

import subprocess
from pathlib import Path

import tvm_ffi

STUB = Path(__file__).parent / "nvidia_stub"


def stub_library(library: Path, text: str) -> Path:
    """Compile C++ to a library on CPUs, and return its path."""
    source = library.with_suffix(".cc")
    source.write_text(text)
    folders = [f"-I{p}" for p in (STUB, *tvm_ffi.libinfo.include_paths())]
    runtime = tvm_ffi.libinfo.find_libtvm_ffi()
    subprocess.run(["g++", "-std=c++17", "-shared", "-fPIC", "-DOPINFO_DEVICE=kDLCPU", *folders,
                    str(source), runtime, "-o", str(library)], check=True)  # fmt: skip
    return library
