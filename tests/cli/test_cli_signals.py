"""A command that is ended from outside: one line, its status, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

#: The command line with other commands: nothing heavy is imported, they start at once.
RUN = """
import ctypes, os, pathlib, signal, subprocess, sys, time, types
def started(text=""):
    pathlib.Path(STARTED + ".part").write_text(text)
    os.rename(STARTED + ".part", STARTED)
def app(**_):
    from opinfo.cli.run.exit_status import emit
    ACT
sys.modules["opinfo.cli.commands"] = types.SimpleNamespace(app=app)
from opinfo.cli import main
main()
"""
#: TVM's import takes forever, and the commands are the real ones.
IMPORTING = """
import importlib.abc, pathlib, sys, time
class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "tvm":
            pathlib.Path(STARTED).touch()
            time.sleep(100)
sys.meta_path.insert(0, Slow())
sys.argv = ["opinfo", "inspect", "model.py"]
from opinfo.cli import main
main()
"""
#: Where a signal may come: the code that is running then.
MOMENTS = {
    "Python": RUN.replace("ACT", "started(); time.sleep(100)"),
    "C": RUN.replace("ACT", """lock, C = ctypes.create_string_buffer(64), ctypes.CDLL(None)
    started()
    for _ in range(2): C.pthread_mutex_lock(lock)  # waits on itself, whatever signals come"""),
    "swallowed": RUN.replace("ACT", """started()
    while True:
        try: time.sleep(100)
        except BaseException: pass"""),
    "import": IMPORTING,
}  # fmt: skip
#: A child, and a child of it that is in another session.
CHILDREN = RUN.replace(
    "ACT",
    """
    text = "import subprocess, time; p = subprocess.Popen(['sleep', '300'], start_new_session=True)"
    text += "; print(p.pid, flush=True); time.sleep(300)"
    child = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    started(f"{child.pid} {child.stdout.readline()}")
    time.sleep(300)""",
)


def _heed_signals() -> None:
    """A job in the background, or under nohup, and so the tests in it, may ignore them."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Command:
    """A process with a group of its own, which has come to where it says that it has started."""

    def __init__(self, folder: Path, text: str) -> None:
        self.temporary, self.started = folder / "temporary", folder / "started"
        self.temporary.mkdir()
        self.process = subprocess.Popen(
            [sys.executable, "-c", text.replace("STARTED", repr(str(self.started)))],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, "TMPDIR": str(self.temporary)},
            preexec_fn=_heed_signals,
        )  # fmt: skip
        while not self.started.exists():
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.01)

    def ended(self, number: int, group: bool = False) -> tuple[int, str]:
        """Exit status and standard error after a signal; standard output must be empty."""
        (os.killpg if group else os.kill)(self.process.pid, number)
        out, err = self.process.communicate()
        assert out == "" and list(self.temporary.iterdir()) == []
        return self.process.returncode, err


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interrupt_is_one_line(moment: str, tmp_path: Path) -> None:
    command = Command(tmp_path, MOMENTS[moment])
    assert command.ended(signal.SIGINT) == (130, "opinfo: interrupted\n")


@pytest.mark.parametrize(
    ("number", "line"),
    [(signal.SIGTERM, "terminated"), (signal.SIGHUP, "the terminal was closed")],
)
def test_other_signals_are_reported_too(number: int, line: str, tmp_path: Path) -> None:
    command = Command(tmp_path, MOMENTS["Python"])
    assert command.ended(number) == (128 + number, f"opinfo: {line}\n")


@pytest.mark.parametrize("group", [False, True])
def test_children_are_ended_and_say_nothing(group: bool, tmp_path: Path) -> None:
    command = Command(tmp_path, CHILDREN)
    pids = command.started.read_text().split()
    assert len(pids) == 2
    assert command.ended(signal.SIGINT, group) == (130, "opinfo: interrupted\n")
    _wait_for_end(pids)


def test_a_process_whose_parent_has_ended_is_ended_too(tmp_path: Path) -> None:
    """The terminal's interrupt ends a child before the command looks for its children."""
    orphaned = CHILDREN.replace('; time.sleep(300)"', '"').replace(
        'readline()}")', 'readline()}" * (child.wait() == 0))'
    )
    command = Command(tmp_path, orphaned)
    pids = command.started.read_text().split()
    assert len(pids) == 2
    assert command.ended(signal.SIGINT) == (130, "opinfo: interrupted\n")
    _wait_for_end(pids)


def _wait_for_end(pids: list[str]) -> None:
    end = time.monotonic() + 60  # a signal is delivered in its own time
    while running := [pid for pid in pids if _runs(pid)]:
        assert time.monotonic() < end, running
        time.sleep(0.01)


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_an_ignored_interrupt_stays_ignored(tmp_path: Path) -> None:
    """As `nohup` and shells have it for what runs behind."""
    act = "os.kill(os.getpid(), signal.SIGINT); started(); emit('went on')"
    text = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + RUN
    command = Command(tmp_path, text.replace("ACT", act))
    assert command.process.communicate() == ("went on\n", "")
    assert command.process.returncode == 0


def _piped(act: str, out: int) -> tuple[int, str]:
    """Exit status and standard error of a command that writes to ``out``, which is closed."""
    text = RUN.replace("STARTED", "''").replace("ACT", act)
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    os.close(out)
    return done.returncode, done.stderr


@pytest.mark.parametrize("act", ["emit('x')", "print('x')", "emit('x' * 100_000)"])
def test_a_reader_that_goes_away_is_not_an_error(act: str) -> None:
    read, write = os.pipe()
    os.close(read)
    assert _piped(act, write) == (141, "")


@pytest.mark.parametrize("act", ["emit('x')", "emit('x' * 100_000)"])
def test_a_full_disk_is_one_line(act: str) -> None:
    result = _piped(act, os.open("/dev/full", os.O_WRONLY))
    assert result == (2, "opinfo: standard output: No space left on device\n")


def test_closed_streams_are_not_an_error(tmp_path: Path) -> None:
    path = tmp_path / "command.py"
    path.write_text(RUN.replace("STARTED", "''").replace("ACT", "emit('x')"))
    line = f"exec {sys.executable} {path} >&- 2>&- <&-"
    assert subprocess.run(["sh", "-c", line], check=False).returncode == 0
