"""Run an exported library in a new process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tvm

#: Tensors are passed through files in TVM's format, which supports all dtypes.
SCRIPT = """
import sys
from importlib import import_module
import tvm
from tvm import relax

for name in sys.argv[1:]:
    import_module(name)
machine = relax.VirtualMachine(tvm.runtime.load_module("library.so"), tvm.cpu())
with open("calls.txt") as calls:
    for line in calls:
        function, count = line.split()
        inputs = tvm.runtime.load_param_dict_from_file(f"{function}.in") if int(count) else {}
        found = machine[function](*(inputs[str(k)] for k in range(int(count))))
        found = [found] if isinstance(found, tvm.runtime.Tensor) else found
        tvm.runtime.save_param_dict_to_file({str(k): t for k, t in enumerate(found)},
                                            f"{function}.out")
"""


def run_in_new_process(
    export: Callable[[Path], None], calls: Mapping[str, Sequence[Any]], imports: Sequence[str]
) -> dict[str, list[Any]]:
    """Call functions of an exported library in a new process; return results by name.

    Raises:
        AssertionError: The process fails; the message is its last line.
    """
    with tempfile.TemporaryDirectory(prefix="opinfo-testing-") as name:
        folder = Path(name)
        export(folder / "library.so")
        lines = [f"{function} {len(inputs)}\n" for function, inputs in calls.items()]
        (folder / "calls.txt").write_text("".join(lines))
        for function, inputs in calls.items():
            tensors = {str(k): t for k, t in enumerate(inputs)}
            tvm.runtime.save_param_dict_to_file(tensors, str(folder / f"{function}.in"))
        path = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, *imports], cwd=folder, capture_output=True,
            text=True, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        assert done.returncode == 0, f"a new process cannot run the library: {last}"
        return {f: _results(folder / f"{f}.out") for f in calls}


def _results(path: Path) -> list[Any]:
    found = tvm.runtime.load_param_dict_from_file(str(path))
    return [found[str(k)] for k in range(len(found))]
