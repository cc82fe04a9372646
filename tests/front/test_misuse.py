"""Calls with wrong arguments: the error names what was got, what was expected, and what to do."""

from __future__ import annotations

import copy
import errno
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tvm.script import relax as R
from tvm.script import tirx as T
from tvm.script.parser import ir as I

import opinfo
from opinfo.analysis.support.files.atomic_replace import replacing
from opinfo.byoc.building.build_library import copy_library
from opinfo.byoc.codegen.compilers import toolchain
from opinfo.byoc.codegen.compilers.toolchain import CompilerError
from opinfo.byoc.codegen.loading.load_checked import LoadError
from opinfo.cli.run.console_messages import refusing
from opinfo.cli.run.exit_status import UserError


@I.ir_module
class Product:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 4), "float32")) -> R.Tensor(
        ("n", 4), "float32"
    ):
        n = T.int64()
        with R.dataflow():
            y: R.Tensor((n, 4), "float32") = R.matmul(x, w)
            R.output(y)
        return y


#: What types do not allow.
ANYTHING: Callable[[Any], Any] = lambda value: value  # noqa: E731
X = np.arange(24, dtype="float32").reshape(3, 8) / 10
W = np.arange(32, dtype="float32").reshape(8, 4) / 10


@pytest.fixture(scope="module")
def compiled() -> Any:
    return opinfo.compile(Product, backends=[])


@pytest.mark.parametrize(
    "x",
    [
        np.asfortranarray(X), X[::-1], np.broadcast_to(X[:1], (3, 8)), np.zeros((0, 8), "float32"),
        np.frombuffer(b"\0" + X.tobytes(), "uint8")[1:].view("float32").reshape(3, 8),
    ],
)  # fmt: skip
def test_arrays_in_any_memory(compiled: Any, x: Any) -> None:
    np.testing.assert_allclose(compiled.run(x, W), x @ W, rtol=1e-5)


