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
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

import opinfo
from opinfo.byoc import DispatchPlan, PlanRefused, replay
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.compile import SharedWork
from opinfo.front import compiling, fastest, race
from opinfo.front.file_builds import FileBuilds
from opinfo.frontend.formats.onnx_proto import read_proto
from opinfo.frontend.formats.static_onnx import static_file
from opinfo.frontend.source_file import SourceFile, StaticFile, source_of
from opinfo.jit.arguments.signature import Signature
from opinfo.verify.trial_runs import TrialRun

#: Names that C++ would misread, were they not escaped.
X, W, Y = 'an "input"', "w\\", "out??/é"
WEIGHTS = np.random.default_rng(0).standard_normal((8, 16)).astype("float32")
FRESH = """
import sys
sys.modules["torch"] = None  # TVM would import it
import numpy as np, tvm
main = tvm.relax.VirtualMachine(tvm.runtime.load_module(sys.argv[1]), tvm.cpu())["main"]
np.save(sys.argv[2], main(tvm.runtime.tensor(np.load(sys.argv[3]))).numpy())
"""
pytestmark = pytest.mark.skipif(bool(find("onnxruntime").available()), reason="no ONNX Runtime")


def declared(name: str, shape: Any, dtype: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def product(weights: Any = WEIGHTS, nodes: Any = (), functions: Any = (), sparse: Any = ()) -> Any:
    """relu(x @ w) over a batch, with w as an input too."""
    own = [helper.make_node("MatMul", [X, W], ["a"]), helper.make_node("Relu", ["a"], [Y])]
    inputs, outputs = [declared(X, ["n", 8]), declared(W, [8, 16])], [declared(Y, ["n", 16])]
    initial = [numpy_helper.from_array(weights, W)]
    graph = helper.make_graph([*own, *nodes], "g", inputs, outputs, initial)
    graph.sparse_initializer.extend(sparse)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=functions,
                             producer_name="xORTM")  # fmt: skip


def saved(folder: Path, model: Any, external: bool = False) -> Path:
    path = folder / "model.onnx"
    onnx.save(model, path, save_as_external_data=external, size_threshold=0, location="w.bin")
    return path


def loaded(path: Path) -> Any:
    return opinfo.load(path, {X: (4, 8)})


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("model"), product(), external=True)


def expected(x: Any) -> Any:
    return np.maximum(x @ WEIGHTS, 0)


def an_input() -> Any:
    return np.random.default_rng(1).standard_normal((4, 8)).astype("float32")


def test_only_the_module_that_was_loaded_has_a_file(path: Path) -> None:
    mod = loaded(path)
    source = source_of(mod)
    assert source is not None and source.path == path and not mod.attrs
    assert source_of(loaded(path)) == source
    changed = relax.transform.LegalizeOps()(mod)
    assert source_of(changed) is None and source_of(mod) == source
    mod["main"] = changed["main"].with_attr("num_input", 1)
    assert source_of(mod) is None


def test_other_weights_are_another_module(path: Path) -> None:
    mod = loaded(path)
    weights = WEIGHTS.copy()
    weights[-1, -1] += 1
    other = relax.Var("x", relax.TensorType((4, 8), "float32"))
    builder = relax.BlockBuilder()
    assert source_of(_written(builder, other, WEIGHTS)) == source_of(mod)
    builder, other = relax.BlockBuilder(), relax.Var("x", relax.TensorType((4, 8), "float32"))
    assert source_of(_written(builder, other, weights)) is None


def _written(builder: Any, x: Any, weights: Any) -> Any:
    """The module as the importer writes it."""
    with builder.function("main", [x], attrs={"num_input": 1}):
        with builder.dataflow():
            a = builder.emit(relax.op.matmul(x, relax.const(weights)))
            out = builder.emit_output(builder.emit(relax.op.nn.relu(a)))
        builder.emit_func_output(out)
    return builder.get()


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


def test_a_runtime_gets_the_file_with_static_shapes_and_nothing_else(path: Path) -> None:
    _, digest = read_proto(path)
    line, _, content = b"".join(static_file(path, digest, [[4, 8]])).partition(b"\n")
    assert line == b'[["an \\"input\\""], ["out??/\\u00e9"]]'
    model = onnx.load_model_from_string(content)
    assert model.graph.input == [declared(X, [4, 8])]
    assert list(model.graph.node) == list(product().graph.node)
    (weight,) = model.graph.initializer
    np.testing.assert_array_equal(numpy_helper.to_array(weight), WEIGHTS)
    assert not model.producer_name and not model.metadata_props


def _elsewhere() -> Any:
    tensor = TensorProto(name="t", data_type=TensorProto.FLOAT, dims=[2],
                         data_location=TensorProto.EXTERNAL)  # fmt: skip
    tensor.external_data.add(key="location", value="w.bin")
    return tensor


def _function(*nodes: Any) -> Any:
    return helper.make_function("own", "F", ["x"], ["y"], nodes, [helper.make_opsetid("", 18)])


@pytest.mark.parametrize(
    ("model", "extents", "message"),
    [
        (product(), [[4, 8], [8, 16]], "it has 1 inputs, the module 2"),
        (product(), [[4, 9]], "has other static sizes in the file"),
        (product(), [[4, 8, 1]], "has 2 dimensions in the file"),
        (product(nodes=[helper.make_node("Do", ["a"], ["b"], domain="custom")]), [[4, 8]],
         "does not convert the operator custom.Do"),
        (product(nodes=[helper.make_node("EPContext", ["a"], ["b"], domain="com.microsoft")]),
         [[4, 8]], "does not convert the operator com.microsoft.EPContext"),
        (product(functions=[_function(helper.make_node("Do", ["x"], ["y"], domain="custom"))]),
         [[4, 8]], "does not convert the operator custom.Do"),
        (product(sparse=[onnx.SparseTensorProto(values=_elsewhere())]), [[4, 8]],
         "is in another file"),
    ],
)  # fmt: skip
def test_what_runtimes_do_not_get(model: Any, extents: Any, message: str, tmp_path: Path) -> None:
    path = saved(tmp_path, model)
    _, digest = read_proto(path)
    with pytest.raises(opinfo.FrontendError, match=message):
        static_file(path, digest, extents)


def test_runtimes_get_operators_that_are_read_as_functions(tmp_path: Path) -> None:
    """`Trilu` of ONNX Runtime has no converter, but a body of ONNX's nodes."""
    trilu = helper.make_node("Trilu", ["a"], ["b"], domain="com.microsoft")
    path = saved(tmp_path, product(nodes=[trilu]))
    _, digest = read_proto(path)
    assert b"Trilu" in b"".join(static_file(path, digest, [[4, 8]]))


def test_a_file_that_has_changed_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, product(), external=True)
    source = source_of(loaded(path))
    assert source is not None and source.static([[4, 8]]).inputs == (X,)
    (tmp_path / "w.bin").write_bytes((2 * WEIGHTS).tobytes())
    with pytest.raises(opinfo.FrontendError, match="has changed since it was loaded"):
        source.static([[4, 8]])
    path.unlink()
    with pytest.raises(opinfo.FrontendError, match="No such file"):
        source.static([[4, 8]])


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
