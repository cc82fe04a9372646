"""Attack a `Session` with threads, forks, kills, full disks and a damaged store.

    python -m benchmarks.session_faults [--seconds 60] [--threads 8] [--sizes 12]
                                       [--page [FILE]]

Two processes serve one library and share a store of kernels. Meanwhile their compilers are killed
(SIGKILL), and so is one of the two, which writes to the store; a third process, which only writes,
is killed halfway; entries are truncated, changed, replaced, linked, made readable to others and
removed. In the process that survives, threads call with random sizes while processes are forked by
`os.fork` and by `multiprocessing`, and from time to time no file can be written.
Each answer is compared with TVM's own build.
Exit status: 1 where anything is wrong, lost, leaked or torn.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.common.pages import add_page_option
from tests.jit.damages import Damage, replace_by_pipe, truncate

from .server import input_of, module

#: A process that writes entries of its own, and is killed while writing.
WRITER = """
import hashlib, os, sys, time
from opinfo.jit.store.store import KernelStore
store, sync = KernelStore(sys.argv[1]), os.fsync
def slow(number):
    sync(number)
    time.sleep(0.02)
os.fsync = slow
for n in range(1 << 30):
    store.put(hashlib.sha256(b"%d" % (n % 50)).hexdigest()[:40], sys.argv[2])
