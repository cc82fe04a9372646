"""Temporary folders go with their process, however it ends, and with no other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from opinfo.byoc.process.temporary_folder import TemporaryFolder

WAITING = """
import sys
from opinfo.byoc.process.temporary_folder import TemporaryFolder
kept = TemporaryFolder("opinfo-kept-")
(kept.path / "kernel.so").write_text("code")
print(kept.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_that_of_a_killed_process_goes_when_the_next_is_made(place: Path) -> None:
    path = os.pathsep.join(filter(None, sys.path))
    processes = [
        subprocess.Popen([sys.executable, "-c", WAITING], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True,
                         env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(place)})
        for _ in range(2)
    ]  # fmt: skip
    killed, alive = (Path(p.stdout.readline().strip()) for p in processes if p.stdout is not None)
    processes[0].send_signal(signal.SIGKILL)
    processes[0].communicate()
    (place / "opinfo-of-someone").mkdir()
    assert killed.exists() and alive.exists()
    own = TemporaryFolder("opinfo-")
    assert not killed.exists() and alive.exists() and (place / "opinfo-of-someone").exists()
    processes[1].communicate("")
    assert not alive.exists() and own.path.exists()


def test_a_process_that_was_forked_off_neither_removes_nor_releases_it(place: Path) -> None:
    own = TemporaryFolder("opinfo-")
    child = os.fork()
    if child == 0:
        own.remove()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    TemporaryFolder("opinfo-").remove()
    assert own.path.exists()
    before = len(os.listdir("/proc/self/fd"))
    own.remove()
    assert not own.path.exists() and len(os.listdir("/proc/self/fd")) == before - 1
