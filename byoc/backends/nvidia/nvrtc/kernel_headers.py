"""The headers with which NVRTC compiles TVM's kernels.

TVM looks for them in a toolkit, and raises if there is none. Here those of PyPI's packages are
taken first, since the NVRTC that Python loads is of these packages, too.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...common.installed import package_folders
from .nvrtc_options import environment, nvrtc_options

PACKAGES = ("nvidia-cuda-runtime", "nvidia-cuda-crt", "nvidia-cuda-cccl")
#: What TVM's kernels include, and what these headers include first.
NEEDED = ("cuda_runtime.h", "cuda_fp16.h", "cuda_bf16.h", "mma.h", "crt/mma.h", "nv/target",
          "cuda/std/cstdint")  # fmt: skip
#: Where TVM looks for a toolkit.
_ROOT = "CUDA_PATH"


@contextmanager
def kernel_headers() -> Iterator[None]:
    """A context in which TVM compiles kernels with the headers of packages, if they are complete.

    The variable CUDA_PATH of the user is kept.
    """
    folders = header_folders()
    if not folders or _ROOT in os.environ:
        yield
        return
    root = next(f for f in folders if (f / NEEDED[0]).exists()).parent
    added = [f"-I{folder}".encode() for folder in folders]
    with environment(_ROOT, str(root)), nvrtc_options(lambda options: [*options, *added]):
        yield


@functools.cache
def header_folders() -> tuple[Path, ...]:
    """The folders of the packages' headers; empty unless all that is needed is in them."""
    return () if missing_headers() else _folders()


def missing_headers() -> list[str]:
    """What is needed and in no package."""
    return [h for h in NEEDED if not any((folder / h).exists() for folder in _folders())]


def _folders() -> tuple[Path, ...]:
    of_packages = [folder for name in PACKAGES for folder in package_folders(name, "include")]
    return tuple(dict.fromkeys(f for p in of_packages for f in (p, p / "cccl") if f.is_dir()))
