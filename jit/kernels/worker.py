"""The compiler process, `python -m opinfo.jit.kernels.worker`: one JSON line a job and answer.

It isolates crashes, hangs and memory growth of the compiler. Its first line is ``{"ready": process
id, "toolchain": versions that kernels depend on}``. A job is ``{"function": digest, "text": JSON of
the PrimFunc or null if it was sent before, "values", "target", "library", "check", "tuned": a
folder or null}``, an answer ``{"rule", "milliseconds"}`` or ``{"error"}``.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ..store.kernel_key import toolchain

if TYPE_CHECKING:
    from .build_kernel import KernelBuilder


def main() -> int:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # keep prints of libraries out of the answers
    _yielding()
    # Hash the sources before importing them: a change in between then changes the key.
    made_by = toolchain()
    importlib.import_module(".build_kernel", __package__)
    makers: dict[str, KernelBuilder] = {}
    _say(answers, {"ready": os.getpid(), "toolchain": made_by})
    for line in sys.stdin:
        job = json.loads(line)
        try:
            _say(answers, _done(job, makers))
        except Exception as error:  # report any failure to schedule, compile or link
            _say(answers, {"error": f"{type(error).__name__}: {_reason(str(error))[:500]}"})
    return 0


def _reason(text: str) -> str:
    """Return the line that gives the reason; a compiler's last line is its command line."""
    lines = [line for line in text.strip().splitlines() if line] or [""]
    telling = [line for line in lines if "error" in line or "cannot" in line or "No such" in line]
    return (telling or [line for line in lines if "ommand line" not in line] or lines)[-1]


def _yielding() -> None:
    """Yield to requests. SCHED_IDLE would starve on a busy machine."""
    os.nice(10)
    if hasattr(os, "SCHED_BATCH"):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    with contextlib.suppress(OSError):  # the OOM killer should prefer this process to the server
        Path("/proc/self/oom_score_adj").write_text("800")


@lru_cache(maxsize=4)
def _known(folder: str) -> Any:
    """Open a database of tuned schedules once."""
    from ..tune.schedule_database import OpenDatabase

    return OpenDatabase(folder)


def _say(answers: TextIO, told: dict[str, Any]) -> None:
    answers.write(json.dumps(told) + "\n")
    answers.flush()


def _done(job: dict[str, Any], makers: dict[str, KernelBuilder]) -> dict[str, Any]:
    import tvm

    from .build_kernel import KernelBuilder

    if job["text"] is not None:
        known = None if job["tuned"] is None else _known(job["tuned"])
        func, target = tvm.ir.load_json(job["text"]), tvm.target.Target(job["target"])
        makers[job["function"]] = KernelBuilder(func, target, known)
    maker = makers[job["function"]]
    built = maker.make(job["values"], Path(job["library"]), job["check"])
    return {"rule": built.rule, "milliseconds": built.milliseconds}


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # the client is gone
        os._exit(0)
