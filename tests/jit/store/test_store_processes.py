"""Processes and threads that share a store: killed writers, short writes, readers at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path

from opinfo.jit.store.store import KernelStore
from opinfo.jit.store.store_files import PART

from ..kernels import KEYS, library, stored
from .test_store_faults import KEY


def child(code: str, *words: str) -> subprocess.Popen[str]:
    """A process with ``store``, ``KEYS`` and what else tests use."""
    head = """
        import errno, os, resource, signal, sys, time, warnings
        sys.modules["torch"] = None  # TVM would import it
        from opinfo.jit.store.store import KernelStore
        from tests.jit.kernels import KEYS, library, stored
        store = KernelStore(sys.argv[1])
    """
    text = textwrap.dedent(head) + textwrap.dedent(code)
    path = os.pathsep.join(filter(None, [*sys.path, str(Path(__file__).parents[3])]))
    return subprocess.Popen([sys.executable, "-c", text, *words], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "PYTHONPATH": path})  # fmt: skip


def finished(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out


def test_a_writer_killed_in_the_middle_leaves_nothing_that_counts(tmp_path: Path) -> None:
    store = KernelStore(tmp_path)
    process = child(
        """
        def stop(_):
            print("middle", flush=True)
            time.sleep(600)
        os.fsync = stop
        stored(store, KEYS[0])
        """,
        str(tmp_path),
    )
    assert process.stdout is not None and process.stdout.readline() == "middle\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (part,) = tmp_path.iterdir()
    assert part.name.startswith(PART) and part.stat().st_size > 20_000
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.get(KEY) is None and store.ls() == []
        stored(store, KEYS[1])
        assert part.exists()  # it may be being written
        os.utime(part, (time.time() - 7200,) * 2)
        stored(store, KEY)
    assert not part.exists() and store.get(KEY) is not None


def test_a_write_that_the_kernel_cuts_short(tmp_path: Path) -> None:
    """A limit of the process on files, met in the middle of the entry."""
    process = child(
        """
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        source = sys.argv[1] + "-library"
        with open(source, "wb") as file:
            file.write(library(KEYS[0]))
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert store.put(KEYS[0], source) is None and store.put(KEYS[1], source) is None
        print(len(told), told[0].message, os.listdir(store.folder))
        """,
        str(tmp_path / "kernels"),
    )
    out = finished(process)
    assert out.startswith("1 kernels are not stored") and out.rstrip().endswith("[]")


def test_eight_processes_at_once(tmp_path: Path) -> None:
    """They put, get, evict, clear and damage the same few entries; whatever is got is right."""
    code = """
        import random
        rng = random.Random(int(sys.argv[2]))
        store = KernelStore(sys.argv[1], max_count=6)
        end, got = time.monotonic() + 2.0, 0
        warnings.simplefilter("ignore")
        while time.monotonic() < end or not got:
            key, what = rng.choice(KEYS[:12]), rng.random()
            if what < 0.4:
                stored(store, key)
            elif what < 0.9:
                path = store.get(key)
                if path is not None:
                    try:
                        raw = path.read_bytes()
                    except FileNotFoundError:
                        continue
                    # The one who damages writes in place after it was verified, at this place.
                    assert raw[:2000] == library(key)[:2000], key
                    got += 1
            elif what < 0.93:
                assert all(r.key in KEYS for r in store.ls())
            elif what < 0.94:
                store.clear(0.001)
            else:
                try:
                    with open(store.folder / f"{key}.so", "r+b") as file:
                        file.seek(3000)
                        file.write(b"damage")
                except FileNotFoundError:
                    pass
        print(got)
    """
    processes = [child(code, str(tmp_path), str(n)) for n in range(8)]
    assert all(int(finished(p)) > 0 for p in processes)
    store = KernelStore(tmp_path, max_count=6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = store.ls()
        whole = {r.key for r in rows if store.get(r.key)}
    assert len(rows) <= 6 + 8  # a put that raced with another's eviction
    for key in whole:
        assert (tmp_path / f"{key}.so").read_bytes().startswith(library(key))
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(PART)]
    stored(store, KEYS[20])
    assert len(store.ls()) <= 6


def test_eight_threads_at_once(tmp_path: Path) -> None:
    store = KernelStore(tmp_path, max_count=4)
    wrong: list[str] = []
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        for turn in range(40):
            key = KEYS[(number + turn) % 8]
            if turn % 3 == 0:
                stored(store, key)
            path = store.get(key)
            try:
                if path is not None and not path.read_bytes().startswith(library(key)):
                    wrong.append(key)
            except FileNotFoundError:
                pass

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert wrong == [] and len(store.ls()) <= 4 + 8
