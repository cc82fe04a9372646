"""Processes of opinfo's own do without torch; those that run modules of others do not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from opinfo.byoc.process import fork_server, without_torch
from opinfo.byoc.process.fork_pool import ForkPool

LEFT_OUT = """
import sys
import opinfo.byoc.process.without_torch as module
module.leave_out_torch()
import tvm_ffi, tvm.relax
assert "torch" not in sys.modules
assert not any(isinstance(finder, module._Finder) for finder in sys.meta_path)
import torch
assert tvm.runtime.from_dlpack(torch.ones(3)).numpy().sum() == 3
print(tvm_ffi.get_global_func("testing.echo")(torch.ones(2)).sum().item())
"""

SYMBOLS = """
import ctypes, resource, sys
import opinfo.byoc.process.without_torch as module
before = resource.getrlimit(resource.RLIMIT_NOFILE)
if sys.argv[1:] == ["left out"]:
    module.leave_out_torch()
else:
    sys.modules["torch"] = None
import tvm, tvm_ffi
assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
try:
    tvm.ir.Op.get("unknown")
except Exception as error:
    assert "Operator unknown is not registered" in str(error)

class Text(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]

frames = ctypes.CDLL(tvm_ffi.libinfo.find_libtvm_ffi()).TVMFFIBacktrace
frames.restype = ctypes.POINTER(Text)
frames.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_int]
text = frames(None, 0, None, 1).contents
print(text.size > 0)
"""


class Loaded:
    """A job: the modules of a fork."""

    def run(self) -> set[str]:
        return {"torch", "tvm"} & set(sys.modules)


def test_torch_is_left_out_and_can_be_imported_afterwards() -> None:
    done = subprocess.run([sys.executable, "-c", LEFT_OUT], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("2.0\n", 0), done.stderr


@pytest.mark.parametrize(("words", "read"), [(("left out",), "False"), ((), "True")])
def test_errors_of_tvm_read_no_symbols(
    words: tuple[str, ...], read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH")  # processes of tests do without them in any case
    done = subprocess.run(
        [sys.executable, "-c", SYMBOLS, *words], capture_output=True, text=True, check=False
    )
    assert done.stdout == f"{read}\n", done.stderr


def test_jobs_of_ours_run_without_it(tmp_path: Path) -> None:
    pool = ForkPool(tmp_path, modules=("opinfo.byoc.codegen.loading.resolve_apart",))
    try:
        loaded = pool.run(Loaded(), 120.0)
    finally:
        pool.close()
    assert loaded == {"tvm"}


@pytest.mark.parametrize(
    ("modules", "left_out"),
    [((), True), (("opinfo.byoc",), True), (("opinfo.byoc", "opinfo_npu"), False)],
)
def test_modules_of_others_find_it(
    modules: tuple[str, ...], left_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[bool] = []
    monkeypatch.setattr(fork_server, "leave_out_torch", lambda: called.append(True))
    monkeypatch.setattr(fork_server, "import_module", lambda name: None)
    fork_server.prepare(modules)
    assert bool(called) == left_out


def test_a_process_that_has_tvm_is_left_as_it_is() -> None:
    before = list(sys.meta_path)
    without_torch.leave_out_torch()
    assert sys.meta_path == before


def test_a_module_runs_with_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import sys\nprint(__name__, sys.argv[1:])\n")
    done = subprocess.run(without_torch.command("program", "a", "b"), cwd=tmp_path,
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert done.stdout == "__main__ ['a', 'b']\n"
