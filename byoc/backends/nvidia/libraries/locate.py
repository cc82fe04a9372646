"""Find NVIDIA's headers and libraries: in packages from PyPI, or in a system toolkit.

A package may hold headers that include others which it lacks, so the first folder is taken whose
header finds all that it includes.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ....codegen.compilers.kept_code import kept_code
from ....codegen.loading.cuda_device import no_gpu
from ....patterns.failure import first_error
from ...common.installed import homes, linked, no_compiler, package_folders


@dataclass(frozen=True)
class CudaLibrary:
    """A library by its header, its shared object and the packages that may hold them.

    Attributes:
        name: Its name for people.
        header: Its header.
        shared: Its shared object, without the suffix; empty if all of it is in the headers.
        packages: Packages of PyPI that may hold both, the newest first.
        others: Packages of PyPI with headers that its header includes.
        needs: Libraries whose headers its header includes.
    """

    name: str
    header: str
    shared: str
    packages: tuple[str, ...]
    others: tuple[str, ...] = ()
    needs: tuple[CudaLibrary, ...] = ()

    def includes(self) -> tuple[Path, ...]:
        """The folder with the header, then those of what it includes; empty if none compiles."""
        compiling = (f for f in self._candidates() if self._error(f) is None)
        return next(compiling, ())

    def library(self) -> Path | None:
        """The shared object, by the name that it has at run time."""
        if not self.shared:
            return None
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
        for needed in self.needs:
            if (reason := needed.missing()) is not None:
                return reason
        if not self.includes():
            return self._no_header()
        if self.shared and self.library() is None:
            return f"{self.shared} is not installed ({self._install})"
        return None

    def _candidates(self) -> Iterator[tuple[Path, ...]]:
        needed = [folder for library in self.needs for folder in library.includes()]
        included = [folder for name in self.others for folder in package_folders(name, "include")]
        own = [f for f in _folders(self.packages, "include") if (f / self.header).exists()]
        toolkits = [root / kind for root in _roots() for kind in ("include", "include/cccl")]
        for more in ((), toolkits):  # versions are mixed only if nothing else compiles
            for folder in own:
                yield tuple(dict.fromkeys((folder, *needed, *included, *more)))

    def _error(self, folders: tuple[Path, ...]) -> str | None:
        return _compile_error(self.header, folders)

    def _no_header(self) -> str:
        tried = list(self._candidates())
        if not tried:
            return f"{self.header} of {self.name} is not installed ({self._install})"
        most = tried[-1]  # has the folders of all others
        return f"{most[0] / self.header} does not compile: {self._error(most)} ({self._install})"

    @property
    def _install(self) -> str:
        """How to install it, with all that its header includes."""
        if self.packages:
            return "pip install 'opinfo[cuda]'"
        return f"install it with its headers, and set {self.name.upper()}_HOME to its folder"


CUDART = CudaLibrary("CUDA", "cuda_runtime_api.h", "libcudart",
                 ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"),
                 ("nvidia-cuda-crt", "nvidia-cuda-nvcc-cu12"))  # fmt: skip
CUBLASLT = CudaLibrary("cuBLASLt", "cublasLt.h", "libcublasLt",
                   ("nvidia-cublas", "nvidia-cublas-cu12"), needs=(CUDART,))  # fmt: skip
CUDNN = CudaLibrary("cuDNN", "cudnn.h", "libcudnn", ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12"),
                needs=(CUDART,))  # fmt: skip
#: cuDNN's graph API for C++: `cuda_fp16.h` needs `nv/target`, and its kernels `nvrtc.h`.
CUDNN_FRONTEND = CudaLibrary("cuDNN's frontend", "cudnn_frontend.h", "",
                         ("nvidia-cudnn-frontend",), ("nvidia-cuda-cccl", "nvidia-cuda-nvrtc"),
                         needs=(CUDNN,))  # fmt: skip
TENSORRT = CudaLibrary("TensorRT", "NvInfer.h", "libnvinfer", (), needs=(CUDART,))


def available(*libraries: CudaLibrary) -> str | None:
    """Why code for these libraries cannot be built and run here; None if it can."""
    if (reason := no_compiler()) is not None:
        return reason
    for lib in libraries:
        if (reason := lib.missing()) is not None:
            return reason
    return no_gpu()


def options(*libraries: CudaLibrary) -> tuple[str, ...]:
    """The compiler options. A compiled library finds these libraries by their paths."""
    out = ["-O1"]
    for lib in libraries:
        if (reason := lib.missing()) is not None:
            raise RuntimeError(reason)
        folders, shared = lib.includes(), lib.library()
        out += ["-std=c++17", "-ldl"] if shared is None else linked(folders[0], shared)
        out += [f"-I{folder}" for folder in folders[shared is not None :]]
    return tuple(out)


@functools.cache
def _compile_error(header: str, folders: tuple[Path, ...]) -> str | None:
    """Why a header does not compile; None if it does, or if no compiler is there to say so.

    It is only preprocessed: that finds what is missing, and cuDNN's frontend takes 20 s to parse.
    That it does is kept, as long as no file that it includes changes.
    """
    if no_compiler() is not None:
        return None
    words = ["g++", "-std=c++17", "-E", *(f"-I{folder}" for folder in folders)]
    with tempfile.TemporaryDirectory(prefix="opinfo-header-") as place:
        source, rule, nothing = (Path(place, n) for n in ("probe.cc", "probe.d", "probe.i"))
        source.write_text(f"#include <{header}>\n", encoding="utf-8")
        kept = kept_code([*words, str(source)])
        if kept is not None and kept.find(str(nothing)):
            return None
        command = [*words, "-MD", "-MF", str(rule), "-o", os.devnull, str(source)]
        compilation = subprocess.run(command, capture_output=True, text=True, check=False)
        if compilation.returncode != 0:
            return first_error(compilation.stderr)
        nothing.touch()
        if kept is not None:
            kept.keep(str(nothing), rule.read_text("utf-8", "replace"))
    return None


def _folders(packages: tuple[str, ...], kind: str) -> Iterator[Path]:
    for package in packages:
        yield from package_folders(package, kind)
    for root in _roots():
        yield from (root / kind, root / f"{kind}64")
    yield from map(Path, ("/usr/include", "/usr/include/x86_64-linux-gnu") if kind == "include"
                   else ("/usr/lib/x86_64-linux-gnu", "/usr/lib64"))  # fmt: skip


def _roots() -> Iterator[Path]:
    """Roots of toolkits: from the environment, of nvcc, of torch, and in the default places."""
    for name in ("CUDA_HOME", "CUDA_PATH", "TENSORRT_HOME", "CUDNN_FRONTEND_HOME"):
        if os.environ.get(name):
            yield Path(os.environ[name])
    compiler = shutil.which("nvcc")
    if compiler is not None:
        yield Path(compiler).resolve().parents[1]
    yield from homes("torch")
    yield Path("/usr/local/cuda")
    yield from sorted(Path("/usr/local").glob("cuda-*"), reverse=True)
