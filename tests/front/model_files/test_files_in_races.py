"""The file that a module was loaded from, as one more build of a race."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import tvm
from onnx import TensorProto, helper
from tvm import relax

import opinfo
from opinfo.byoc import DispatchPlan, PlanRefused, replay
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.compile import SharedWork
from opinfo.front import compiling, fastest, race
from opinfo.front.file_builds import FileBuilds
from opinfo.frontend.source_file import SourceFile, StaticFile, source_of
from opinfo.jit.arguments.signature import Signature
from opinfo.verify.trial_runs import TrialRun

from .model_file_cases import WEIGHTS, X, Y, an_input, expected, loaded, product, saved

FRESH = """
import sys
sys.modules["torch"] = None  # TVM would import it
import numpy as np, tvm
main = tvm.relax.VirtualMachine(tvm.runtime.load_module(sys.argv[1]), tvm.cpu())["main"]
np.save(sys.argv[2], main(tvm.runtime.tensor(np.load(sys.argv[3]))).numpy())
"""
pytestmark = pytest.mark.skipif(bool(find("onnxruntime").available()), reason="no ONNX Runtime")


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[FileBuilds | None]:
    """The files that races get; there are no builds."""
    files: list[FileBuilds | None] = []
    monkeypatch.setattr(compiling, "raced", lambda *args: files.append(args[5]))
    return files


def test_a_transformed_module_does_not_get_the_file(
    path: Path, given: list[FileBuilds | None]
) -> None:
    mod = loaded(path)
    opinfo.compile(mod)
    opinfo.compile(relax.transform.LegalizeOps()(mod))
    opinfo.compile(opinfo.load(path), shapes={"n": 4})
    first, none, bound = given
    assert first is not None and none is None and bound is not None
    assert [list(p.shape or ()) for p in bound.signatures["main"].params] == [[4, 8]]


@pytest.mark.parametrize(
    ("outputs", "kept"),
    [
        ({"mixed": 1, "alone": 1, "file": 1}, "file"),
        ({"mixed": 1, "alone": 1, "file": 2}, "mixed"),
        ({"mixed": 1, "alone": 2, "file": 2}, "file"),
        ({"mixed": 1, "alone": 2, "file": 3}, "mixed"),
        ({"mixed": 1, "file": 2, "other file": 2}, "mixed"),
        ({"mixed": None, "alone": 1, "file": 2}, "alone"),
        ({"mixed": None, "file": 2, "other file": 2}, "mixed"),
    ],
)
def test_a_file_needs_a_build_of_the_module_that_has_its_outputs(
    outputs: dict[str, int | None], kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = {"mixed": 3.0, "alone": 2.99, "file": 1.0, "other file": 2.0}
    runs = {name: TrialRun((), ()) if value is None else
            TrialRun((times[name],), (np.full((2,), value, "float32"),))
            for name, value in outputs.items()}  # fmt: skip
    monkeypatch.setattr(fastest, "run_builds", lambda *_: runs)
    monkeypatch.setattr(fastest, "tolerance_of", lambda _: 1e-3)
    monkeypatch.setattr(fastest, "_different", dict)
    builds = {name: _Stub() for name in outputs}
    files = [name for name in outputs if "file" in name]
    monkeypatch.setattr(fastest, "replace", lambda _, kept: kept)
    monkeypatch.setattr(fastest, "warn", lambda _: None)
    text = str(fastest.fastest(builds, None, files=files))  # type: ignore[arg-type]
    assert text.startswith(f"kept the choice {kept}:")
    ran = "all builds fail" not in text
    assert ("file, whose outputs differ" in text) == (ran and kept != "file")


class _Stub:
    signatures: ClassVar = {"main": Signature("main", ())}
    dispatched = None


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """ONNX Runtime is the only rival, and its build of the file has the least time."""

    def times(runs: Any, name: str) -> float:
        if name not in runs or not runs[name].times:
            return inf
        return 1.0 if "file" in name else 2.0

    monkeypatch.setattr(compiling, "rivals", lambda *_: ["onnxruntime"])
    monkeypatch.setattr(fastest, "least", times)
    monkeypatch.setattr(race, "least", times)
    yield


@pytest.mark.usefixtures("runtime")
def test_the_library_of_a_file_needs_neither_the_file_nor_opinfo(tmp_path: Path) -> None:
    path = saved(tmp_path, product(), external=True)
    mod = loaded(path)
    compiled = opinfo.compile(mod)
    assert "kept the choice of onnxruntime with the model's file: " in compiled.report()
    assert "offloaded 2 of 2 ops, 100.0% of FLOPs, onnxruntime 2, tvm 0" in compiled.report()
    assert compiled.dispatched is not None and not compiled.dispatched.module.attrs
    _replayed(compiled.dispatched.plan, mod, tmp_path)
    path.unlink()
    (tmp_path / "w.bin").unlink()
    compiled.export(tmp_path / "model.so")
    np.save(tmp_path / "x.npy", an_input())
    files = [str(tmp_path / name) for name in ("model.so", "y.npy", "x.npy")]
    subprocess.run([sys.executable, "-c", FRESH, *files], check=True,
                   env={**os.environ, "OMP_NUM_THREADS": "2"})  # fmt: skip
    np.testing.assert_allclose(np.load(files[1]), expected(an_input()), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(compiled.run(an_input()), np.load(files[1]), rtol=1e-6)


def _replayed(plan: DispatchPlan, mod: Any, folder: Path) -> None:
    """A plan repeats the choice on the module that was loaded, and on no other one."""
    plan.save(folder / "plan.json")
    again = DispatchPlan.load(folder / "plan.json")
    assert again == plan and plan.file
    built = opinfo.compile(mod, plan=again)
    np.testing.assert_allclose(built.run(an_input()), expected(an_input()), rtol=1e-5, atol=1e-5)
    changed = relax.transform.LegalizeOps()(mod)
    with pytest.raises(PlanRefused, match="not what was loaded"):
        opinfo.compile(changed, plan=again)
    with pytest.raises(PlanRefused, match="only opinfo"):
        replay(changed, again)
    with pytest.raises(PlanRefused, match="of another file"):
        opinfo.compile(mod, plan=DispatchPlan(plan.module, plan.backends, plan.regions, "optimal",
                                              file="0"))  # fmt: skip


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("fault", ["wrong", "unreadable", "other type"])
def test_a_file_that_a_runtime_runs_otherwise_or_not_is_not_kept(
    fault: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runtime gets twice the weights, no ONNX file, or one whose calls fail."""
    model = product(2 * WEIGHTS)
    del model.graph.input[1]
    if fault == "other type":
        model.graph.node[1].CopyFrom(helper.make_node("Cast", ["a"], [Y], to=TensorProto.INT64))
        model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    content = b"no file" if fault == "unreadable" else model.SerializeToString()
    static = StaticFile(np.frombuffer(content, "uint8"), (X,), (Y,))
    monkeypatch.setattr(SourceFile, "static", lambda *_: static)
    compiled = opinfo.compile(loaded(path))
    assert compiled.dispatched is not None and not compiled.dispatched.plan.file
    reason = {"wrong": "ms of onnxruntime with the model's file, whose outputs differ",
              "unreadable": "without the model's file in onnxruntime: RuntimeError",
              "other type": "without the model's file in onnxruntime: its first call fails",
              }[fault]  # fmt: skip
    assert reason in compiled.report()
    np.testing.assert_allclose(compiled.run(an_input()), expected(an_input()), rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(bool(find("openvino").available()), reason="no OpenVINO")
def test_openvino_reads_a_file_with_several_opsets(path: Path) -> None:
    """It takes a file for ONNX only if its first three fields differ."""
    mod, target = loaded(path), tvm.target.Target("llvm")
    source = source_of(mod)
    assert source is not None
    files = FileBuilds(source, mod, target, {"main": Signature.of(mod["main"])}, None,
                       SharedWork(mod))  # fmt: skip
    built = files.build("openvino", runs_elsewhere=False)
    np.testing.assert_allclose(built.run(an_input()), expected(an_input()), rtol=1e-5, atol=1e-5)
