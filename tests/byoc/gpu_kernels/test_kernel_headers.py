"""The headers of packages with which NVRTC compiles TVM's kernels, and TVM's runtime for a GPU."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opinfo.byoc.backends.nvidia.nvrtc import kernel_compiler
from opinfo.byoc.backends.nvidia.nvrtc import kernel_headers as subject
from opinfo.byoc.backends.nvidia.nvrtc.kernel_headers import NEEDED, kernel_headers
from opinfo.byoc.codegen.loading import cuda_device
from opinfo.byoc.compile import compile_module

from ...layout.nets import net


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages by their names; no toolkit is chosen by the user."""

    def folders(package: str, kind: str) -> tuple[Path, ...]:
        folder = tmp_path / package / kind
        return (folder,) if folder.exists() else ()

    monkeypatch.setattr(subject, "package_folders", folders)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    subject.header_folders.cache_clear()
    yield tmp_path
    subject.header_folders.cache_clear()


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[list[bytes]]:
    """The options that a replacement of NVRTC was given."""
    seen: list[list[bytes]] = []
    nvrtc: Any = types.ModuleType("cuda.bindings.nvrtc")
    nvrtc.nvrtcCompileProgram = lambda program, count, options: seen.append(list(options))
    for name in ("cuda", "cuda.bindings"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", nvrtc)
    return seen


def put(folder: Path, names: tuple[str, ...]) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")


def compile_kernel() -> str | None:
    """Compile as TVM does; return where it looked for a toolkit."""
    sys.modules["cuda.bindings.nvrtc"].nvrtcCompileProgram(None, 1, [b"-default-device"])
    return os.environ.get("CUDA_PATH")


def complete(packages: Path) -> list[Path]:
    """Packages that together have all headers; return their folders."""
    runtime, crt, cccl = (packages / name / "include" for name in subject.PACKAGES)
    put(runtime, tuple(n for n in NEEDED if "/" not in n))
    put(crt, ("crt/mma.h",))
    put(cccl / "cccl", ("nv/target", "cuda/std/cstdint"))
    return [runtime, crt, cccl, cccl / "cccl"]


def test_headers_of_packages_are_added(packages: Path, given: list[list[bytes]]) -> None:
    folders = complete(packages)
    with kernel_headers():
        assert compile_kernel() == str(folders[0].parent)
    assert compile_kernel() is None
    added = [f"-I{folder}".encode() for folder in folders]
    assert given == [[b"-default-device", *added], [b"-default-device"]]


@pytest.mark.parametrize("missing", ["crt/mma.h", "cccl/nv/target", "cuda_fp16.h"])
def test_incomplete_packages_are_left_to_tvm(
    missing: str, packages: Path, given: list[list[bytes]]
) -> None:
    complete(packages)
    next(packages.rglob(missing)).unlink()
    with kernel_headers():
        assert compile_kernel() is None
    assert given == [[b"-default-device"]]


def test_the_toolkit_of_the_user_is_kept(
    packages: Path, given: list[list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    complete(packages)
    monkeypatch.setenv("CUDA_PATH", "/opt/cuda")
    with kernel_headers():
        assert compile_kernel() == "/opt/cuda"
    assert given == [[b"-default-device"]]


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        ("libcuda.so.1: cannot open shared object file", "NVIDIA's driver is not installed"),
        ("libcudart.so.13: cannot open shared object file", "pip install 'opinfo[cuda]'"),
    ],
)
def test_why_no_gpu_is_visible(
    raised: str, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    loaded: list[str] = []

    def load(path: str) -> Any:
        loaded.append(path)
        if "tvm_runtime_cuda" in path:
            raise OSError(raised)

    shared = tmp_path / "libcudart.so.13"
    monkeypatch.setattr(cuda_device, "_packaged", lambda: [shared])
    monkeypatch.setattr("ctypes.CDLL", load)
    known = {k: v for k, v in cuda_device.LOADED.items() if k != cuda_device.RUNTIME}
    monkeypatch.setattr(cuda_device, "LOADED", known)
    cuda_device.no_runtime.cache_clear()
    try:
        found = cuda_device.no_gpu()
    finally:
        cuda_device.no_runtime.cache_clear()
    assert found is not None and found.startswith("no NVIDIA GPU is visible") and reason in found
    assert loaded[0] == str(shared)  # before TVM's library, which needs it


@pytest.mark.parametrize(("version", "message"), [(12080, "for CUDA 12.8"), (13000, ""), (0, "")])
def test_an_old_driver_is_named(
    version: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Driver:
        @staticmethod
        def cuDriverGetVersion(number: Any) -> None:
            number._obj.value = version

    monkeypatch.setattr("ctypes.CDLL", lambda path: Driver)
    reason = cuda_device._old_driver()
    assert (reason is None) if not message else (reason is not None and message in reason)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("bindings", "cuda-bindings is not installed (pip install 'opinfo[cuda]')"),
        ("library", "libnvrtc is not installed (pip install 'opinfo[cuda]')"),
        ("headers", "nv/target, which they include, is not installed (pip install 'opinfo[cuda]')"),
        ("", None),
    ],
)
@pytest.mark.usefixtures("given")
def test_what_kernels_cannot_be_compiled_without(
    broken: str, reason: str | None, packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version() -> None:
        if broken == "library":
            raise RuntimeError('Failure finding "libnvrtc.so"')

    nvrtc: Any = sys.modules["cuda.bindings.nvrtc"]
    nvrtc.nvrtcVersion = version
    monkeypatch.setattr(kernel_compiler, "_TOOLKIT", packages / "none")
    monkeypatch.setenv("PATH", str(packages))
    monkeypatch.delenv(kernel_compiler.MODE, raising=False)
    if broken == "bindings":
        monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", None)
    complete(packages)
    if broken == "headers":
        (packages / "nvidia-cuda-cccl/include/cccl/nv/target").unlink()
    assert kernel_compiler.no_kernel_compiler() == reason
    monkeypatch.setenv(kernel_compiler.MODE, "nvcc")
    reason = kernel_compiler.no_kernel_compiler()
    assert reason == f"nvcc is not on PATH, which {kernel_compiler.MODE} asks for"


def test_a_model_is_not_taken_apart_for_want_of_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions would be excluded one by one, as if they did not build."""
    monkeypatch.setattr("opinfo.byoc.compile.no_kernel_compiler", lambda: "no NVRTC")
    with pytest.raises(FileNotFoundError, match="kernels of a GPU cannot be compiled: no NVRTC"):
        compile_module(net(lambda e, r, x: x, (4,)), [], target="cuda -arch=sm_90")
