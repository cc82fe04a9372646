"""Which of several installed headers are taken, on machines with and without a toolkit."""

from __future__ import annotations

from pathlib import Path

import pytest

from opinfo.byoc.backends.nvidia.libraries import locate
from opinfo.byoc.backends.nvidia.libraries.locate import CudaLibrary


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages by their names, each with `include` and `lib`; no toolkit."""

    def folders(package: str, kind: str) -> tuple[Path, ...]:
        folder = tmp_path / package / kind
        return (folder,) if folder.exists() else ()

    def all_folders(packages: tuple[str, ...], kind: str) -> list[Path]:
        return [f for p in (*packages, "toolkit") for f in folders(p, kind)]

    monkeypatch.setattr(locate, "package_folders", folders)
    monkeypatch.setattr(locate, "_folders", all_folders)
    return tmp_path


def put(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


RUNTIME = CudaLibrary("CUDA", "cuda_for_test.h", "libcudart_test", ("runtime",), ("crt",))
BLAS = CudaLibrary("BLAS", "blas_for_test.h", "libblas_test", ("blas",), needs=(RUNTIME,))


def test_headers_that_include_what_is_not_there_are_passed_over(installed: Path) -> None:
    put(installed / "runtime/include/cuda_for_test.h", "#include <crt/missing_part.h>\n")
    put(installed / "toolkit/include/cuda_for_test.h")
    put(installed / "toolkit/lib/libcudart_test.so.13")
    assert RUNTIME.includes() == (installed / "toolkit/include",)
    assert RUNTIME.missing() is None


def test_without_others_the_reason_names_the_header_and_the_package(installed: Path) -> None:
    header = installed / "runtime/include/cuda_for_test.h"
    put(header, "#include <crt/missing_part.h>\n")
    reason = RUNTIME.missing()
    assert reason is not None and reason.startswith(f"{header} does not compile: fatal error: ")
    assert "crt/missing_part.h" in reason and reason.endswith("(pip install 'opinfo[cuda]')")
    assert BLAS.missing() == reason


def test_a_package_of_headers_completes_another(installed: Path) -> None:
    put(installed / "runtime/include/cuda_for_test.h", "#include <crt/missing_part.h>\n")
    put(installed / "runtime/lib/libcudart_test.so.13")
    put(installed / "crt/include/crt/missing_part.h")
    put(installed / "blas/include/blas_for_test.h", "#include <cuda_for_test.h>\n")
    put(installed / "blas/lib/libblas_test.so.13")
    folders = [installed / name / "include" for name in ("blas", "runtime", "crt")]
    assert BLAS.includes() == tuple(folders) and BLAS.missing() is None
    options = locate.options(BLAS, RUNTIME)
    assert [o for o in options if o.startswith("-I")][:3] == [f"-I{f}" for f in folders]


def test_what_is_not_installed_is_said(installed: Path) -> None:
    assert RUNTIME.missing() == (
        "cuda_for_test.h of CUDA is not installed (pip install 'opinfo[cuda]')")  # fmt: skip
    put(installed / "runtime/include/cuda_for_test.h")
    assert RUNTIME.missing() == "libcudart_test is not installed (pip install 'opinfo[cuda]')"


def test_a_library_may_be_headers_alone(installed: Path) -> None:
    graphs = CudaLibrary("graphs", "graphs_for_test.h", "", ("graphs",), ("cccl",), (RUNTIME,))
    put(installed / "toolkit/include/cuda_for_test.h")
    put(installed / "toolkit/lib/libcudart_test.so.13")
    assert graphs.missing() == (
        "graphs_for_test.h of graphs is not installed (pip install 'opinfo[cuda]')")  # fmt: skip
    put(installed / "graphs/include/graphs_for_test.h", "#include <nv/target_for_test>\n")
    reason = graphs.missing()
    assert reason is not None and "nv/target_for_test: No such file" in reason
    put(installed / "cccl/include/nv/target_for_test")
    folders = [installed / name / "include" for name in ("graphs", "toolkit", "cccl")]
    assert graphs.includes() == tuple(folders) and graphs.missing() is None
    assert graphs.library() is None and graphs.version() == ""
    assert [o for o in locate.options(graphs) if o not in ("-std=c++17", "-ldl")] == [
        "-O1", *(f"-I{f}" for f in folders)]  # fmt: skip
