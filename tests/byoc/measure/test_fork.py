"""Work in a fork: what it returns, how it ends, and that its owner never waits long for it."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import time
from collections.abc import Callable

import pytest

from opinfo.byoc.process.fork import forked
from opinfo.byoc.process.status import ended, signal_name


def killed() -> bytes:
    faulthandler.disable()
    os.kill(os.getpid(), signal.SIGSEGV)
    return b"not reached"


def ends() -> bytes:
    os._exit(3)


def raises() -> bytes:
    raise ValueError("its text goes nowhere")


@pytest.mark.parametrize(
    ("work", "status"), [(killed, -signal.SIGSEGV), (ends, 3), (raises, 1)]
)  # fmt: skip
def test_a_fork_that_does_not_get_to_its_end_returns_nothing(
    work: Callable[[], bytes], status: int
) -> None:
    assert forked(work, 60) == (b"", status)


def test_more_than_a_pipe_holds_comes_back_whole() -> None:
    text = bytes(range(256)) * 4096
    assert forked(lambda: text, 60) == (text, 0)


def test_what_hangs_is_killed() -> None:
    seen, write = os.pipe()

    def hangs() -> bytes:
        os.write(write, str(os.getpid()).encode())
        time.sleep(600)
        return b""

    with pytest.raises(TimeoutError, match=r"exceeded the limit of 0\.5 s"):
        forked(hangs, 0.5)
    with pytest.raises(ProcessLookupError):
        os.kill(int(os.read(seen, 32)), 0)
    os.close(seen)
    os.close(write)


def test_a_process_that_it_leaves_behind_is_not_waited_for() -> None:
    def leaves() -> bytes:
        pid = os.fork()
        if pid == 0:
            time.sleep(600)
            os._exit(0)
        return str(pid).encode()

    text, status = forked(leaves, 300)
    assert status == 0
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(text), signal.SIGKILL)


def test_how_a_process_ended_in_words() -> None:
    assert [ended(0), ended(3), ended(-11)] == [
        "exit status 0", "exit status 3", "signal 11 (SIGSEGV)",
    ]  # fmt: skip
    assert signal_name(9) == "SIGKILL" and signal_name(250) == "signal 250"
    assert ended(-250) == "signal 250"
