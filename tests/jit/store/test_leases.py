"""Processes that share a store compile a kernel once, and nobody waits for a dead one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from opinfo.jit import CompiledShapes, KernelStore, Session
from opinfo.jit.store.leases import Lease

from ..kernels import KEYS
from ..sessions import ask, counted


@pytest.fixture
def store(tmp_path: Path) -> KernelStore:
    return KernelStore(tmp_path / "kernels")


def test_one_holder_has_a_lease_until_it_is_released(store: KernelStore) -> None:
    first = store.lease(KEYS[0])
    assert first is not None and KernelStore(store.folder).lease(KEYS[0]) is None
    other = store.lease(KEYS[1])
    assert other is not None, "another kernel is another lease"
    first.release()
    again = store.lease(KEYS[0])
    assert again is not None
    first.release()  # a second time: it must not release the lease of the other holder
    assert store.lease(KEYS[0]) is None
    assert store.ls() == [] and store.clear() == []


HOLDER = """
import os, sys
sys.modules["torch"] = None  # TVM would import it
from opinfo.jit import KernelStore
lease = KernelStore(sys.argv[1]).lease(sys.argv[2])
print("held" if lease else "taken", flush=True)
sys.stdin.read()
"""


def test_a_lease_ends_with_its_process(store: KernelStore) -> None:
    command = (sys.executable, "-c", HOLDER, str(store.folder), KEYS[0])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        assert store.lease(KEYS[0]) is None
        holder.kill()
    assert store.lease(KEYS[0]) is not None


def test_a_fork_of_the_holder_does_not_keep_what_is_released(store: KernelStore) -> None:
    lease = store.lease(KEYS[0])
    assert lease is not None
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    lease.release()
    again = store.lease(KEYS[0])
    os.write(write, b"x")
    os.waitpid(child, 0)
    assert again is not None


def test_without_a_usable_folder_everyone_has_the_lease(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = KernelStore(tmp_path / "file")
    with pytest.warns(UserWarning, match="kernels are not stored"):
        assert store.lease(KEYS[0]) is not None
    assert store.lease(KEYS[0]) is not None


def test_two_sessions_compile_each_kernel_once(
    compiled: CompiledShapes, plain: Path, tmp_path: Path, store: KernelStore
) -> None:
    shutil.copy(compiled.library, tmp_path / "other.so")
    slow = "__import__('time').sleep(0.1)"
    compilers = [counted(tmp_path, plain, slow) for _ in range(2)]
    with Session(compiled, store=store, compiler=compilers[0]) as one, \
            Session(tmp_path / "other.so", store=store, compiler=compilers[1]) as two:  # fmt: skip
        for session in (one, two):
            ask(session, [2, 2, 3, 3, 4, 4, 5, 5])
        settled = [one.settle(), two.settle()]
        counts = [s.counts for s in settled]
        for session in (one, two):
            ask(session, [2, 3, 4, 5])
        hits = [s.stats().sites[0].hits for s in (one, two)]
    assert all(settled) and hits == [4, 4]
    assert sum(c.get("compiled", 0) for c in counts) == 4, counts
    assert sum(c.get("loaded", 0) for c in counts) == 4, counts


def test_a_holder_that_does_not_finish_is_not_waited_for_forever(
    compiled: CompiledShapes, plain: Path, tmp_path: Path, store: KernelStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    asked = []

    def taken(self: KernelStore, key: str) -> Lease | None:
        asked.append(key)
        return None

    monkeypatch.setattr(KernelStore, "lease", taken)
    compiler = counted(tmp_path, plain, "pass")
    compiler.seconds = 0.2
    with Session(compiled, store=store, compiler=compiler) as session:
        ask(session, [2, 2])
        settled = session.settle()
    assert settled.counts == {"compiled": 1} and len(asked) > 2
    assert 0.3 < settled.seconds
