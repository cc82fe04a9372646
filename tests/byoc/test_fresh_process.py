"""Libraries with regions of backends load where there is TVM's runtime and nothing of opinfo."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tvm import relax

from opinfo.byoc.compile import compile_module

from ..layout import nets
from ..layout.nets import const
from ..run import run

NETS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "blas": (nets.attention, (2, 5, 8)),
    "onnxruntime": (nets.residual, (1, 3, 8, 8)),
}

LOADED = """
import sys, numpy as np, tvm
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
foreign = ("opinfo", "onnx", "scipy")
assert not any(m.startswith(foreign) for m in sys.modules)
"""


def _halved(emit: Any, rng: Any, x: Any) -> Any:
    """A convolution in float16."""
    x, w = (emit(relax.op.astype(v, "float16")) for v in (x, const(rng, 4, 3, 3, 3)))
    return emit(relax.op.astype(emit(relax.op.nn.conv2d(x, w)), "float32"))


def test_a_fresh_process_runs_them_or_says_what_is_missing(tmp_path: Path) -> None:
    expected = {}
    for name, (build, shape) in NETS.items():
        mod = nets.net(build, shape, legal=False)
        found = compile_module(mod, [name])
        assert {t.backend for t in found.dispatched.taken} == {name}
        found.export(tmp_path / f"{name}.so")
        x = np.random.default_rng(0).standard_normal(shape).astype("float32")
        np.save(tmp_path / f"{name}.x.npy", x)
        expected[name] = run(mod, [x])[0]
    mod = nets.net(_halved, (1, 3, 8, 8), legal=False)
    compile_module(mod, ["example_npu"]).export(tmp_path / "npu.so")
    words = [sys.executable, "-c", LOADED, "npu", *NETS]
    told = subprocess.run(words, check=True, capture_output=True, text=True, cwd=tmp_path)
    for name, values in expected.items():
        found = np.load(tmp_path / f"{name}.y.npy")
        np.testing.assert_allclose(found, values, rtol=1e-4, atol=1e-5)
    assert "this process has no function example_npu.load" in told.stdout + told.stderr
