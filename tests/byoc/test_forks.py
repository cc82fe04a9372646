"""A fork of a process that has called a model calls it too: it has none of the team's threads."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from opinfo.byoc.backend.catalog import find

PROGRAM = """
import os, signal
import numpy as np, opinfo
from tvm import relax

x = relax.Var("x", relax.TensorType((256, 256), "float32"))
w = relax.const(np.random.default_rng(0).standard_normal((256, 256), "float32"))
builder = relax.BlockBuilder()
with builder.function("main", [x]):
    with builder.dataflow():
        out = builder.emit_output(builder.emit(relax.op.matmul(x, w)))
    builder.emit_func_output(out)
compiled = opinfo.compile(builder.get(), ["onednn"], target="llvm -num-cores=2")
assert not compiled.dispatched.left
a = np.random.default_rng(1).standard_normal((256, 256), "float32")
expected = compiled.run(a)
for _ in range(2):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(0 if np.array_equal(compiled.run(a), expected) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal(compiled.run(a), expected)
"""


@pytest.mark.skipif(bool(find("onednn").available()), reason="no oneDNN")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_has_a_team_of_its_own() -> None:
    env = {**os.environ, "OMP_NUM_THREADS": "2", "TVM_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
