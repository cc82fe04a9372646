"""Reading apart: what crashes, hangs, grows or acts is one line, and the next file is read."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tvm

import opinfo
from opinfo.frontend.process import reader_client
from opinfo.frontend.process.reader_client import Reader

SCRIPT = (
    "from tvm.script import relax as R\n@R.function\n"
    'def main(x: R.Tensor((4,), "float32")):\n    return R.nn.relu(x)\n'
)
#: A reader that does what the shapes say.
STUB = """
import os, sys, time
import opinfo.frontend
def read(path, shapes):
    exec(shapes["do"][0])
    return b"{}"
opinfo.frontend.formats.read_file = read
from opinfo.frontend.process.reader import main
sys.exit(main())
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture(scope="module")
def stub() -> Iterator[Reader]:
    found = Reader(command=(sys.executable, "-c", STUB))
    yield found
    found.close()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("os.kill(os.getpid(), 11)", r"may not do os.kill"),
        ("import ctypes; ctypes.string_at(0)", r"reading it crashed: signal 11 \(SIGSEGV\)"),
        ("while True: pass", "reading it took more than 1 s and was stopped"),
        ("x = bytearray(8 << 30)", "reading it exceeded the memory limit"),
        ("open(path.parent / 'written', 'w').write('x')", "may not write"),
        ("os.write(os.open('/dev/null', os.O_RDONLY), b'x')", "Bad file descriptor"),
        ("os.system('true')", "may not do os.system"),
        ("os._exit(3)", "reading it crashed: exit status 3"),
        ("raise ValueError('a\\x1b[31mb\\n c')", r"a\?\[31mb$"),
    ],
)
def test_a_file_cannot_harm_who_reads_it(
    stub: Reader, model: Path, body: str, message: str
) -> None:
    with pytest.raises(opinfo.FrontendError, match=message) as error:
        stub.read(model, {"do": (body,)}, seconds=1)
    assert "\n" not in str(error.value) and str(model) in str(error.value)
    assert [p.name for p in model.parent.iterdir()] == ["model.py"]


def test_the_process_writes_no_file_even_past_python(stub: Reader, model: Path) -> None:
    """`RLIMIT_FSIZE` holds for C++ too: the file is there, and empty."""
    mark = model.parent / "mark"
    body = f"import ctypes; c = ctypes.CDLL(None); f = c.creat(b'{mark}', 384); " \
        "n = c.write(f, b'x', 1); raise ValueError(f'wrote {n}')"  # fmt: skip
    with pytest.raises(opinfo.FrontendError, match="wrote -1"):
        stub.read(model, {"do": (body,)})
    assert not mark.read_bytes()


def test_a_module_that_is_not_well_typed_is_not_loaded(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = b'[27, []]\n{"root_index":0,"nodes":[]}'
    monkeypatch.setattr(reader_client.Reader, "read", lambda *_: message)
    with pytest.raises(opinfo.FrontendError, match="the module is not well typed: root_index is 0"):
        opinfo.load(model)


def test_a_file_is_read_where_no_gpu_is_visible(
    stub: Reader, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CUDA cannot be used in a fork of a process that has used it."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    stub.close()
    seen = "raise opinfo.FrontendError(repr(os.environ['CUDA_VISIBLE_DEVICES']))"
    with pytest.raises(opinfo.FrontendError, match="''"):
        stub.read(model, {"do": (seen,)})


def test_the_next_file_is_read_after_a_crash(model: Path) -> None:
    opinfo.load(model)
    process = reader_client.shared_reader()._process
    assert process is not None
    process.kill()
    process.wait()
    assert len(opinfo.load(model).functions) == 1


def test_threads_read_one_after_the_other(model: Path) -> None:
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(len(opinfo.load(model).functions)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1] * 4


def test_modules_in_the_callers_folder_are_not_imported(tmp_path: Path, model: Path) -> None:
    mark = tmp_path / "mark"
    for name in ("tvm", "onnx", "numpy", "typing_extensions"):
        (tmp_path / f"{name}.py").write_text(f"open({str(mark)!r}, 'w')\n")
    code = f"import sys; sys.path[:] = [p for p in sys.path if p]\n" \
        f"import os, opinfo; os.chdir({str(tmp_path)!r})\n" \
        "print(len(opinfo.load('model.py').functions))"  # fmt: skip
    got = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert got.stdout.strip() == "1", got.stderr
    assert not mark.exists()


def test_a_fork_reads_by_a_process_of_its_own(model: Path) -> None:
    code = f"import sys; sys.modules['torch'] = None  # TVM would import it\n" \
        f"import os, opinfo\nopinfo.load({str(model)!r})\npid = os.fork()\n" \
        f"n = len(opinfo.load({str(model)!r}).functions)\n" \
        "pid or os._exit(n)\n" \
        "print(n, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"  # fmt: skip
    got = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert got.stdout.strip() == "1 1", got.stderr


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="/proc lists what is loaded")
def test_files_without_torch_are_read_without_it(model: Path) -> None:
    """Importing torch takes twice as long as all the rest of the process."""
    reader = Reader()
    try:
        reader.read(model, {})
        assert reader._process is not None
        loaded = Path(f"/proc/{reader._process.pid}/maps").read_text()
    finally:
        reader.close()
    assert "libtvm" in loaded and "libtorch" not in loaded


def test_constants_come_back_as_they_were(tmp_path: Path) -> None:
    builder = tvm.relax.BlockBuilder()
    data = np.random.default_rng(0).standard_normal((64, 1000)).astype("float32")
    x = tvm.relax.Var("x", tvm.relax.TensorType((1000,), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(tvm.relax.op.multiply(x, tvm.relax.const(data))))
    path = tmp_path / "m.json"
    path.write_text(tvm.ir.save_json(builder.get()))
    tvm.ir.assert_structural_equal(opinfo.load(path), builder.get())


def test_the_process_ends_with_its_owner(model: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None  # TVM would import it\n"
        "import os, opinfo\nfrom opinfo.frontend.process import reader_client\n"
        f"opinfo.load({str(model)!r})\n"
        "print(reader_client.shared_reader()._process.pid, flush=True)\nos.kill(os.getpid(), 9)"
    )
    got = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    pid = int(got.stdout)
    for _ in range(200):
        if not _runs(pid):
            break
        threading.Event().wait(0.05)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
