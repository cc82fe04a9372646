"""Compiler processes that fail, are killed, do not start or idle: calls go on."""

from __future__ import annotations

import re
import resource
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from opinfo.jit import (
    CompiledShapes,
    Compiler,
    KernelStore,
    Session,
    compile_shapes,
)

from .. import modules
from ..sessions import ask, counted, stub


@pytest.mark.parametrize(
    ("what", "seconds", "why"),
    [("os.abort()", 20, "ended with signal 6"),
     ("sys.exit(3)", 20, "ended with exit status 3"),
     ("time.sleep(60)", 0.3, "compiling took more than 0.3 s; it was stopped"),
     ("print('no JSON', flush=True)", 20, "answered b'no JSON'"),
     ("print('{\"error\": \"no schedule\"}', flush=True)", 20, "no schedule"),
     ("open(json.loads(job)['library'], 'wb').write(b'garbage'); "
      "print('{\"rule\": \"x\", \"milliseconds\": 1}', flush=True)", 20, "invalid ELF|too short"),
     ("print('{\"rule\": \"x\", \"milliseconds\": 1}', flush=True)", 20,
      "kernel library not found")],
)  # fmt: skip
def test_a_failing_compiler_costs_only_its_kernels(
    compiled: CompiledShapes, tmp_path: Path, what: str, seconds: float, why: str
) -> None:
    store = KernelStore(tmp_path)
    with Session(compiled, store=store, compiler=stub(what, seconds)) as session:
        ask(session, [2, 2, 2])
        assert session.settle()
        ask(session, [2, 2, 3])
        (event,) = session.stats().events
        assert event.what == "failed" and event.shape == (2,)
        assert re.search(why, event.why), event.why
    assert store.ls() == []


def test_a_function_that_kills_the_compiler_is_given_up(compiled: CompiledShapes) -> None:
    with Session(compiled, compiler=stub("os.abort()")) as session:
        for n in range(1, 6):
            ask(session, [n, n])
            assert session.settle()
        last = session.stats().events[-1]
    assert last.why == "the compiler crashed 3 times on this function"


@pytest.mark.parametrize("number", ["SIGKILL", "SIGTERM"])
def test_who_kills_the_compiler_costs_no_kernel(
    number: str, compiled: CompiledShapes, plain: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A limit on memory, or an administrator: the function is not to blame, nor is the shape."""
    monkeypatch.setattr("opinfo.jit.runtime.retry_queue.RETRIES", (0.01, 0.02, 0.03, 0.04))
    killing = f"runs % 4 and os.kill(os.getpid(), signal.{number})"
    with Session(compiled, compiler=counted(tmp_path, plain, killing)) as session:
        ask(session, [1, 1, 2, 2, 3, 3])
        assert session.settle()
        ask(session, [1, 2, 3])
        stats = session.stats()
    assert stats.counts["compiled"] == 3 and stats.counts["postponed"] == 3
    assert (
        f"was killed by {number}" in stats.events[0].why
        and "retrying in 0.01 s" in stats.events[0].why
    )
    assert stats.sites[0].hits == 3


def test_what_is_always_killed_is_tried_rarely_and_others_have_kernels(
    compiled: CompiledShapes, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opinfo.jit.runtime.retry_queue.RETRIES", (0.01, 0.02))
    killing = "json.loads(job)['values'] == {'n': 2} and os.kill(os.getpid(), signal.SIGKILL)"
    with Session(compiled, compiler=counted(tmp_path, plain, killing)) as session:
        for n in (2, 3, 4, 5):
            ask(session, [n, n])
            assert session.settle()
        stats = session.stats()
    assert [e.what for e in stats.events] == ["postponed"] * 2 + ["failed"] + ["compiled"] * 3
    assert stats.events[2].why.endswith("retrying in 600 s")


def test_a_full_disk_costs_no_kernel(
    compiled: CompiledShapes, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of this process are cut at 8 KiB until the shape was tried."""
    monkeypatch.setattr("opinfo.jit.runtime.retry_queue.RETRIES", (0.2,) * 50)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Session(compiled, compiler=counted(tmp_path, plain, "pass")) as session:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))
        try:
            ask(session, [2, 2])
            while not session.stats().events:
                time.sleep(0.01)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert session.settle()
        stats = session.stats()
    assert set(stats.counts) == {"postponed", "compiled"} and stats.counts["compiled"] == 1
    assert "no space for a kernel: File too large" in stats.events[0].why