@pytest.mark.parametrize(
    ("x", "reason"),
    [
        (X.astype(">f4"), "argument x is >f4; it must be float32"),
        (X.astype(ml_dtypes.bfloat16), "argument x is bfloat16; it must be float32"),
        (X.astype(ml_dtypes.float8_e4m3fn), "argument x is float8_e4m3fn; it must be float32"),
        (X.tolist(), "argument x is list; it must be a tensor"),
        (np.float32(3), r"argument x has 0 dimensions, \[\]; it must have 2: x: float32\[n, 8\]"),
        (None, "argument x is NoneType; it must be a tensor"),
    ],
)
def test_values_that_do_not_fit_are_refused(compiled: Any, x: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^main: {reason}$"):
        compiled.run(x, W)


def test_tensors_of_torch(compiled: Any) -> None:
    torch = pytest.importorskip("torch")
    weight = torch.nn.Parameter(torch.tensor(W.T.copy())).t()
    np.testing.assert_allclose(compiled.run(torch.tensor(X), weight), X @ W, rtol=1e-5)
    for tensor in (torch.empty(3, 8, device="meta"), torch.tensor(X).to_sparse()):
        with pytest.raises(ValueError, match=r"main: argument x cannot be imported") as caught:
            compiled.run(tensor, W)
        assert "\n" not in str(caught.value)
    fake = pytest.importorskip("torch._subclasses").FakeTensorMode()
    with fake:
        empty = torch.empty(3, 8)
    with pytest.raises(ValueError, match=r"main: argument x (has no data|cannot be imported)"):
        compiled.run(empty, W)


@pytest.mark.parametrize("function", ["mian", 3, ["main"]])
def test_functions_that_do_not_exist(compiled: Any, function: Any) -> None:
    with pytest.raises(ValueError, match="unknown function") as caught:
        compiled.run(X, W, function=function)
    assert str(caught.value).endswith("did you mean 'main'?") == (function != 3)


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_compiled_model_is_exported_and_not_pickled(
    compiled: Any, copied: Callable[[Any], Any]
) -> None:
    with pytest.raises(TypeError, match="write it by `export`"):
        copied(compiled)


def test_where_a_library_cannot_be_written(tmp_path: Path) -> None:
    (library := tmp_path / "library").write_bytes(b"code")
    with pytest.raises(IsADirectoryError, match=r"is a folder: name the file"):
        copy_library(library, tmp_path)
    with pytest.raises(FileNotFoundError, match=r"folder .*gone does not exist"):
        copy_library(library, tmp_path / "gone" / "library.so")
    copy_library(library, longest := tmp_path / ("ü" * 120 + "m" * 12 + ".so"))
    assert longest.read_bytes() == b"code"


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    (path := tmp_path / "file").write_text("old")
    with pytest.raises(KeyError), replacing(path) as part:
        part.write_text("half")
        raise KeyError
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]
    with (
        pytest.raises(IsADirectoryError, match="is a folder, expected a file"),
        replacing(tmp_path),
    ):
        pass
    gone = tmp_path / "gone"
    with pytest.raises(FileNotFoundError, match="gone does not exist"), replacing(gone / "file"):
        pass
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("call", "error", "reason"),
    [
        (lambda: opinfo.compile(Product, ["OneDN"]), ValueError, "did you mean 'onednn'"),
        (lambda: opinfo.compile(Product, shapes="jot"), ValueError, "did you mean 'jit'"),
        (lambda: opinfo.compile(Product, target="lvm"), ValueError, "did you mean 'llvm'"),
        (lambda: opinfo.compile(Product, target="llvm -mcpu=generik"), ValueError,
         "LLVM does not know the CPU generik; did you mean 'generic'"),
        (lambda: opinfo.compile(Product, target="llvm -mcpu=native"), ValueError,
         "LLVM does not know the CPU native"),
        (lambda: opinfo.compile(Product, ["blas"], force={"matmul": "bls"}), ValueError,
         "did you mean 'blas'"),
        (lambda: opinfo.plan(Product, mode=ANYTHING("grap")), ValueError, "did you mean 'graph'"),
        (lambda: opinfo.plan(Product, objective="byte"), ValueError, "did you mean 'bytes'"),
        (lambda: opinfo.plan(Product, {"matmull": ["NC"]}), ValueError, "did you mean 'matmul'"),
        (lambda: opinfo.load(ANYTHING(None)), TypeError, "the path of a model, got None"),
        (lambda: opinfo.load(ANYTHING(b"m.onnx")), TypeError, "path of a model, got b'm"),
        (lambda: opinfo.Session(3), TypeError, "Session: expected a library or its path, got 3"),
    ],
)  # fmt: skip
def test_names_and_types(call: Callable[[], Any], error: type[Exception], reason: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert reason in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("error", [CompilerError, LoadError])
def test_a_compiler_that_fails_is_a_user_error(error: type[Exception]) -> None:
    with pytest.raises(UserError, match=r"^m\.onnx: its library cannot be built: boom$"):
        with refusing(Path("m.onnx")):
            raise error("boom")


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler reads what could be written of its source, and complains of its end."""
    failing = tmp_path / "g++"
    failing.write_text("#!/bin/sh\necho 'x.cc:1: error: unterminated #ifndef' >&2\nexit 1\n")
    failing.chmod(0o755)
    monkeypatch.setattr(f"{toolchain.__name__}.cc.get_cc", lambda: str(failing))
    (source := tmp_path / "x.cc").touch()

    def compile_it() -> None:
        toolchain.object_file(str(tmp_path / "x.o"), str(source), ())

    with pytest.raises(CompilerError, match="unterminated"):
        compile_it()
    full = OSError(28, "No space left on device")

    class Full:
        def __init__(self, **_: Any) -> None:
            raise full

    monkeypatch.setattr(f"{toolchain.__name__}.tempfile.TemporaryFile", Full)
    with pytest.raises(CompilerError, match=r": No space left on device$") as caught:
        compile_it()
    assert caught.value.broken


@pytest.mark.parametrize("names", [(), ("part",), ("source", "part")])
def test_a_full_disk_is_named_by_the_file_that_is_written(
    names: tuple[str, ...], tmp_path: Path
) -> None:
    """Not by the temporary file, of which nobody knows."""
    with pytest.raises(OSError, match="No space left") as caught, replacing(tmp_path / "x") as part:
        files = [str(part) if name == "part" else name for name in names]
        full: list[Any] = [errno.ENOSPC, os.strerror(errno.ENOSPC), *files[:1]]
        raise OSError(*full, *([None, *files[1:]] if files[1:] else []))
    assert (caught.value.filename, caught.value.filename2) == (str(tmp_path / "x"), None)
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_another_file_keeps_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, replacing(tmp_path / "x"):
        (tmp_path / "absent").read_bytes()
    assert caught.value.filename == str(tmp_path / "absent")


def test_an_empty_path_is_not_the_current_folder() -> None:
    with pytest.raises(TypeError, match="load: expected the path of a model, got ''"):
        opinfo.load("")
