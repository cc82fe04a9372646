"""Whether TVM's kernels can be compiled here."""

from __future__ import annotations

import importlib
import os
import shutil
from pathlib import Path

from .kernel_headers import missing_headers

#: TVM's choice of a compiler; NVRTC by default.
MODE = "TVM_CUDA_COMPILE_MODE"
_INSTALL = "pip install 'opinfo[cuda]'"
#: Where TVM looks for a toolkit without the variable CUDA_PATH and without nvcc on PATH.
_TOOLKIT = Path("/usr/local/cuda")


def no_kernel_compiler() -> str | None:
    """Why TVM's kernels cannot be compiled; None if they can."""
    nvcc = shutil.which("nvcc") or (_TOOLKIT / "bin" / "nvcc").exists()
    if os.environ.get(MODE, "nvrtc").lower() == "nvcc":
        return None if shutil.which("nvcc") else f"nvcc is not on PATH, which {MODE} asks for"
    try:
        importlib.import_module("cuda.bindings.nvrtc").nvrtcVersion()
    except ImportError:
        return f"cuda-bindings is not installed ({_INSTALL})"
    except RuntimeError:  # it looks for the library when it is first called
        return f"libnvrtc is not installed ({_INSTALL})"
    missing = missing_headers()
    if not missing or nvcc or os.environ.get("CUDA_PATH"):
        return None
    return f"{missing[0]}, which they include, is not installed ({_INSTALL})"