def test_a_compiler_that_started_without_space_costs_no_kernel(
    compiled: CompiledShapes, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It inherits the limit on files, and keeps it when its owner has space again."""
    monkeypatch.setattr("opinfo.jit.runtime.retry_queue.RETRIES", (0.01,))
    compiler = counted(tmp_path, plain, "pass")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))
    try:
        compiler.start()
        until = time.monotonic() + 60
        while not (tmp_path / "started").exists() and time.monotonic() < until:
            time.sleep(0.01)  # a thread starts the process
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with Session(compiled, compiler=compiler) as session:
        ask(session, [2, 2])
        assert session.settle()
        stats = session.stats()
    compiler.close()
    # A process that ended before its first job, as one of no space may, is replaced at once.
    assert stats.counts["compiled"] == 1 and set(stats.counts) <= {"postponed", "compiled"}
    postponed = [event.why for event in stats.events if event.what == "postponed"]
    assert all("no space for a kernel: File too large" in why for why in postponed)


def test_a_compiler_that_crashes_of_what_was_before_costs_no_kernel(
    compiled: CompiledShapes, plain: Path, tmp_path: Path
) -> None:
    compiler = counted(tmp_path, plain, "jobs == 2 and os.abort()")
    with Session(compiled, compiler=compiler) as session:
        for n in range(1, 6):
            ask(session, [n, n])
            assert session.settle()
        assert session.stats().counts == {"compiled": 5}
    assert (tmp_path / "started").stat().st_size == 5


def test_a_compiler_that_does_not_start_blames_no_shape(
    compiled: CompiledShapes, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it is killed before it is ready, every shape has its kernel in the end."""
    monkeypatch.setattr("opinfo.jit.kernels.compiler.FIRST", 0.001)
    monkeypatch.setattr("opinfo.jit.kernels.compiler.TIMES", 20)
    late = counted(tmp_path, plain, "pass")
    start = "runs, jobs"
    killed = "if os.path.getsize(sys.argv[1]) < 12: os.kill(os.getpid(), signal.SIGKILL)\n" + start
    code = late.command[-1].replace(start, killed, 1)
    late.command = (*late.command[:-1], code, str(tmp_path / "started"))
    with Session(compiled, compiler=late) as session:
        for n in range(1, 5):
            ask(session, [n, n])
        assert session.settle()
        stats = session.stats()
    assert stats.counts["compiled"] == 4 and stats.counts["postponed"] == 11
    assert "failed to start: the compiler process was killed by SIGKILL" in stats.events[0].why


@pytest.mark.parametrize(
    ("command", "why"),
    [((sys.executable, "-c", "raise SystemExit(3)"), "process ended with exit status 3"),
     (("/there/is/no/such/program",), "No such file")],
)  # fmt: skip
def test_nobody_waits_for_a_compiler_that_never_starts(
    command: tuple[str, ...], why: str, compiled: CompiledShapes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opinfo.jit.kernels.compiler.FIRST", 0.001)
    monkeypatch.setattr("opinfo.jit.kernels.compiler.TIMES", 3)
    monkeypatch.setattr("opinfo.jit.kernels.compiler.LAST", 60.0)
    with Session(compiled, compiler=Compiler(command=command)) as session:
        for n in range(1, 5):
            ask(session, [n, n])
        assert session.settle()
        stats = session.stats()
    assert stats.counts["postponed"] == 3 and stats.counts["failed"] >= 1
    assert why in stats.events[0].why and not stats.kernels


def test_a_compiler_that_is_idle_ends_and_starts_again() -> None:
    compiler = Compiler(idle=0.0)
    with Session(compile_shapes(modules.dense()), compiler=compiler) as session:
        for n in (3, 5):
            for _ in range(3):
                x = modules.rows(n)
                np.testing.assert_allclose(session(x).numpy(), modules.expected(x), 1e-4, 1e-5)
                session.settle()
            assert compiler._process is None
        assert session.stats().counts == {"compiled": 2}
        assert session.stats().sites[0].hits == 2
