"""Nothing is left behind by sessions, however they end, and nothing of kernels that were let go."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Set
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

from opinfo.jit import Budget, CompiledShapes, Compiler, KernelStore, Session
from opinfo.jit.kernels import build_kernel as kernels
from opinfo.jit.runtime.loaded_memory import pages
from opinfo.jit.store import kernel_key
from tests.jit import modules

STUB = """
import json, os, shutil, sys, time
print(json.dumps({"ready": 1, "toolchain": TOOLCHAIN}), flush=True)
for job in sys.stdin:
    job = json.loads(job)
    %s
    print('{"rule": "stub", "milliseconds": 1}', flush=True)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary files go."""
    found = tmp_path / "temporary"
    found.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(found))
    yield found


def stub(what: str, seconds: float = 20.0) -> Compiler:
    code = STUB.replace("TOOLCHAIN", repr(kernel_key.toolchain())) % what
    return Compiler(seconds=seconds, command=(sys.executable, "-S", "-c", code))


def copying(plain: Path) -> Compiler:
    return stub(f"shutil.copy({str(plain)!r}, job['library'])")


def mapped(text: str) -> int:
    """How many libraries of this process have this in their paths."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return len({line.split()[4] for line in lines if text in line})


def children() -> int:
    """Processes, ended ones that nobody waited for among them."""
    found = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            found += int(stat.read_text().rpartition(")")[2].split()[1]) == os.getpid()
        except OSError:
            continue
    return found


def held(place: Path) -> dict[str, int]:
    gc.collect()
    own = Path("/proc/self")
    return {"files": len(os.listdir(own / "fd")), "threads": len(os.listdir(own / "task")),
            "processes": children(), "kernels": mapped(str(place)),
            "temporary": sum(1 for _ in place.rglob("*"))}  # fmt: skip


def ask(session: Session, *sizes: int) -> None:
    for n in sizes:
        x = modules.rows(n)
        got = session(tvm.runtime.tensor(x)).numpy()
        np.testing.assert_allclose(got, modules.expected(x), rtol=1e-4, atol=1e-5)


def served(compiled: CompiledShapes, compiler: Compiler | None, **how: Any) -> Session:
    """That has been asked for some shapes."""
    session = Session(compiled, compiler=compiler, **how)
    for n in (1, 2, 3):
        ask(session, n, n)
        assert session.settle()
    return session


Scenario = Callable[[CompiledShapes, Path, Path], None]


def failing(does: str, seconds: float = 20.0, what: Set[str] = frozenset({"failed"})) -> Scenario:
    def scenario(compiled: CompiledShapes, plain: Path, place: Path) -> None:
        compiler = stub(does, seconds)
        with served(compiled, compiler) as session:
            assert set(session.stats().counts) == what
        compiler.close()

    return scenario


def closed(compiled: CompiledShapes, plain: Path, place: Path) -> None:
    compiler = copying(plain)
    with served(compiled, compiler) as session:
        ask(session, 1, 2, 3)
        assert session.stats().counts == {"compiled": 3}
        assert mapped(str(place)) == 3
    compiler.close()


def let_go(compiled: CompiledShapes, plain: Path, place: Path) -> None:
    session = served(compiled, copying(plain))
    manager = session._manager
    del session
    manager.join()


def in_a_cycle(compiled: CompiledShapes, plain: Path, place: Path) -> None:
    session: Any = served(compiled, copying(plain))
    session.itself = session
    manager = session._manager
    del session
    gc.collect()
    manager.join()


def evicted(compiled: CompiledShapes, plain: Path, place: Path) -> None:
    compiler = copying(plain)
    with served(compiled, compiler, budget=Budget(kernels=1)) as session:
        assert session.stats().counts == {"compiled": 3, "evicted": 2}
        assert mapped(str(place)) == session.stats().kernels == 1
    compiler.close()


def stored(compiled: CompiledShapes, plain: Path, place: Path) -> None:
    """From disk, twice; the files stay."""
    store = KernelStore(place.parent / "store")
    for n in range(2):
        compiler = copying(plain)
        with served(compiled, compiler, store=store) as session:
            assert n == 0 or session.stats().counts == {"loaded": 3}
        compiler.close()
    assert mapped(str(store.folder)) == 0


