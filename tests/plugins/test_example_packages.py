"""The example packages: installed, discovered in a new process, and tested by their own tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tvm
from tvm import relax

from ..common.packages import EXAMPLES, examples
from ..layout import nets

USED = """
import sys
import opinfo, opinfo.analysis, opinfo.byoc
from opinfo.testing.calls import lower
assert not {"tiny_npu", "batch_flatten"} & set(sys.modules)

print(opinfo.analysis.op_info(lower(opinfo.analysis.Matches(
    "relax.nn.batch_flatten", ("float32[4, 5, 3]",)))).name)
assert "tiny_npu" not in sys.modules

import numpy as np
from tvm import relax
x = relax.Var("x", relax.TensorType((4, 6), "float32"))
bb = relax.BlockBuilder()
with bb.function("main", [x]):
    with bb.dataflow():
        y = bb.emit(relax.op.matmul(x, relax.const(np.eye(6, 5, dtype="float32"))))
        out = bb.emit_output(bb.emit(relax.op.nn.relu(y)))
    bb.emit_func_output(out)
compiled = opinfo.compile(bb.get(), ["tiny_npu"])
a = np.arange(-12, 12, dtype="float32").reshape(4, 6)
print(np.array_equal(compiled.run(a), np.maximum(a[:, :5], 0)))
print(compiled.report().splitlines()[1])
"""


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(examples()), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, "OPINFO_PLUGINS": "1"}
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, env=environment)


def test_the_library_discovers_them() -> None:
    done = _run("-c", USED)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "relax.nn.batch_flatten", "True", "offloaded 2 of 2 ops, 100.0% of FLOPs, tiny_npu 2, "
        "tvm 0; 0 layout conversions"]  # fmt: skip


@pytest.mark.parametrize("package", ["npu_backend", "recogniser_package"])
def test_their_own_tests_pass(package: str) -> None:
    folder = EXAMPLES / package
    done = _run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder),
                str(folder / "tests"))  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout


def test_the_command_line_lists_and_uses_them(tmp_path: Path) -> None:
    done = _run("-m", "opinfo", "backends", "--json")
    rows = [b for b in json.loads(done.stdout) if b["distribution"] == "opinfo-tiny-npu"]
    assert rows == [{
        "name": "tiny_npu", "version": "1.0", "distribution": "opinfo-tiny-npu",
        "distribution_version": "1.0", "patterns": ["dense"],
        "operators": ["relax.add", "relax.matmul", "relax.nn.relu"], "unavailable": None,
    }]  # fmt: skip
    model = tmp_path / "model.json"
    model.write_text(tvm.ir.save_json(_model()))
    done = _run("-m", "opinfo", "dispatch", str(model), "--backend", "tiny_npu,tvm")
    assert done.returncode == 0 and "tiny_npu 2, tvm 0" in done.stdout, done.stderr


def _model() -> tvm.IRModule:
    return nets.net(lambda e, r, x: e(relax.op.nn.relu(e(relax.op.matmul(x, nets.const(r, 6, 5))))),
                    (4, 6), legal=False)  # fmt: skip
