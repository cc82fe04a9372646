"""The C++ program loads an exported library without Python, and reports a failure in one line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

import opinfo

from ..layout import nets

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "cpp"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program ``run``, the library ``model.so`` of relu(x @ w), and an input ``x.bin``."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    out = tmp_path_factory.mktemp("cpp")
    build(out / "run")
    weight = relax.const(np.arange(32, dtype="float32").reshape(8, 4) - 16)
    mod = nets.net(
        lambda emit, rng, x: emit(relax.op.nn.relu(emit(relax.op.matmul(x, weight)))), (2, 8),
        legal=False,
    )  # fmt: skip
    opinfo.compile(mod, []).export(out / "model.so")
    values().tofile(out / "x.bin")
    return out


def build(program: Path, *words: str) -> None:
    command = ["make", "-C", str(FOLDER), f"PYTHON={sys.executable}", f"OUT={program}", *words]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0 and "warning" not in built.stderr, built.stderr


def values() -> np.ndarray:
    return np.linspace(-1, 2, 16, dtype="float32").reshape(2, 8)


def run(folder: Path, *words: str, program: str = "run") -> subprocess.CompletedProcess[str]:
    """Run it with an empty environment, which must suffice."""
    return subprocess.run([str(folder / program), *words], cwd=folder, env={}, capture_output=True,
                          text=True, check=False)  # fmt: skip


def test_cmake_builds_it_too(folder: Path, tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    python = f"-DPython_EXECUTABLE={sys.executable}"
    for words in (["-S", str(FOLDER), "-B", ".", python], ["--build", "."]):
        done = subprocess.run(["cmake", *words], cwd=tmp_path, capture_output=True, text=True,
                              check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr
    shutil.copy(tmp_path / "run", folder / "run_by_cmake")
    done = run(folder, "model.so", "main", "x.bin", "2,8", "z.bin", program="run_by_cmake")
    assert done.returncode == 0, done.stderr
    assert done.stdout == run(folder, "model.so", "main", "x.bin", "2,8", "y.bin").stdout


def test_it_computes_what_the_model_does(folder: Path) -> None:
    done = run(folder, "model.so", "main", "x.bin", "2,8", "y.bin")
    assert (done.returncode, done.stdout, done.stderr) == (0, "output shape 2 4\n", "")
    weight = np.arange(32, dtype="float32").reshape(8, 4) - 16
    result = np.fromfile(folder / "y.bin", "float32").reshape(2, 4)
    np.testing.assert_allclose(result, np.maximum(values() @ weight, 0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        ((), 2, "usage: run MODEL.so"),
        (("model.so", "decode", "x.bin", "2,8", "y.bin"), 1, "the model has no function decode"),
        (("model.so", "main", "x.bin", "3,8", "y.bin"), 1, "x.bin: expected 96 bytes, got 64"),
        (("model.so", "main", "gone.bin", "2,8", "y.bin"), 1, "gone.bin: cannot be read"),
        (("model.so", "main", "x.bin", "2x8", "y.bin"), 1, "shape 2x8: expected extents such as"),
        (("model.so", "main", "x.bin", "2,-8", "y.bin"), 1, "shape 2,-8: expected extents"),
        (("model.so", "main", "x.bin", "4,4", "y.bin"), 1, "shape[0] mismatch"),
        (("gone.so", "main", "x.bin", "2,8", "y.bin"), 1, "gone.so: cannot open shared object"),
    ],
)
def test_what_fails_is_one_line(
    folder: Path, words: tuple[str, ...], status: int, text: str
) -> None:
    done = run(folder, *words)
    assert done.returncode == status and done.stdout == ""
    assert text in done.stderr and done.stderr.count("\n") == 1


def test_the_command_of_the_page_builds_it(folder: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "guides" / "deploy-from-cpp.md").read_text()
    (command,) = (b for b in re.findall(r"```bash\n(.*?)```", page, re.DOTALL) if "g++" in b)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["bash", "-ec", command], cwd=tmp_path, env={**os.environ, "PATH": path},
                   check=True)  # fmt: skip
    for name in ("model.so", "x.bin"):
        shutil.copy(folder / name, tmp_path)
    assert run(tmp_path, "model.so", "main", "x.bin", "2,8", "y.bin").returncode == 0


def test_it_is_shipped_with_two_libraries(folder: Path, tmp_path: Path) -> None:
    build(tmp_path / "run", "RPATH=$$ORIGIN")
    for name in ("model.so", "x.bin"):
        shutil.copy(folder / name, tmp_path)
    words = ("model.so", "main", "x.bin", "2,8", "y.bin")
    assert "libtvm_runtime.so: cannot open" in run(tmp_path, *words).stderr
    for package, name in ((tvm, "libtvm_runtime.so"), (tvm_ffi, "libtvm_ffi.so")):
        shutil.copy(Path(package.__file__).parent / "lib" / name, tmp_path)
    assert run(tmp_path, *words).stdout == "output shape 2 4\n"