def not_opened(compiled: CompiledShapes, plain: Path, place: Path) -> None:
    for wrong in ("start", "functions"):
        with pytest.MonkeyPatch.context() as m, pytest.raises(RuntimeError, match="no more"):
            m.setattr(f"opinfo.jit.runtime.kernel_manager.{WRONG[wrong]}", no_more)
            Session(compiled, compiler=copying(plain))


WRONG = {"start": "KernelManager.start", "functions": "tvm.ir.load_json"}


def no_more(*_: Any) -> None:
    raise RuntimeError("no more")


SCENARIOS: dict[str, Scenario] = {
    "crashes": failing("open(job['library'] + '.part', 'w').close(); os.abort()"),
    "hangs": failing("open(os.environ['TMPDIR'] + '/part', 'w').close(); time.sleep(60)", 0.2),
    "garbage": failing("open(job['library'], 'w').write('garbage')"),
    "no library": failing("open(job['library'] + '.special.so', 'w').close()"),
    "killed": failing("os.kill(os.getpid(), 9)", what={"postponed", "failed"}),
    "no process": failing("pass; sys.exit(0)"),
    "closed": closed,
    "let go": let_go,
    "in a cycle": in_a_cycle,
    "evicted": evicted,
    "stored": stored,
    "not opened": not_opened,
}


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="Linux tells by /proc")
@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_is_left(compiled: CompiledShapes, plain: Path, place: Path, name: str,
                         monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    # The oldest goes, however young.
    monkeypatch.setattr("opinfo.jit.runtime.kernel_manager.IDLE", -1)
    monkeypatch.setattr("opinfo.jit.runtime.retry_queue.RETRIES", (0.001,))
    scenario = SCENARIOS[name]
    scenario(compiled, plain, place)
    before = held(place)
    for _ in range(5):
        scenario(compiled, plain, place)
    assert held(place) == before
    assert before["kernels"] == before["temporary"] == 0


def test_kernels_go_while_others_call(
    compiled: CompiledShapes, plain: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opinfo.jit.runtime.kernel_manager.IDLE", -1)
    compiler, done = copying(plain), threading.Event()
    wrong: list[BaseException] = []

    def calls(session: Session, seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            while not done.is_set():
                ask(session, int(rng.integers(1, 9)))
        except BaseException as e:
            wrong.append(e)

    with Session(compiled, compiler=compiler, budget=Budget(kernels=2)) as session:
        threads = [threading.Thread(target=calls, args=(session, k)) for k in range(8)]
        for t in threads:
            t.start()
        while session.stats().counts.get("evicted", 0) < 20 and not wrong:
            time.sleep(0.01)
        done.set()
        for t in threads:
            t.join()
        assert session.settle()
        stats = session.stats()
        assert not wrong and stats.counts["evicted"] >= 20
        assert stats.hit_rate > 0 and stats.kernels <= 2
        assert mapped(str(place)) == stats.kernels
    compiler.close()
    assert mapped(str(place)) == 0


def test_a_session_that_was_let_go_can_be_opened_again(
    compiled: CompiledShapes, plain: Path
) -> None:
    for _ in range(3):
        session = served(compiled, copying(plain))
        del session
    with served(compiled, copying(plain)) as session:
        assert session.stats().kernels == 3


def test_the_pages_of_a_library_are_those_that_are_mapped(plain: Path, tmp_path: Path) -> None:
    function = kernels.loaded(plain)
    there = [line.split()[0].split("-") for line in
             Path("/proc/self/maps").read_text().splitlines() if str(plain) in line]  # fmt: skip
    assert pages(plain) == sum(int(b, 16) - int(a, 16) for a, b in there) > 0
    del function
    for raw in (b"", b"!<arch>\n", plain.read_bytes()[:60]):
        other = tmp_path / "other"
        other.write_bytes(raw)
        assert pages(other) == len(raw)