"""


@dataclass
class Result:
    """The attacks on the session, and its report."""

    seconds: float
    attacks: Counter[str] = field(default_factory=Counter)
    report: dict[str, Any] = field(default_factory=dict)
    torn: int = 0
    remains: list[str] = field(default_factory=list)

    @property
    def failures(self) -> dict[str, Any]:
        """The problems by name; empty if the session survived."""
        counts = self.report.get("counts", {})
        bad = {k: v for k, v in counts.items() if k in ("wrong", "error") or ": " in k}
        bad = {k: v for k, v in bad.items() if k != "after: right"}
        for name, value in (("torn entries", self.torn), ("left behind", self.remains),
                            ("lost kernels", self.report.get("lost", -1)),
                            ("leaked", self.report.get("leaked", "unknown"))):  # fmt: skip
            if value:
                bad[name] = value
        return bad


def changed(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 3)
        file.write(b"damage")


def linked(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def swapped(path: Path) -> None:
    others = [p for p in path.parent.glob("*.so") if p != path and p.is_file()]
    if others:
        path.write_bytes(random.choice(others).read_bytes())


DAMAGES: tuple[Damage, ...] = (
    truncate, changed, linked, replace_by_pipe, swapped, Path.unlink, lambda p: p.chmod(0o666),
    lambda p: p.write_bytes(b""), lambda p: p.write_bytes(b"\x7fELF" + bytes(9000)),
)  # fmt: skip


def attack(seconds: float, threads: int, sizes: int, seed: int = 0) -> Result:
    """Run all attacks, in a temporary folder."""
    result, rng = Result(seconds), random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="session-faults-") as name:
        folder = Path(name)
        (folder / "tmp").mkdir()
        _prepare(folder, sizes)
        stays = _server(folder, threads, seed)
        goes, writer = _server(folder, 2, seed + 1), _writer(folder)
        end, next_kill = time.monotonic() + seconds, 0.0
        damaged: set[str] = set()
        while time.monotonic() < end:
            what = rng.random()
            if what < 0.75:
                result.attacks["entries damaged"] += _damage(folder / "store", rng, damaged)
            elif what < 0.85:
                _killed(writer)
                writer, _ = _writer(folder), result.attacks.update(["writers killed"])
            elif time.monotonic() > next_kill:
                result.attacks["compilers killed"] += _kill_compilers((stays, goes))
                if rng.random() < 0.4:
                    _killed(goes)
                    goes, _ = _server(folder, 2, rng.randrange(1 << 20)), result.attacks.update(
                        ["servers killed"])  # fmt: skip
                next_kill = time.monotonic() + rng.uniform(2, 6)
            time.sleep(rng.uniform(0, 0.4))
        _killed(writer)
        _killed(goes)
        out, _ = stays.communicate("stop\n")
        with contextlib.suppress(IndexError, ValueError):
            result.report = json.loads(out.splitlines()[-1])
        result.report.setdefault("first", f"the process that stays ended with {stays.returncode}")
        result.torn = _torn(folder / "store", damaged)
        result.remains = _remains(folder)
    return result


def _prepare(folder: Path, sizes: int) -> None:
    import numpy as np
    import tvm
    from tvm import relax

    from opinfo.jit import compile_shapes

    compile_shapes(module()).export(folder / "model.so")
    main = relax.VirtualMachine(tvm.compile(module(), "llvm"), tvm.cpu())["main"]
    right = {str(n): main(tvm.runtime.tensor(input_of(n))).numpy() for n in range(1, sizes + 1)}
    np.savez(folder / "right.npz", **right)
    (folder / "library.so").write_bytes((folder / "model.so").read_bytes()[:30_000])


def _server(folder: Path, threads: int, seed: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.session_faults.server", str(folder), str(seed),
               str(threads)]  # fmt: skip
    process = _started(folder, command)
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        raise RuntimeError("a server does not start: what it says is above")
    return process


def _writer(folder: Path) -> subprocess.Popen[str]:
    paths = str(folder / "store"), str(folder / "library.so")
    return _started(folder, [sys.executable, "-c", WRITER, *paths])


def _started(folder: Path, command: list[str]) -> subprocess.Popen[str]:
    path = os.pathsep.join(filter(None, [os.getcwd(), *sys.path]))
    environment = {**os.environ, "TMPDIR": str(folder / "tmp"), "PYTHONPATH": path,
                   "TVM_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # fmt: skip
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            env=environment)  # fmt: skip


def _killed(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):  # its children may hold the other ends
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _kill_compilers(servers: tuple[subprocess.Popen[str], ...]) -> int:
    count = 0
    for server in servers:
        for pid in _children(server.pid):
            with contextlib.suppress(OSError):
                if b"opinfo.jit.kernels.worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
                    count += 1
    return count


def _children(pid: int) -> Iterator[int]:
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            yield from map(int, path.read_text().split())


def _damage(store: Path, rng: random.Random, damaged: set[str]) -> int:
    entries = sorted(store.glob("*.so"))
    if not entries:
        return 0
    path = rng.choice(entries)
    damaged.add(path.name)
    try:
        rng.choice(DAMAGES)(path)
    except OSError:  # evicted or discarded just now
        return 0
    return 1


def _torn(store: Path, damaged: set[str]) -> int:
    """Count incomplete entries that no attack damaged."""
    from opinfo.jit import KernelStore

    kernels = KernelStore(store)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sum(kernels.get(p.stem) is None for p in store.glob("*.so") if p.name not in damaged)


def _remains(folder: Path) -> list[str]:
    """Return remaining processes and temporary files, after creating another folder."""
    for _ in range(600):
        remains = [f"process {p.name}" for p in Path("/proc").glob("[0-9]*") if _is_of(p, folder)]
        if not remains:
            break
        time.sleep(0.1)
    code = "from opinfo.byoc.process import temporary_folder as t; t.TemporaryFolder('opinfo-')"
    _started(folder, [sys.executable, "-c", code]).communicate()
    return remains + [str(p.relative_to(folder)) for p in (folder / "tmp").iterdir()]


def _is_of(process: Path, folder: Path) -> bool:
    try:
        return f"TMPDIR={folder}/".encode() in (process / "environ").read_bytes()
    except OSError:
        return False


def page(result: Result, threads: int) -> str:
    """Return the page in Markdown."""
    counts, events = result.report.get("counts", {}), result.report.get("events", {})
    rows = [
        ("calls compared with TVM's own build", f"{counts.get('right', 0):,}"),
        ("wrong, errors", f"{counts.get('wrong', 0)}, {counts.get('error', 0)}"),
        *((f"{what}", f"{n}") for what, n in sorted(result.attacks.items())),
        ("processes forked off, by `os.fork` and `multiprocessing`",
         f"{counts.get('forked', 0)}, {counts.get('multiprocessing', 0)}"),
        ("times in which no file could be written", str(counts.get("disk full", 0))),
        ("kernels: " + ", ".join(events), ", ".join(map(str, events.values()))),
        ("sizes without a kernel in the end", str(result.report.get("lost"))),
        ("torn entries in the store", str(result.torn)),
        ("leaked descriptors, threads, processes, mapped libraries",
         str(sum(result.report.get("leaked", {}).values()))),
        ("processes and temporary files left behind", str(len(result.remains))),
    ]  # fmt: skip
    table = "\n".join(f"| {a} | {b} |" for a, b in rows)
    doc = (__doc__ or "").split("\n\n", 2)[2].partition("Exit status")[0].strip()
    return (f"# A session under attack\n\n`python -m benchmarks.session_faults --seconds "
            f"{result.seconds:g}`, {threads} threads:\n\n| | |\n| --- | --- |\n{table}\n\n"
            f"{doc}\n")  # fmt: skip


def main() -> int:
    """Attack, print, write the page."""
    parser = argparse.ArgumentParser("python -m benchmarks.session_faults", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--sizes", type=int, default=12, help="each has three kernels")
    parser.add_argument("--seed", type=int, default=0)
    add_page_option(parser, "session-faults.md")
    options = parser.parse_args()
    result = attack(options.seconds, options.threads, options.sizes, options.seed)
    print(page(result, options.threads))
    for name, value in result.failures.items():
        print(f"{name}: {value}")
    if result.failures:
        print(json.dumps(result.report, indent=1))
    if options.page is not None:
        options.page.write_text(page(result, options.threads), encoding="utf-8")
    return 1 if result.failures else 0


if __name__ == "__main__":
    sys.exit(main())
