"""A process that serves under attack: it calls from threads, forks, and counts failures.

`session_faults` starts it with a folder, stops it by a line on standard input, and may kill it at
any moment.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import multiprocessing
import os
import random
import resource
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

#: Seconds between two calls of a thread, which leave the CPU to compilers and new processes.
PAUSE = 0.002
WIDTH = 32
#: Accepted difference of float32 sums, since kernels sum in another order.
WITHIN = 1e-4
#: Seconds within which every size must have its kernel again.
RECOVERS = 240.0
#: Seconds after which a forked process counts as hanging.
HANGS = 20.0


def module() -> Any:
    """Return ``softmax(relu(x @ a) @ b)`` of x: (n, WIDTH), with sites of several functions."""
    from tvm import relax, tirx

    rng = np.random.default_rng(0)
    a, b = (relax.const(rng.standard_normal((WIDTH, WIDTH)).astype("float32")) for _ in "ab")
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((tirx.Var("n", "int64"), WIDTH), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.nn.relu(builder.emit(relax.op.matmul(x, a))))
            y = builder.emit(relax.op.nn.softmax(builder.emit(relax.op.matmul(y, b))))
            out = builder.emit_output(y)
        builder.emit_func_output(out)
    return builder.get()


def input_of(n: int) -> Any:
    return np.random.default_rng(n).standard_normal((n, WIDTH)).astype("float32")


class Server:
    """One session, the threads that call it, and their counts."""

    def __init__(self, folder: Path, seed: int, threads: int) -> None:
        from opinfo.jit import KernelStore, Session

        self.right = dict(np.load(folder / "right.npz"))
        self.sizes = len(self.right)
        self.inputs = {n: input_of(n) for n in range(1, self.sizes + 1)}
        self.session = Session(folder / "model.so", store=KernelStore(folder / "store"))
        self.counts: Counter[str] = Counter()
        self.first, self.lock = "", threading.Lock()
        self.seed, self.done = seed, threading.Event()
        self.threads = [threading.Thread(target=self._calls, args=(k,)) for k in range(threads)]

    def ask(self, n: int) -> str:
        """Call the session with a size; return ``right``, ``wrong`` or ``error``."""
        try:
            got = self.session(self.inputs[n]).numpy()
        except Exception as error:
            self.first = self.first or f"{n}: {type(error).__name__}: {error}"
            return "error"
        if np.allclose(got, self.right[str(n)], WITHIN, WITHIN):
            return "right"
        self.first = self.first or f"{n}: differs by {np.abs(got - self.right[str(n)]).max()}"
        return "wrong"

    def _calls(self, number: int) -> None:
        rng, counts = random.Random(self.seed + number), Counter[str]()
        while not self.done.is_set():
            counts[self.ask(rng.randint(1, self.sizes))] += 1
            time.sleep(PAUSE)
        with self.lock:
            self.counts.update(counts)

    def forks(self) -> None:
        """Fork while threads call; the calls of the child must be right."""
        child = os.fork()
        if child == 0:
            outcomes = {self.ask(n) for n in (1, self.sizes)}
            os._exit(0 if outcomes == {"right"} else 1)
        self._ends("forked", child)

    def spawns(self) -> None:
        """Fork by multiprocessing, whose processes end like normal Python processes."""
        process = multiprocessing.get_context("fork").Process(target=_exits, args=(self,))
        process.start()
        process.join(HANGS)
        if process.exitcode is None:
            process.kill()
            process.join()
        self.counts["multiprocessing" if process.exitcode == 0 else
                    f"multiprocessing: {_how(process.exitcode)}"] += 1  # fmt: skip
        process.close()

    def _ends(self, what: str, child: int) -> None:
        end, code = time.monotonic() + HANGS, None
        while code is None:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > end:
                os.kill(child, 9)
                end += HANGS
            else:
                time.sleep(0.01)
        self.counts[what if code == 0 else f"{what}: {_how(code)}"] += 1

    def _waits(self) -> None:
        os.read(0, 1)  # not sys.stdin: multiprocessing takes its lock in the child
        self.done.set()

    def run(self) -> dict[str, Any]:
        """Serve until a line arrives; meanwhile fork, and sometimes forbid writing files."""
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        rng = random.Random(self.seed)
        for thread in self.threads:
            thread.start()
        stop = threading.Thread(target=self._waits)
        stop.start()
        while not self.done.is_set():
            what = rng.random()
            if what < 0.4:
                self.forks()
            elif what < 0.6:
                self.spawns()
            elif what < 0.7:
                resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))
                self.done.wait(rng.random())
                resource.setrlimit(resource.RLIMIT_FSIZE, before)
                self.counts["disk full"] += 1
            self.done.wait(rng.random() / 2)
        for thread in (*self.threads, stop):
            thread.join()
        settled = self._settled()
        return {"counts": dict(self.counts), "first": self.first, **settled}

    def _settled(self) -> dict[str, Any]:
        """Wait until every size has its kernel again; return statistics."""
        for _ in range(3):
            for n in self.inputs:
                self.counts[f"after: {self.ask(n)}"] += 1
            self.session.settle()
        # A compiler that was killed many times starts again after a minute.
        end = time.monotonic() + RECOVERS
        while self._missing() and time.monotonic() < end:
            time.sleep(0.1)
        stats = self.session.stats()
        missing = self._missing()
        return {"events": dict(sorted(stats.counts.items())),
                "lost": sum(map(len, missing.values())), "missing": missing,
                "why": sorted({e.why for e in stats.events if e.what == "failed"})[:5]}  # fmt: skip

    def _missing(self) -> dict[str, list[int]]:
        """Return the sizes without a kernel, by site."""
        missing, sites = {}, self.session._manager.sites
        for site in sites.sites:
            compiled = {shape[0] for shape, *_ in sites.stats(site.place, False)["kernels"]}
            if without := sorted(self.inputs.keys() - compiled):
                missing[site.name] = without
        return missing


def _exits(server: Server) -> None:
    sys.exit(0 if {server.ask(n) for n in (1, server.sizes)} == {"right"} else 1)


def _how(code: int | None) -> str:
    return "hangs" if code in (None, -9) else "wrong" if code == 1 else f"ends with {code}"


def resources() -> dict[str, int]:
    """Count the resources that this process holds."""
    gc.collect()
    process = Path("/proc/self")
    maps = {
        line.split()[5] for line in (process / "maps").read_text().splitlines() if "opinfo-" in line
    }
    children = (process / "task" / str(os.getpid()) / "children").read_text().split()
    return {
        "descriptors": len(os.listdir(process / "fd")),
        "threads": len(os.listdir(process / "task")),
        "processes": len(children),
        "mapped libraries": len(maps),
    }


def main(folder: Path, seed: int, threads: int) -> None:
    """Serve twice; the second session must not hold more resources than the first left."""
    faulthandler.register(signal.SIGUSR1)
    warnings.simplefilter("ignore")  # damaged entries cause warnings
    server = Server(folder, seed, threads)
    print("ready", flush=True)
    result = server.run()
    server.session.close()
    del server
    before = resources()
    second = Server(folder, seed, threads)
    second.ask(1)
    second.forks()
    second.session.close()
    del second
    result["leaked"] = {k: v - before[k] for k, v in resources().items() if v > before[k]}
    result["held"] = before
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
