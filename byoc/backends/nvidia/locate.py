"""Find NVIDIA's headers and libraries: in packages from PyPI, or in a system toolkit."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import tvm

from ..common.installed import linked, no_compiler


@dataclass(frozen=True)
class CudaLibrary:
    """A library by its header, its shared object and the packages that may hold them."""

    name: str
    header: str
    shared: str
    packages: tuple[str, ...]

    def include(self) -> Path | None:
        """The folder with the header."""
        return _folder(self.header, self.packages, "include")

    def library(self) -> Path | None:
        """The shared object, by the name that it has at run time."""
        for folder in _folders(self.packages, "lib"):
            for name in (f"{self.shared}.so.*", f"{self.shared}.so"):
                paths = sorted(folder.glob(name), key=lambda path: len(path.name))
                if paths:
                    return paths[0]
        return None

    def version(self) -> str:
        """The version in the name of the shared object; empty if there is none."""
        path = self.library()
        return "" if path is None else path.resolve().name.partition(".so.")[2]

    def missing(self) -> str | None:
        """Why code for it cannot be built; None if it can."""
        suggestion = (
            f"pip install {self.packages[0]}" if self.packages else "see its installation guide"
        )
        if self.include() is None:
            return f"{self.header} of {self.name} is not installed ({suggestion})"
        return f"{self.shared} is not installed ({suggestion})" if self.library() is None else None


CUDART = CudaLibrary("CUDA", "cuda_runtime_api.h", "libcudart",
                 ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"))  # fmt: skip
CUBLASLT = CudaLibrary("cuBLASLt", "cublasLt.h", "libcublasLt",
                   ("nvidia-cublas", "nvidia-cublas-cu12"))  # fmt: skip
CUDNN = CudaLibrary("cuDNN", "cudnn.h", "libcudnn", ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12"))
TENSORRT = CudaLibrary("TensorRT", "NvInfer.h", "libnvinfer", ())


def available(*libraries: CudaLibrary) -> str | None:
    """Why code for these libraries cannot be built and run here; None if it can."""
    if (reason := no_compiler()) is not None:
        return reason
    for lib in libraries:
        if (reason := lib.missing()) is not None:
            return reason
    return no_gpu()


def no_gpu() -> str | None:
    """Why code cannot run on a GPU here; None if it can."""
    return None if tvm.cuda(0).exist else "no NVIDIA GPU is visible to TVM's CUDA runtime"


def options(*libraries: CudaLibrary) -> tuple[str, ...]:
    """The compiler options. A compiled library finds these libraries by their paths."""
    out = ["-O1"]
    for lib in libraries:
        if (reason := lib.missing()) is not None:
            raise RuntimeError(reason)
        include, shared = lib.include(), lib.library()
        assert include is not None and shared is not None
        out += linked(include, shared)
    return tuple(out)


def _folder(file: str, packages: tuple[str, ...], kind: str) -> Path | None:
    return next((f for f in _folders(packages, kind) if (f / file).exists()), None)


def _folders(packages: tuple[str, ...], kind: str) -> Iterator[Path]:
    for package in packages:
        yield from _installed(package, kind)
    for root in _roots():
        yield from (root / kind, root / f"{kind}64")
    yield from map(Path, ("/usr/include", "/usr/include/x86_64-linux-gnu") if kind == "include"
                   else ("/usr/lib/x86_64-linux-gnu", "/usr/lib64"))  # fmt: skip


@functools.cache
def _installed(package: str, kind: str) -> tuple[Path, ...]:
    """The folders called `include` or `lib` of an installed package."""
    try:
        listed = files(package) or []
    except PackageNotFoundError:
        return ()
    folders = (Path(str(f.locate())).resolve().parent for f in listed)
    return tuple(dict.fromkeys(p for p in folders if p.name == kind))


def _roots() -> Iterator[Path]:
    """Roots of toolkits: from the environment, of nvcc, and in the default places."""
    for name in ("CUDA_HOME", "CUDA_PATH", "TENSORRT_HOME"):
        if os.environ.get(name):
            yield Path(os.environ[name])
    compiler = shutil.which("nvcc")
    if compiler is not None:
        yield Path(compiler).resolve().parents[1]
    yield Path("/usr/local/cuda")
    yield from sorted(Path("/usr/local").glob("cuda-*"), reverse=True)
