"""What a kernel depends on is in its key, and nothing else; a real kernel through a store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm

from opinfo.jit import kernel_key
from opinfo.jit.kernel import loaded
from opinfo.jit.kernel_key import fingerprint, key
from opinfo.jit.store import KernelStore

from .kernels import product

TARGET = tvm.target.Target("llvm")


def base() -> str:
    return key(product(), {"n": 5}, TARGET, "tiled")


def test_a_function_is_the_same_whatever_it_is_called() -> None:
    assert base() == key(product(name="other"), {"n": 5}, TARGET, "tiled")
    assert base() == key(fingerprint(product()), {"n": 5}, TARGET, "tiled")


def test_everything_that_a_kernel_depends_on_changes_it() -> None:
    func, wide = product(), tvm.target.Target({"kind": "llvm", "mcpu": "znver3"})
    others = [
        key(product(m=48), {"n": 5}, TARGET, "tiled"),
        key(product(5), {"n": 5}, TARGET, "tiled"),
        key(func.with_attr("tirx.noalias", False), {"n": 5}, TARGET, "tiled"),
        key(func, {"n": 6}, TARGET, "tiled"),
        key(func, {"m": 5}, TARGET, "tiled"),
        key(func, {"n": 5, "m": 1}, TARGET, "tiled"),
        key(func, {"n": 5}, wide, "tiled"),
        key(func, {"n": 5}, TARGET, "packed"),
    ]
    assert len({base(), *others}) == 1 + len(others)


@pytest.mark.parametrize("part", ["cpu", "sources", "version"])
def test_so_do_the_machine_and_what_makes_kernels(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = base()
    monkeypatch.setattr(kernel_key, part, lambda *_: "another")
    kernel_key.toolchain.cache_clear()
    try:
        assert base() != before
    finally:
        kernel_key.toolchain.cache_clear()


def test_features_of_the_cpu_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[str] = set()
    for flags in ("sse avx", "sse avx avx512f"):
        (tmp_path / "cpuinfo").write_text(
            f"processor : 0\nflags : {flags}\ncpu MHz : {len(seen)}\n"
        )
        monkeypatch.setattr(kernel_key, "CPUINFO", tmp_path / "cpuinfo")
        seen.add(kernel_key.cpu.__wrapped__())
    (tmp_path / "cpuinfo").write_text("processor : 1\nflags : sse avx\ncpu MHz : 9\n")
    seen.add(kernel_key.cpu.__wrapped__())
    assert len(seen) == 2


SERVE = """
import json, sys
import numpy as np, tvm
from opinfo.jit.kernel import loaded
from opinfo.jit.kernel_key import key
from opinfo.jit.store import KernelStore
from tests.jit.kernels import product
store = KernelStore(sys.argv[1])
found = key(product(name="b"), {"n": 5}, tvm.target.Target("llvm"), "as it is")
x, w = (np.arange(s[0] * s[1], dtype="float32").reshape(s) % 7 - 3 for s in ((5, 64), (64, 32)))
out = tvm.runtime.tensor(np.zeros((5, 32), "float32"))
loaded(store.get(found))(tvm.runtime.tensor(x), tvm.runtime.tensor(w), out)
print(json.dumps([found, float(abs(out.numpy() - np.maximum(x @ w, 0)).max())]))
"""


def test_another_process_has_the_same_key_and_runs_the_kernel(tmp_path: Path) -> None:
    func, values = product(), {"n": 5}
    built = tmp_path / "built.so"
    tvm.tirx.build(product(5), target=TARGET).export_library(str(built))
    store = KernelStore(tmp_path / "kernels")
    mine = key(func, values, TARGET, "as it is")
    assert store.put(mine, built) is not None
    built.unlink()
    path = os.pathsep.join(filter(None, [*sys.path, str(Path(__file__).parents[2])]))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "7"}
    told = subprocess.run([sys.executable, "-c", SERVE, str(store.folder)], env=environment,
                          capture_output=True, text=True)  # fmt: skip
    assert told.returncode == 0, told.stderr
    theirs, apart = json.loads(told.stdout)
    assert theirs == mine and apart == 0
    x = tvm.runtime.tensor(np.ones((5, 64), "float32"))
    w = tvm.runtime.tensor(np.ones((64, 32), "float32"))
    out = tvm.runtime.tensor(np.zeros((5, 32), "float32"))
    found = store.get(mine)
    assert found is not None
    loaded(found)(x, w, out)
    assert (out.numpy() == 64).all()
