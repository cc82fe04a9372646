"""Faults below a running `Session`: in its kernel store and in its compiling processes."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tvm

from opinfo.jit import Compiler, KernelStore, Session, compile_shapes
from tests.jit import modules
from tests.jit.damages import Damage, flip_bit, replace_by_link, replace_by_pipe, truncate

SIZES = (1, 1, 3, 3, 16, 16, 1, 3, 16)


def _filed(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("x")


ENTRIES: dict[str, tuple[Damage, str]] = {
    "an entry is empty": (lambda p: p.write_bytes(b""), "it has only 0 bytes"),
    "an entry is truncated": (truncate, "its footer is missing"),
    "a bit of an entry is flipped": (flip_bit, "its digest does not match"),
    "an entry is a link": (replace_by_link, "symbolic"),
    "an entry is a pipe": (replace_by_pipe, "not a regular file"),
    "others can write an entry": (lambda p: p.chmod(0o666), "only this user can write"),
    "an entry is huge": (lambda p: os.truncate(p, 1 << 30), "bytes"),
    "an entry is garbage": (lambda p: p.write_bytes(b"injected" * 4000), "ignored and removed"),
}  # fmt: skip
FOLDERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "others can write the folder": (lambda p: p.chmod(0o777), "other users can write"),
    "the folder is a file": (_filed, "store"),
    "the disk is full": (lambda p: _full(), "No space left"),
}
STORES = {name: said for name, (_, said) in (*ENTRIES.items(), *FOLDERS.items())}
#: A process that is ready, and then does this with each job.
STUB = """
import json, os, sys, time
print('{"ready": 1}', flush=True)
for job in sys.stdin:
    %s
"""
COMPILERS: dict[str, tuple[str, str]] = {
    "aborts": ("os.abort()", "signal 6"),
    "exits": ("sys.exit(3)", "exit status 3"),
    "hangs": ("time.sleep(60)", "was stopped"),
    "answers no JSON": ("print('injected', flush=True)", "injected"),
    "answers nothing": ("print('', flush=True)", "answered"),
    "answers a list": ("print('[]', flush=True)", "answered"),
}


def _full() -> None:
    def fails(fd: object) -> None:
        raise OSError(28, "No space left on device")

    os.fsync = fails


def run(kind: str, folder: Path) -> tuple[bool, list[str]]:
    """Return whether all results were right, and the messages."""
    what, _, name = kind.partition(":")
    store = folder / "store"
    store.mkdir(mode=0o700)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if what == "compiler":
            command = (sys.executable, "-c", STUB % COMPILERS[name][0])
            right, events = _served(store, Compiler(seconds=1.0, command=command))
        else:
            right, events = True, []
            if name != "the disk is full":
                right, events = _served(store, Compiler())
            if name in ENTRIES:
                for entry in [p for p in store.rglob("*") if p.is_file()]:
                    ENTRIES[name][0](entry)
            else:
                FOLDERS[name][0](store)
            right_again, more = _served(store, Compiler())
            right, events = right and right_again, [*events, *more]
    return right, [*(str(w.message) for w in caught), *events]


def _served(store: Path, compiler: Compiler) -> tuple[bool, list[str]]:
    right = True
    try:
        with Session(compile_shapes(modules.dense()), store=KernelStore(store),
                     compiler=compiler) as session:  # fmt: skip
            for n in SIZES:
                rows = modules.rows(n)
                got = session(tvm.runtime.tensor(rows)).numpy()
                right &= bool(np.allclose(got, modules.expected(rows), rtol=1e-4, atol=1e-5))
            session.settle()
            events = [str(e) for e in session.stats().events]
    finally:
        compiler.close()
    return right, events
