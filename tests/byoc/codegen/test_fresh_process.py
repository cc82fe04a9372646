"""Libraries with regions of backends load where there is TVM's runtime and nothing of opinfo."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relax

from opinfo.byoc.compile import compile_module

from ...common.run import run
from ...layout import nets
from ...layout.nets import const

NETS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "blas": (nets.attention, (2, 5, 8)),
    "onnxruntime": (nets.residual, (1, 3, 8, 8)),
    "openvino": (nets.residual, (1, 3, 8, 8)),
}

LOADED = """
import sys
sys.modules["torch"] = None  # TVM would import it
import numpy as np, tvm
from tvm import relax

def load(name):
    return relax.VirtualMachine(tvm.runtime.load_module(f"{name}.so"), tvm.cpu())

for name in sys.argv[2:]:
    x = tvm.runtime.tensor(np.load(f"{name}.x.npy"))
    np.save(f"{name}.y.npy", load(name)["main"](x).numpy())
try:
    load(sys.argv[1])
except Exception as e:
    print(e)
foreign = ("opinfo", "onnx", "openvino", "scipy")
assert not any(m.startswith(foreign) for m in sys.modules)
"""

#: Calls from four threads at once, then from a fork of this process. The runtimes join threads of
#: their own when a process exits, which a fork does not have: it ends at once, as others do.
SHARED = """
import os, signal, sys
sys.modules["torch"] = None  # TVM would import it
import numpy as np, tvm
from concurrent.futures import ThreadPoolExecutor
from tvm import relax

name = sys.argv[1]
library = tvm.runtime.load_module(f"{name}.so")
x = np.load(f"{name}.x.npy")

def call(seed):
    machine = relax.VirtualMachine(library, tvm.cpu())
    y = x * np.float32(seed)
    return [machine["main"](tvm.runtime.tensor(y)).numpy() for _ in range(5)]

expected = [call(seed)[0] for seed in range(4)]

def wrong(seed):
    return sum(not np.allclose(y, expected[seed], rtol=1e-5, atol=1e-6) for y in call(seed))

with ThreadPoolExecutor(4) as pool:
    assert sum(pool.map(wrong, range(4))) == 0
child = os.fork()
signal.alarm(60)
if child == 0:
    os._exit(sum(map(wrong, range(4))))
assert os.waitpid(child, 0)[1] == 0
"""


def _halved(emit: Any, rng: Any, x: Any) -> Any:
    """A convolution in float16."""
    x, w = (emit(relax.op.astype(v, "float16")) for v in (x, const(rng, 4, 3, 3, 3)))
    return emit(relax.op.astype(emit(relax.op.nn.conv2d(x, w)), "float32"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Libraries, their inputs, and what they should compute."""
    path = tmp_path_factory.mktemp("libraries")
    for name, (build, shape) in NETS.items():
        mod = nets.net(build, shape, legal=False)
        found = compile_module(mod, [name])
        assert {t.backend for t in found.dispatched.taken} == {name}
        found.export(path / f"{name}.so")
        x = np.random.default_rng(0).standard_normal(shape).astype("float32")
        np.save(path / f"{name}.x.npy", x)
        np.save(path / f"{name}.expected.npy", run(mod, [x])[0])
    return path


def test_a_fresh_process_runs_them_or_says_what_is_missing(folder: Path) -> None:
    mod = nets.net(_halved, (1, 3, 8, 8), legal=False)
    compile_module(mod, ["example_npu"]).export(folder / "npu.so")
    words = [sys.executable, "-c", LOADED, "npu", *NETS]
    process = subprocess.run(words, check=True, capture_output=True, text=True, cwd=folder)
    for name in NETS:
        found, expected = (np.load(folder / f"{name}.{k}.npy") for k in ("y", "expected"))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert "this process has no function example_npu.load" in process.stdout + process.stderr


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
def test_threads_and_a_fork_call_what_a_process_opened(
    folder: Path, name: str, threads: str
) -> None:
    words = [sys.executable, "-c", SHARED, name]
    variables = {**os.environ, "OMP_NUM_THREADS": threads}
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder, env=variables)
    assert done.returncode == 0, done.stderr
