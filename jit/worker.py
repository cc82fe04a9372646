"""The process that compiles: `python -m opinfo.jit.worker`, one JSON line for each job and answer.

A compiler that crashes, hangs or grows does so here. Jobs are ``{"function": digest, "text": JSON
of the PrimFunc or null if it was sent before, "values", "target", "library", "check", "tuned": a
folder or null}``, answers ``{"rule", "milliseconds"}`` or ``{"error"}``.
"""

from __future__ import annotations

import json
import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, TextIO


def main() -> int:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    _yielding()
    functions: dict[str, Any] = {}
    generics: dict[str, Any] = {}
    _say(answers, {"ready": os.getpid()})
    for line in sys.stdin:
        job = json.loads(line)
        try:
            _say(answers, _done(job, functions, generics))
        except Exception as e:  # the schedule, the compiler, the linker: the reason goes back
            told = str(e).strip().splitlines() or [""]
            _say(answers, {"error": f"{type(e).__name__}: {told[-1][:500]}"})
    return 0


def _yielding() -> None:
    """Requests go first. (SCHED_IDLE would wait for ever on a machine that is busy.)"""
    os.nice(10)
    if hasattr(os, "SCHED_BATCH"):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


@lru_cache(maxsize=4)
def _known(folder: str) -> Any:
    """A database of tuned schedules, read once."""
    from .tuned import Known

    return Known(folder)


def _say(answers: TextIO, told: dict[str, Any]) -> None:
    answers.write(json.dumps(told) + "\n")
    answers.flush()


def _done(job: dict[str, Any], functions: dict[str, Any],
          generics: dict[str, Any]) -> dict[str, Any]:  # fmt: skip
    import tvm

    from .kernel import ENTRY, build, compare, compiled

    digest, target = job["function"], tvm.target.Target(job["target"])
    if job["text"] is not None:
        functions[digest] = tvm.ir.load_json(job["text"])
    func = functions[digest]
    known = None if job["tuned"] is None else _known(job["tuned"])
    built = build(func, job["values"], target, Path(job["library"]), known)
    if job["check"]:
        if digest not in generics:
            generics[digest] = compiled(func, target, "generic")["generic"]
        kernel = tvm.runtime.load_module(job["library"])[ENTRY]
        compare(kernel, generics[digest], func, job["values"])
    return {"rule": built.rule, "milliseconds": built.milliseconds}


if __name__ == "__main__":
    sys.exit(main())
