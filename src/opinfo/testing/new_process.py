"""Run an exported library in a new process, which may crash."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tvm

from ..byoc.process.status import ended

#: Tensors are passed through files in TVM's format, which supports all dtypes.
SCRIPT = """
import sys
from importlib import import_module
if not sys.argv[1:]:
    sys.modules["torch"] = None  # TVM imports it if it is there, which takes seconds
import tvm
from tvm import relax

for name in sys.argv[1:]:
    import_module(name)
machine = relax.VirtualMachine(tvm.runtime.load_module("library.so"), tvm.cpu())
open("loaded", "w").close()
with open("calls.txt") as calls:
    for line in calls:
        function, count = line.split()
        inputs = tvm.runtime.load_param_dict_from_file(f"{function}.in") if int(count) else {}
        try:
            found = machine[function](*(inputs[str(k)] for k in range(int(count))))
        except Exception as e:
            last = (str(e).strip() or "no text").splitlines()[-1].strip()
            with open(f"{function}.error", "w") as error:
                error.write(f"{type(e).__name__}: {last}")
            continue
        found = [found] if isinstance(found, tvm.runtime.Tensor) else found
        tvm.runtime.save_param_dict_to_file({str(k): t for k, t in enumerate(found)},
                                            f"{function}.out")
"""


def run_in_new_process(
    export: Callable[[Path], None], calls: Mapping[str, Sequence[Any]], imports: Sequence[str]
) -> dict[str, list[Any] | str]:
    """Call functions of an exported library in new processes.

    If a function ends its process, the functions after it run in another one.

    Returns:
        The results of each function by name, or the reason why it has none.

    Raises:
        AssertionError: The library cannot be loaded; the message is the last line of the process.
    """
    with tempfile.TemporaryDirectory(prefix="opinfo-testing-") as name:
        folder = Path(name)
        export(folder / "library.so")
        for function, inputs in calls.items():
            tensors = {str(k): t for k, t in enumerate(inputs)}
            tvm.runtime.save_param_dict_to_file(tensors, str(folder / f"{function}.in"))
        pending = list(calls)
        while pending:
            lines = [f"{function} {len(calls[function])}\n" for function in pending]
            (folder / "calls.txt").write_text("".join(lines))
            pending = _run(folder, pending, imports)
        return {function: _results(folder, function) for function in calls}


def _run(folder: Path, functions: Sequence[str], imports: Sequence[str]) -> list[str]:
    """Run functions in one process; return those after a function that ended it."""
    path = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT, *imports], cwd=folder, capture_output=True,
        text=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    pending = [f for f in functions
            if not any((folder / f"{f}.{kind}").exists() for kind in ("out", "error"))]  # fmt: skip
    if not pending:
        return []
    last = (process.stderr.strip().splitlines() or [ended(process.returncode)])[-1]
    assert (folder / "loaded").exists(), f"a new process cannot run the library: {last}"
    how = f"it ends the process with {ended(process.returncode)}"
    (folder / f"{pending[0]}.error").write_text(how)
    return pending[1:]


def _results(folder: Path, function: str) -> list[Any] | str:
    error = folder / f"{function}.error"
    if error.exists():
        return error.read_text()
    outputs = tvm.runtime.load_param_dict_from_file(str(folder / f"{function}.out"))
    return [outputs[str(k)] for k in range(len(outputs))]
