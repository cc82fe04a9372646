"""A process that loads libraries, calls them and times the calls.

``python -m opinfo.verify.timing_process FOLDER THREADS DEVICE`` reads the inputs from a folder. For
each line of JSON, a list of libraries, it loads each and answers why it could not, then writes the
outputs of each new one to the folder, and answers milliseconds, all as lines of JSON. The first
answer says that it is ready. Calls of one thread are timed by CPU time, which other processes do
not lengthen; calls on a GPU by the time until it is idle.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import tvm
from tvm import relax

from ..byoc.codegen.loading.cuda_device import cuda_device
from ..byoc.patterns.failure import one_line
from .release_memory import can_be_emptied, emptied
from .short_parts import Call, Clock
from .timed_turns import timed_turns
from .trial_values import flat, load, restored, save, tensors_of

#: Rounds of calls for kernels of their shapes, which come after the second one; the most seconds of
#: a round until they are compiled.
KERNELS, SETTLING = 3, 60.0
#: A function of libraries that compile kernels for shapes.
SERVES = "opinfo_jit_about"
#: Sessions of libraries, which would end with them.
_SESSIONS: dict[str, Any] = {}
#: Files of the folder.
INPUTS, CALLS = "inputs", "calls"
#: Kinds of device.
CPU, GPU = "cpu", "gpu"


def _loaded(library: str, device: Any, functions: Sequence[str]) -> Any:
    """Return a library and its functions, or why it cannot be loaded."""
    try:
        module = tvm.runtime.load_module(library)
        machine = relax.VirtualMachine(module, device)
        return module, {name: machine[name] for name in functions}
    except Exception as error:  # of any library in it
        return one_line(error)


def _served(library: str, module: Any, calls: Sequence[Call | None]) -> None:
    """Call a library that compiles kernels for shapes until it has those of these calls."""
    if not module.implements_function(SERVES, True):
        return
    from ..jit.runtime.session import Session  # imports all schedules

    session = _SESSIONS[library] = Session(library)
    for _ in range(KERNELS):
        for call in calls:
            if call is not None:
                call()
        session.settle(SETTLING)


def _called(main: Any, values: Sequence[Any], outputs: Path) -> Call | None:
    """Call a function once and write its outputs; return a further call, None if that fails.

    The outputs live as long as that call: if their memory went to the outputs of the next library,
    one that writes nothing there would seem right. Their content is not needed after this, so the
    pages of large ones are given back. What a second call returns at the same address, such as a
    constant, is kept: later calls read it.
    """
    try:
        tensors = flat(main(*values))
        save(tensors, outputs)
        given = list(tensors_of(list(values)))
        again = flat(main(*values)) if any(can_be_emptied(t, given) for t in tensors) else []
        for some, others in ((tensors, again), (again, tensors)):
            for tensor in some:
                emptied(tensor, [*given, *others])
    except Exception as error:  # of any library in it
        print(one_line(error), file=sys.stderr)
        return None

    def call(_kept: object = (tensors, again)) -> object:
        return main(*values)

    return call


def _clock(threads: int, device: Any) -> Clock:
    """Return a clock whose seconds a call takes."""
    if device.dlpack_device_type() == tvm.cpu().dlpack_device_type():
        return process_time if threads == 1 else perf_counter

    def idle() -> float:
        device.sync()
        return perf_counter()

    return idle


def _main(folder: Path, threads: int, kind: str) -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries may print too
    device = cuda_device() if kind == GPU else tvm.cpu()
    tensors = [tensor.copyto(device) for tensor in load(folder / INPUTS)]
    layout = json.loads((folder / CALLS).read_text(encoding="utf-8"))
    asked = [(name, [restored(v, tensors) for v in values]) for name, values in layout]
    names = list(dict.fromkeys(name for name, _ in asked))
    clock = _clock(threads, device)

    def answer(value: Any) -> None:
        answers.write(json.dumps(value).encode() + b"\n")
        answers.flush()

    answer(True)
    loaded: dict[str, Any] = {}
    calls: dict[str, list[Call | None]] = {}
    for line in sys.stdin:
        libraries = json.loads(line)
        for path in libraries:
            if path not in loaded:
                loaded[path] = _loaded(path, device, names)
            answer(loaded[path] if isinstance(loaded[path], str) else "")
        for k, (path, library) in enumerate(loaded.items()):
            if path not in calls and isinstance(library, str):
                calls[path] = [None] * len(asked)
            elif path not in calls:
                module, functions = library
                calls[path] = [_called(functions[name], values, folder / f"{k}.{c}")
                               for c, (name, values) in enumerate(asked)]  # fmt: skip
                _served(path, module, calls[path])
        by_call = ([calls[path][c] for path in libraries] for c in range(len(asked)))
        answer([timed_turns(turns, clock, len(asked) == 1) for turns in by_call])


if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
