"""Object files in the cache: compiled once, by one process; not used if others could write them."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

from opinfo.byoc.backend.catalog import find
from opinfo.byoc.backends.common import kept_file
from opinfo.byoc.backends.common import kept_object as home
from opinfo.byoc.backends.common.kept_object import kept_object, object_key
from opinfo.byoc.backends.onnx_models import kept_runtime
from opinfo.byoc.codegen.compilers import toolchain
from opinfo.byoc.codegen.compilers.toolchain import CompilerError
from opinfo.byoc.compile import compile_module

from ...front.test_front import expected, model


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPINFO_CACHE", str(tmp_path))
    return tmp_path / "objects"


@pytest.fixture(autouse=True)
def _warned_of_nothing() -> None:
    kept_file._warn.cache_clear()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources that are compiled."""
    sources: list[str] = []

    def compile_object(output: str, source: str, options: Any) -> None:
        sources.append(Path(source).read_text())
        Path(output).write_bytes(b"object")

    monkeypatch.setattr(home, "object_file", compile_object)
    return sources


def test_an_object_is_compiled_once(folder: Path, compiled: list[str]) -> None:
    first = kept_object("objects", "one", "int a;", ())
    assert first == folder / "one.o" == kept_object("objects", "one", "int a;", ())
    assert compiled == ["int a;"] and first.read_bytes() == b"object"


def test_a_process_waits_for_the_one_that_compiles(folder: Path, compiled: list[str]) -> None:
    folder.mkdir(mode=0o700)
    found: list[Path] = []
    waiting = threading.Thread(
        target=lambda: found.append(kept_object("objects", "one", "int a;", ())))  # fmt: skip
    with open(folder / "one.o.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        digest = hashlib.sha256(b"of the other process").hexdigest()
        for name, content in (
            ("one.o", b"of the other process"),
            ("one.o.sha256", digest.encode()),
        ):
            (folder / name).write_bytes(content)
            (folder / name).chmod(0o600)
    waiting.join(10)
    assert found == [folder / "one.o"] and not compiled


@pytest.mark.parametrize("damage", [
    lambda folder: (folder / "one.o").write_bytes(b"obj"),
    lambda folder: (folder / "one.o.sha256").write_bytes(b"\xff"),
    lambda folder: (folder / "one.o.sha256").unlink(),
])  # fmt: skip
def test_a_damaged_object_is_compiled_again(
    folder: Path, compiled: list[str], damage: Callable[[Path], Any]
) -> None:
    kept_object("objects", "one", "int a;", ())
    damage(folder)
    for _ in range(2):
        assert kept_object("objects", "one", "int a;", ()).read_bytes() == b"object"
    assert compiled == ["int a;"] * 2


def test_what_others_can_write_is_not_linked(folder: Path, compiled: list[str]) -> None:
    kept = kept_object("objects", "one", "int a;", ())
    kept.write_bytes(b"of another user")
    kept.chmod(0o666)
    with pytest.warns(
        UserWarning, match="only this user can write.*; set OPINFO_CACHE to a folder"
    ):
        _is_temporary(kept_object("objects", "one", "int a;", ()), folder)
    folder.chmod(0o777)
    with pytest.warns(UserWarning, match=rf"this process only: other users can write {folder}: "):
        _is_temporary(kept_object("objects", "two", "int a;", ()), folder)
    assert compiled == ["int a;"] * 3


def _is_temporary(file: Path, folder: Path) -> None:
    assert file.read_bytes() == b"object" and folder not in file.parents


def test_where_the_cache_is_a_file_an_object_is_kept_for_the_process(
    tmp_path: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").touch()
    monkeypatch.setenv("OPINFO_CACHE", str(tmp_path / "cache"))
    text = f"this process only: {tmp_path}/cache/objects: Not a directory; set OPINFO_CACHE"
    with pytest.warns(UserWarning, match=text) as warned:
        first = kept_object("objects", "of a file", "int a;", ())
        _is_temporary(first, tmp_path)
        assert kept_object("objects", "of a file", "int a;", ()) == first
    assert compiled == ["int a;"] and len(warned) == 1


def test_without_a_home_folder_an_object_is_kept_for_the_process(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("OPINFO_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.warns(UserWarning, match="this process only: Could not determine home directory"):
        _is_temporary(kept_object("objects", "homeless", "int a;", ()), tmp_path)


def test_on_a_full_disk_an_object_is_kept_for_the_process(
    folder: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("shutil.copyfile", full)
    with pytest.warns(UserWarning, match=f"this process only: {folder}: No space left on device"):
        _is_temporary(first := kept_object("objects", "full", "int a;", ()), folder)
    assert [path.name for path in folder.iterdir()] == ["full.o.lock"]
    monkeypatch.undo()  # there is room again
    monkeypatch.setenv("OPINFO_CACHE", str(folder.parent))
    assert kept_object("objects", "full", "int a;", ()) == folder / "full.o"
    _is_temporary(first, folder)  # as a library may still be linked with it
    assert compiled == ["int a;"]


def test_a_failure_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> None:
        raise CompilerError("no")

    monkeypatch.setattr(home, "object_file", failing)
    with pytest.raises(CompilerError):
        kept_object("objects", "failing", "int a;", ())
    assert [path.name for path in folder.iterdir()] == ["failing.o.lock"]


def test_the_key_is_that_of_all_parts_and_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {object_key("a", "b"), object_key("ab"), object_key("a", "c")}
    monkeypatch.setattr("tvm.support.cc.get_cc", lambda: "/usr/bin/another")
    assert len(keys | {object_key("a", "b")}) == 4


@pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
def test_a_model_has_its_runtime_itself_if_nothing_can_be_kept(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sources have the same functions; the one with the runtime needs no object."""

    def refused(*_: Any) -> Path:
        raise OSError("read-only")

    if find(name).available() is not None:
        pytest.skip(f"no {name}")
    monkeypatch.setattr(kept_runtime, "kept_object", refused)
    x = np.random.default_rng(0).standard_normal((4, 8)).astype("float32")
    library = compile_module(model(4), [name])
    assert not any(option.endswith(".o") for option in library.dispatched.options)
    assert [region.backend for region in library.dispatched.taken] == [name]
    found = library.machine()["main"](tvm.runtime.tensor(x)).numpy()
    np.testing.assert_allclose(found, expected(x), rtol=1e-5, atol=1e-5)


def test_the_glue_of_a_runtime_is_optimised_as_for_debugging(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last level of a command is the one that a compiler takes."""
    levels: list[str] = []

    def write(stage: str, command: Sequence[str], output: str) -> None:
        levels.extend([word for word in command if word.startswith("-O")][-1:])
        Path(output).write_bytes(b"object")

    monkeypatch.setattr(toolchain, "_write", write)
    _, options = kept_runtime.runtime_text("", "", ("-std=c++17",))
    assert levels == ["-Og"] and options[-1].endswith(".o")


def test_an_object_and_a_library_of_one_name_are_both_kept(folder: Path) -> None:
    """They had one file with a digest, and each was written again after the other."""
    written: list[str] = []

    def keep(name: str) -> Path:
        def write(path: Path) -> None:
            written.append(name)
            path.write_bytes(name.encode())

        return kept_file.kept_file("objects", name, write)

    for _ in range(2):
        assert [keep(name).read_bytes() for name in ("x.o", "x.so")] == [b"x.o", b"x.so"]
    assert written == ["x.o", "x.so"]
