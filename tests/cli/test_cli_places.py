"""Empty paths, pipes and folders that were deleted: one line, no waiting, nothing left."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from .test_cli import NET

Opinfo = Callable[..., tuple[int, str, str]]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model in the current folder, which nothing else is in."""
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)
    return "net.py"


@pytest.mark.parametrize(("line", "what"), [
    ("inspect @", "expected a path, got an empty one; see `opinfo inspect --help`"),
    ("compile @ -o x.so", "expected a path, got an empty one; see `opinfo compile --help`"),
    ("compile net.py -o @", "-o: expected a value, got an empty one"),
    ("compile net.py --output=", "--output: expected a value, got an empty one"),
    ("plan net.py --html @", "--html: expected a value, got an empty one"),
    ("cache clear --folder @", "--folder: expected a value, got an empty one; see `opinfo cache"),
    ("inspect -- @", "expected a path, got an empty one"),
])  # fmt: skip
def test_an_empty_path_is_not_the_current_folder(
    line: str, what: str, model: str, opinfo: Opinfo
) -> None:
    kernel = Path("0123456789abcdef.so")
    kernel.touch()  # what clearing the current folder would remove
    status, out, err = opinfo(*(word.replace("@", "") for word in line.split()))
    assert (status, out, err.count("\n")) == (2, "", 1) and what in err, err
    assert kernel.exists()


def test_a_pipe_that_nothing_reads_is_refused_before_any_work(model: str, opinfo: Opinfo) -> None:
    os.mkfifo("pipe")
    for words in (["plan", model, "--html", "pipe"], ["compile", model, "-o", "pipe"]):
        status, out, err = opinfo(*words)
        assert (status, out) == (2, "")
        assert err.endswith("pipe: nothing reads this pipe: start its reader first\n"), err


def test_the_reader_of_a_pipe_gets_the_whole_file(model: str, opinfo: Opinfo) -> None:
    os.mkfifo("pipe")
    read: list[bytes] = []
    # Opening the pipe waits for the writer, and the end is where the writer closes it.
    reader = threading.Thread(target=lambda: read.append(Path("pipe").read_bytes()), daemon=True)
    reader.start()
    while opinfo("plan", model, "--html", "pipe")[0] != 0:
        assert reader.is_alive()
    reader.join(20)
    assert opinfo("plan", model, "--html", "page.html")[0] == 0
    assert read == [Path("page.html").read_bytes()]


def test_a_current_folder_that_was_deleted_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opinfo: Opinfo
) -> None:
    model, gone = tmp_path / "net.py", tmp_path / "gone"
    model.write_text(NET)
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    status, out, err = opinfo("plan", str(model), "--html", "x.html")
    assert (status, out) == (2, "")
    assert err.endswith("x.html: the current folder was deleted: change to another one\n"), err


def test_absolute_paths_work_where_the_current_folder_was_deleted(tmp_path: Path) -> None:
    """In a new process: in this one, some files were found before."""
    (tmp_path / "net.py").write_text(NET)
    gone = tmp_path / "gone"
    gone.mkdir()
    code = "import os; os.rmdir(os.getcwd()); from opinfo.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "inspect", str(tmp_path / "net.py")],
                          cwd=gone, capture_output=True, text=True)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "relax.nn.conv2d" in done.stdout


@pytest.mark.parametrize(("value", "lines"), [("0", 1), ("", 1), ("1", 2)])
def test_zero_asks_for_no_traceback(
    value: str, lines: int, monkeypatch: pytest.MonkeyPatch, opinfo: Opinfo
) -> None:
    monkeypatch.setenv("OPINFO_TRACEBACK", value)
    assert min(opinfo("inspect", "absent.onnx")[2].count("\n"), 2) == lines


@pytest.mark.parametrize("name", ["model", "model.txt", "model.so.1"])
def test_a_library_has_the_suffix_that_tvm_loads(name: str, model: str, opinfo: Opinfo) -> None:
    status, out, err = opinfo("compile", model, "-o", name)
    assert (status, out) == (2, "") and not Path(name).exists()
    assert (
        err == f"opinfo: --output {name}: expected the suffix .so, by which TVM loads libraries\n"
    )


@pytest.mark.parametrize("option", ["--shape x:1", "--func main", "--explain", "--fused"])
def test_options_of_models_are_refused_for_libraries(option: str, opinfo: Opinfo) -> None:
    status, out, err = opinfo("inspect", "model.so", *option.split())
    what = f"model.so: {option.split()[0]} is for models, and this is a library"
    assert (status, out, err) == (2, "", f"opinfo: {what}\n")
