"""What a kernel depends on is in its key, and nothing else; a real kernel through a store."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm

import opinfo
from opinfo.jit.kernels.build_kernel import loaded
from opinfo.jit.store import kernel_key
from opinfo.jit.store.kernel_key import fingerprint, key
from opinfo.jit.store.store import KernelStore

from ..kernels import product

TARGET = tvm.target.Target("llvm")


def environment() -> dict[str, str]:
    """Of a process that imports what this one does."""
    path = os.pathsep.join(filter(None, [*sys.path, str(Path(__file__).parents[3])]))
    return {**os.environ, "PYTHONPATH": path}


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


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package whose sources are hashed."""
    there = Path(opinfo.__file__).parent
    shutil.copytree(there, tmp_path / "opinfo", ignore=shutil.ignore_patterns("__pycache__"))
    shift = kernel_key.PACKAGE.relative_to(there)
    monkeypatch.setattr(kernel_key, "PACKAGE", tmp_path / "opinfo" / shift)
    return tmp_path / "opinfo"


@pytest.mark.parametrize(
    "file",
    [
        "analysis/results/op_info.py",
        "analysis/blocks/blocks.py",
        "analysis/blocks/definitions.py",
        "layout/access/copies.py",
        "byoc/codegen/executable.py",
        "byoc/codegen/abi.hpp",
        "byoc/schedule/rules/contraction.py",
        "jit/compile/site.hpp",
        "__init__.py",
    ],
)
def test_a_source_of_each_layer_counts(file: str, copied: Path) -> None:
    before = kernel_key.sources.__wrapped__()
    assert kernel_key.sources.__wrapped__() == before
    with (copied / file).open("a") as source:
        source.write("\n")
    assert kernel_key.sources.__wrapped__() != before


def test_which_file_holds_what_counts_and_bytecode_does_not(copied: Path) -> None:
    before = kernel_key.sources.__wrapped__()
    (copied / "jit" / "__pycache__").mkdir()
    (copied / "jit" / "__pycache__" / "kernel.cpython-311.pyc").write_bytes(b"code")
    assert kernel_key.sources.__wrapped__() == before
    (copied / "layout" / "dims.py").write_bytes(
        (copied / "byoc/dims/symbolic_dims.py").read_bytes()
    )
    added = kernel_key.sources.__wrapped__()
    (copied / "layout" / "dims.py").rename(copied / "analysis" / "dims.py")
    assert len({before, added, kernel_key.sources.__wrapped__()}) == 3


def test_a_link_that_an_editor_keeps_is_no_error(copied: Path) -> None:
    (copied / "jit" / ".#kernel.py").symlink_to("me@host.1:2")
    assert kernel_key.sources.__wrapped__() == kernel_key.sources.__wrapped__()


LOADED = """
import json, sys
sys.modules["torch"] = None  # TVM would import it
import tvm
from opinfo.jit.kernels.worker import _answer
from tests.jit.kernels import product
job = {"function": "f", "text": tvm.ir.save_json(product()), "values": {"n": 5}, "target": "llvm",
       "library": sys.argv[1], "check": True, "winograd": True, "tuned": None, "generic": None}
_answer(job, {})
told = [getattr(m, "__file__", None) or "" for n, m in sys.modules.items()
        if n.partition(".")[0] == "opinfo"]
print(json.dumps(told))
"""


def test_every_module_that_compiles_a_kernel_is_among_the_sources(tmp_path: Path) -> None:
    process = subprocess.run([sys.executable, "-c", LOADED, str(tmp_path / "k.so")],
                          env=environment(), capture_output=True, text=True)  # fmt: skip
    assert process.returncode == 0, process.stderr
    loaded = {os.path.realpath(f) for f in json.loads(process.stdout)}
    hashed = {os.path.realpath(f) for f in kernel_key.source_files()}
    assert loaded <= hashed, loaded - hashed
    assert any("/layout/" in f for f in loaded)  # the layers below decide on code too


def test_another_build_of_a_version_is_another_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    class Built:
        def __init__(self, digest: str) -> None:
            self.digest = digest

        def read_text(self, name: str) -> str:
            return f"tvm/lib/libtvm.so,sha256={self.digest},9\ntvm/__init__.py,sha256=x,9\n"

    found = set()
    for digest in ("a", "b", "a"):
        built = Built(digest)
        monkeypatch.setattr(kernel_key, "distribution", lambda _, built=built: built)
        found.add(kernel_key.toolchain.__wrapped__())
    assert len(found) == 2


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
sys.modules["torch"] = None  # TVM would import it
import numpy as np, tvm
from opinfo.jit.kernels.build_kernel import loaded
from opinfo.jit.store.kernel_key import key
from opinfo.jit.store.store import KernelStore
from tests.jit.kernels import product
store = KernelStore(sys.argv[1])
found = key(product(name="b"), {"n": 5}, tvm.target.Target("llvm"), "unchanged")
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
    mine = key(func, values, TARGET, "unchanged")
    assert store.put(mine, built) is not None
    built.unlink()
    process = subprocess.run([sys.executable, "-c", SERVE, str(store.folder)],
                          env={**environment(), "PYTHONHASHSEED": "7"},
                          capture_output=True, text=True)  # fmt: skip
    assert process.returncode == 0, process.stderr
    theirs, apart = json.loads(process.stdout)
    assert theirs == mine and apart == 0
    x = tvm.runtime.tensor(np.ones((5, 64), "float32"))
    w = tvm.runtime.tensor(np.ones((64, 32), "float32"))
    out = tvm.runtime.tensor(np.zeros((5, 32), "float32"))
    found = store.get(mine)
    assert found is not None
    loaded(found)(x, w, out)
    assert (out.numpy() == 64).all()
