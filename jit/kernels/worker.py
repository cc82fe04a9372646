"""The compiler process, `python -m opinfo.jit.kernels.worker`: one JSON line a job and answer.

It isolates crashes, hangs and memory growth of the compiler. Its first line is ``{"ready": process
id, "toolchain": versions that kernels depend on}``. A job is ``{"function": digest, "text": JSON of
the PrimFunc or null if it was sent before, "values", "target", "library", "check", "winograd",
"tuned": a folder or null, "generic": a `GenericKernel` or null}``, an answer ``{"rule",
"milliseconds"}`` or ``{"error"}``. For the rule "generic", no library is written.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ...byoc.process.without_torch import leave_out_torch
from ..store.kernel_key import toolchain
from .generic_kernel import GenericKernel, identity
from .job_priority import JobPriority

if TYPE_CHECKING:
    from .build_kernel import KernelBuilder


def main() -> int:
    """Build kernels for the process that started this one, a job a line of standard input."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # keep prints of libraries out of the answers
    _yield_to_requests()
    priority = JobPriority()
    # Hash the sources before importing them: a change in between then changes the key.
    versions = toolchain()
    leave_out_torch()
    importlib.import_module(".build_kernel", __package__)
    builders: dict[str, KernelBuilder] = {}
    _say(answers, {"ready": os.getpid(), "toolchain": versions})
    for line in sys.stdin:
        job = json.loads(line)
        try:
            _say(answers, priority.run(partial(_answer, job, builders)))
        except Exception as error:  # report any failure to schedule, compile or link
            _say(answers, {"error": f"{type(error).__name__}: {_reason(str(error))[:500]}"})
    return 0


def _reason(text: str) -> str:
    """Return the line that gives the reason; a compiler's last line is its command line."""
    lines = [line for line in text.strip().splitlines() if line] or [""]
    telling = [line for line in lines if "error" in line or "cannot" in line or "No such" in line]
    return (telling or [line for line in lines if "ommand line" not in line] or lines)[-1]


def _yield_to_requests() -> None:
    """Run in long slices, and be killed first. SCHED_IDLE would starve on a busy machine."""
    if hasattr(os, "SCHED_BATCH"):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    with contextlib.suppress(OSError):  # the OOM killer should prefer this process to the server
        Path("/proc/self/oom_score_adj").write_text("800")


@lru_cache(maxsize=4)
def _database(folder: str) -> Any:
    """Open a database of tuned schedules once."""
    from ..tune.schedule_database import OpenDatabase

    return OpenDatabase(folder)


def _say(answers: TextIO, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


def _answer(job: dict[str, Any], builders: dict[str, KernelBuilder]) -> dict[str, Any]:
    import tvm

    from .build_kernel import KernelBuilder

    if job["text"] is not None:
        database = None if job["tuned"] is None else _database(job["tuned"])
        func, target = tvm.ir.load_json(job["text"]), tvm.target.Target(job["target"])
        builders[job["function"]] = KernelBuilder(func, target, database, _generic(job["generic"]))
    builder = builders[job["function"]]
    built = builder.make(job["values"], Path(job["library"]), job["check"], job["winograd"])
    return {"rule": built.rule, "milliseconds": built.milliseconds}


def _generic(place: dict[str, Any] | None) -> Any:
    """Load the generic kernel of the served library; None if the file is another one by now."""
    import tvm

    if place is None or (generic := GenericKernel.from_json(place)).identity != identity(
        generic.library
    ):
        return None
    try:
        module = tvm.runtime.load_module(generic.library)
        return module.get_function(generic.function, query_imports=True)
    except Exception:  # it is compiled again
        return None


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # the client is gone
        os._exit(0)
