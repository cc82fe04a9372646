"""The front door: one call from a model to what runs, static and symbolic alike."""

from __future__ import annotations

import warnings
import weakref
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

import opinfo
from opinfo.byoc import CalibratedMachine, Calibration, Sample, Workload
from opinfo.byoc.calibration import calibrations
from opinfo.byoc.calibration.calibrations import CALIBRATED, in_force, store, this_machine
from opinfo.byoc.codegen.host import cpu
from opinfo.byoc.process.spawn import spawn
from opinfo.front import compiled_model
from opinfo.front.backend_choice import choose_backends
from opinfo.front.compiled_model import describe
from opinfo.jit import Config, Dim, Recording
from opinfo.verify import trial_runs
from opinfo.verify.trial_values import TrialCall
from opinfo.verify.verification import Verified

PARTS = ("analysis", "byoc", "jit", "layout")


def model(batch: int | tvm.tirx.Var) -> Any:
    """relu(x @ w) over a batch."""
    rng = np.random.default_rng(0)
    return net(batch, rng.standard_normal((8, 16)).astype("float32"))


def net(batch: int | tvm.tirx.Var, weights: Any) -> Any:
    """relu(x @ weights)."""
    w = relax.const(weights)
    x = relax.Var("x", relax.TensorType((batch, 8), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.nn.relu(builder.emit(relax.op.matmul(x, w))))
            out = builder.emit_output(y)
        builder.emit_func_output(out)
    return builder.get()


def expected(x: Any) -> Any:
    w = np.random.default_rng(0).standard_normal((8, 16)).astype("float32")
    return np.maximum(x @ w, 0)


@pytest.mark.parametrize("backends", [[], ["onednn"], ["blas", "tvm"]])
def test_a_static_model_runs_on_any_backends(backends: Any) -> None:
    mod = model(4)
    assert tvm_ffi.structural_equal(mod, model(4))
    compiled = opinfo.compile(mod, backends)
    x = np.random.default_rng(1).standard_normal((4, 8)).astype("float32")
    np.testing.assert_allclose(compiled.run(x), expected(x), rtol=1e-5, atol=1e-5)
    assert tvm_ffi.structural_equal(mod, model(4))
    taken = {t.backend for t in compiled.dispatched.taken}  # type: ignore[union-attr]
    assert taken == set(backends[:1])


@pytest.mark.parametrize("fastest", ["onednn", "blas", "tvm"])
def test_by_default_the_least_expected_cost_decides(fastest: str, tmp_path: Path) -> None:
    machine = CalibratedMachine("a CPU", "avx2", 1, {})
    product, other = Workload("matmul weights", (1, 4, 16, 8), 512, 896), (64, 1024, 1 << 20)
    samples = [Sample(n, product, 5.0 if n == fastest else 500.0) for n in (*CALIBRATED, "tvm")]
    samples += [Sample(s.backend, Workload("elementwise", (n,), n, 8 * n), 1 + n / 1e3)
                for s in tuple(samples) for n in other]  # fmt: skip
    calibration = Calibration(machine, tuple(samples))
    compiled = opinfo.compile(model(4), calibration=calibration, race=False)
    x = np.random.default_rng(1).standard_normal((4, 8)).astype("float32")
    np.testing.assert_allclose(compiled.run(x), expected(x), rtol=1e-5, atol=1e-5)
    assert {t.backend for t in compiled.dispatched.taken} == {fastest} - {"tvm"}  # type: ignore[union-attr]
    assert "costs as calibrated on another machine, a CPU (avx2)" in compiled.report()
    done = opinfo.dispatch(model(4), calibration=calibration)
    assert {t.backend for t in done.taken} == {fastest} - {"tvm"}


def test_a_backend_without_samples_is_not_chosen_by_default() -> None:
    product, stream = Workload("matmul weights", (1, 4, 16, 8), 512, 896), (64, 1 << 20)
    samples = [Sample("onednn", product, 5.0), Sample("tvm", product, 500.0)]
    samples += [Sample(name, Workload("elementwise", (n,), n, 8 * n), 1 + n / 1e3)
                for name in ("onednn", "tvm") for n in stream]  # fmt: skip
    calibration = Calibration(CalibratedMachine("a CPU", "avx2", 1, {}), tuple(samples))
    choice = choose_backends(None, None, calibration)
    assert list(choice.backends) == ["onednn", "weight_only", "experts"]  # these come first
    assert choice.priority == {"tvm": 3, "weight_only": 4, "experts": 4}
    assert "without blas, onnxruntime" in str(choice.costs)
    named = choose_backends(["blas"], None, calibration)
    assert (list(named.backends), named.priority) == (["blas"], None)


def test_on_a_gpu_its_libraries_are_the_default() -> None:
    """A model takes several times as long without them, so dispatch says why one is missing."""
    target = {"kind": "cuda", "arch": "sm_90"}
    choice = choose_backends(None, None, None, target)
    assert list(choice.backends) == ["cudnn", "cublaslt"]
    assert (choice.priority, choice.costs) == (None, None)
    assert list(choose_backends([], None, None, target).backends) == []


def test_a_machine_without_a_calibration_is_told_whose_costs_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The cache of calibrations only: objects of g++, which take it ten seconds, are in the other.
    monkeypatch.setattr(calibrations, "user_cache", lambda name: tmp_path / name)
    report = opinfo.compile(model(4)).report()
    assert "costs as calibrated on another machine, " in report and "opinfo calibrate" in report
    shipped = in_force().calibration
    path = store(replace(shipped, machine=this_machine()))
    assert path.parent == tmp_path / "calibration"
    assert "costs as calibrated on this machine, " in opinfo.compile(model(4)).report()
    path.write_text("{}")
    with pytest.warns(UserWarning, match="the stored calibration is ignored: .*format 1"):
        assert not in_force().own


@pytest.mark.parametrize("backends", [None, ["onednn"]])
@pytest.mark.parametrize("shapes", [None, "jit", {"n": (1, 64)}])
def test_a_symbolic_model_runs_at_any_size(shapes: Any, backends: Any) -> None:
    compiled = opinfo.compile(model(tvm.tirx.Var("n", "int64")), backends, shapes=shapes)
    for n in (1, 5):
        x = np.random.default_rng(n).standard_normal((n, 8)).astype("float32")
        np.testing.assert_allclose(compiled.run(x), expected(x), rtol=1e-5, atol=1e-5)
    report = compiled.report()
    assert report.splitlines()[0] == f"compiled for llvm, {cpu()}, 1 core"
    assert (": jit, rule contraction" in report) == (shapes is not None and backends is None)
    assert "onednn 2" in report or backends is None


def test_what_backends_leave_is_compiled_for_shapes_and_served() -> None:
    """An operator with a strategy of its own is not for backends."""
    dims = {"n": Dim(1, 64, likely=(4,))}
    config = Config("generic", by_op={"relax.matmul": "aot"}, dims=dims)
    compiled = opinfo.compile(model(tvm.tirx.Var("n", "int64")), ["onednn"], shapes=config)
    assert [type(f.strategy).__name__ for f in compiled.functions] == ["Aot"]
    assert compiled.dispatched is not None
    assert [t.ops for t in compiled.dispatched.taken] == [("relax.nn.relu",)]
    with opinfo.Session(compiled) as session:
        for n in (4, 7):
            x = np.random.default_rng(n).standard_normal((n, 8)).astype("float32")
            np.testing.assert_allclose(session(x).numpy(), expected(x), rtol=1e-5, atol=1e-5)


def test_sizes_that_will_come_are_called_before(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = opinfo.compile(model(tvm.tirx.Var("n", "int64")), [])
    called: list[Any] = []
    run = type(compiled).run

    def counted(self: Any, *inputs: Any, function: str = "main") -> Any:
        called.extend((x.shape, str(x.dtype), float(abs(x).max())) for x in inputs)
        return run(self, *inputs, function=function)

    monkeypatch.setattr(type(compiled), "run", counted)
    compiled.warm({"n": 3}, {"n": 5})
    assert called == [((n, 8), "float32", 0.0) for n in (3, 5)]
    with pytest.raises(ValueError, match=r"^warm: x: float32\[n, 8\]: expected .* from {}$"):
        compiled.warm({})
    with pytest.raises(ValueError, match=r"^run: unknown function other; the model has main$"):
        compiled.warm({"n": 3}, function="other")


def test_a_gpu_is_called_twice_with_sizes_that_will_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs and results of both calls live, so they are at different addresses; weights stay."""
    builder = relax.BlockBuilder()
    x, w = (relax.Var(name, relax.TensorType(shape, "float32"))
            for name, shape in (("x", (tvm.tirx.Var("n", "int64"), 8)), ("w", (8, 8))))  # fmt: skip
    with builder.function("main", [x, w]):
        builder.emit_func_output(builder.emit(relax.op.matmul(x, w)))
    compiled = opinfo.compile(builder.get(), [])
    monkeypatch.setattr(compiled_model, "on_gpu", lambda _: True)
    monkeypatch.setattr(compiled_model, "needed_gpu", lambda _: tvm.cpu())
    results: list[Any] = []
    alive: list[bool] = []
    called: list[tuple[Any, ...]] = []

    class Held:
        """A result."""

    def main(*values: Any) -> Any:
        called.append(values)
        result = Held()
        alive.append(results[-1]() is not None if results else False)
        results.append(weakref.ref(result))
        return result

    compiled.__dict__["_machine"] = {"main": main}
    compiled.warm({"n": 3}, {"n": 5})
    shapes = [[v.shape for v in values] for values in called]
    assert shapes == [[(n, 8), (8, 8)] for n in (3, 3, 5, 5)]
    for first, second in (called[:2], called[2:]):
        assert first[1] is second[1]
        assert first[0] is not second[0]
    assert alive == [False, True, False, True]


def test_a_dimension_with_one_extent_is_bound() -> None:
    symbolic = model(tvm.tirx.Var("n", "int64"))
    compiled = opinfo.compile(symbolic, [], shapes={"n": 4})
    x = np.ones((4, 8), "float32")
    np.testing.assert_allclose(compiled.run(x), expected(x), rtol=1e-5, atol=1e-5)
    assert compiled.functions == ()
    with pytest.raises(Exception, match=r"shape|4"):
        compiled.run(np.ones((5, 8), "float32"))
    assert [int(e) for e in symbolic["main"].params[0].ty.shape.values[1:]] == [8]
    for extents in ("4", (1, 2, 3, 4), 4.5, True):
        with pytest.raises(ValueError, match="shapes: n: expected an extent"):
            opinfo.compile(symbolic, shapes={"n": extents})  # type: ignore[dict-item]


def test_a_plan_of_backends_is_done_again_with_shapes() -> None:
    symbolic = model(tvm.tirx.Var("n", "int64"))
    first = opinfo.compile(symbolic, ["onednn"], shapes="generic", force={"relu": "tvm"})
    assert first.dispatched is not None
    again = opinfo.compile(symbolic, ["onednn"], shapes="generic", plan=first.dispatched.plan)
    assert again.dispatched is not None
    taken = [t.ops for t in again.dispatched.taken]
    assert taken == [t.ops for t in first.dispatched.taken] == [("relax.matmul",)]


def test_the_verbs_take_a_path_or_a_module(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text(tvm.ir.save_json(model(4)))
    lowered = relax.transform.LegalizeOps()(model(4))
    for subject in (path, str(path), model(4), lowered):
        names = [row.result.name for row in opinfo.inspect(subject).known]  # type: ignore[union-attr]
        assert names == ["relax.matmul", "relax.nn.relu"]
        planned = opinfo.plan(subject, {"matmul": "tvm-nhwc"})
        assert len(planned.report.values) == 3 and planned.summary().endswith("optimal")
        tvm.relax.analysis.well_formed(planned.module)
        done = opinfo.dispatch(subject, ["onednn"])
        assert done.summary().startswith("offloaded 2 of 2 ops")
    planned.html(tmp_path / "page.html", "a title")
    text = (tmp_path / "page.html").read_text()
    assert "a title" in text and text == planned.html(title="a title")
    (chain,) = opinfo.inspect(path, fused=True).rows
    assert [s.name for s in chain.result.steps] == ["relax.matmul", "relax.nn.relu"]  # type: ignore[union-attr]


def test_a_compiled_model_is_compared_with_the_unmodified_one() -> None:
    for subject, shapes in ((model(4), None), (model(tvm.tirx.Var("n", "int64")), "aot")):
        verified = opinfo.compile(subject, shapes=shapes).verify(subject)
        assert verified.same and verified.compiled > 0 and verified.unmodified > 0
        assert "ms of " in str(verified) and ", 1 thread" in str(verified)
    zeros = net(4, np.zeros((8, 16), "float32"))
    assert not opinfo.compile(model(4), []).verify(zeros).same


def test_both_builds_have_the_threads_of_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = opinfo.compile(model(4), [], target="llvm -num-cores=2")
    children = []
    spawned = spawn

    def watched(command: list[str], threads: int) -> Any:
        children.append(threads)
        return spawned(command, threads)

    monkeypatch.setattr(trial_runs, "spawn", watched)
    verified = compiled.verify(model(4))
    assert children == [2] and "2 threads" in verified.table()


@pytest.mark.parametrize("race", [True, False])
def test_default_builds_are_raced(race: bool) -> None:
    compiled = opinfo.compile(model(4), race=race)
    assert ("of onnxruntime alone" in compiled.kept) == race
    assert compiled.verify(model(4)).same


@pytest.mark.parametrize("more", [
    {"backends": ["onnxruntime"]}, {"priority": {"tvm": 3}}, {"force": {"relax.matmul": "blas"}},
])  # fmt: skip
def test_what_the_user_chose_is_not_raced(more: dict[str, Any]) -> None:
    assert opinfo.compile(model(4), **more).kept == ""


@pytest.mark.parametrize("race", [True, False])
def test_symbolic_models_are_raced_at_several_sizes(race: bool) -> None:
    compiled = opinfo.compile(model(tvm.tirx.Var("n", "int64")), race=race)
    assert (" with n=1 and n=64; " in compiled.kept) == race
    assert ("of onnxruntime alone" in compiled.kept) == race
    for n in (1, 3, 64):
        x = np.random.default_rng(n).standard_normal((n, 8)).astype("float32")
        np.testing.assert_allclose(compiled.run(x), expected(x), rtol=1e-5, atol=1e-5)


def test_a_build_that_fails_when_called_has_no_time(tmp_path: Path) -> None:
    compiled = opinfo.compile(model(4), [])
    values = [tvm.runtime.tensor(np.ones((4, 8), "float32"))]
    missing = tmp_path / "none.so"
    call = TrialCall("main", tuple(values))
    first, second = trial_runs.trial_runs([compiled.library, missing], [call], 1)
    assert first.times and not second.times
    np.testing.assert_array_equal(first.outputs[0], compiled.run(values[0]))


def test_a_slower_build_says_what_sets_threads() -> None:
    assert "OMP_NUM_THREADS" in str(Verified(0.0, 2.0, 1.0, 9))
    assert "OMP_NUM_THREADS" not in str(Verified(0.0, 1.0, 2.0, 9))


def test_shapes_that_came_in_are_tuned_from_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = opinfo.compile(model(tvm.tirx.Var("n", "int64")), shapes="record")
    with opinfo.Session(compiled) as session:
        session(np.ones((3, 8), "float32"))
        session.recording().save(tmp_path / "shapes.json")
    asked: list[Any] = []
    monkeypatch.setattr("opinfo.front.tuning.search", lambda *given, **_: asked.append(given))
    for subject in (tmp_path / "shapes.json", Recording.load(tmp_path / "shapes.json")):
        opinfo.tune(subject, tmp_path / "tuned", top=1)
        (task,), database, measure = asked.pop()
        assert (dict(task.shape.values), task.calls) == ({"n": 3}, 1)
        assert database == tmp_path / "tuned" and cpu() in measure.target


def test_it_is_compiled_for_this_cpu_unless_a_target_is_named() -> None:
    assert opinfo.compile(model(4), []).target.attrs["mcpu"] == cpu()
    plain = opinfo.compile(model(4), [], target="llvm")
    assert str(plain).startswith("compiled for llvm\n") and describe("llvm") == "llvm"


def test_a_file_is_compiled_and_exported(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(tvm.ir.save_json(model(4)))
    compiled = opinfo.compile(tmp_path / "model.json")
    compiled.export(tmp_path / "model.so")
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(tmp_path / "model.so")), tvm.cpu())
    x = np.ones((4, 8), "float32")
    found = machine["main"](tvm.runtime.tensor(x)).numpy()
    np.testing.assert_array_equal(found, compiled.run(x))


@pytest.mark.parametrize(
    ("inputs", "function", "text"),
    [
        ([np.ones((4, 8))], "main", "main: argument x is float64; it must be float32"),
        ([np.ones((3, 8), "float32")], "main", "main: argument x has extent 3 in dimension 0"),
        ([], "main", "main takes 1 argument, got 0"),
        ([[1.0]], "main", "main: argument x is list; it must be a tensor"),
        ([np.ones((4, 8), "float32")], "decode", "unknown function decode; the model has main"),
    ],
)
def test_inputs_that_do_not_fit_are_named(inputs: Any, function: str, text: str) -> None:
    compiled = opinfo.compile(model(4), [])
    with pytest.raises(ValueError) as error:
        compiled.run(*inputs, function=function)
    assert text in str(error.value) and "\n" not in str(error.value)


def test_bfloat16_goes_in_and_comes_out() -> None:
    import ml_dtypes
    import torch

    x = relax.Var("x", relax.TensorType((3,), "bfloat16"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(builder.emit(relax.op.add(x, x)))
        builder.emit_func_output(out)
    compiled = opinfo.compile(builder.get(), [])
    values = np.array([1, 2.5, -4])
    for given in (values.astype(ml_dtypes.bfloat16), torch.tensor(values).bfloat16()):
        result = compiled.run(given)
        assert result.dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(result.astype("float64"), values * 2)


def test_a_compiled_model_names_its_functions_and_its_target() -> None:
    assert repr(opinfo.compile(model(4), [])) == f"Compiled(main; llvm, {cpu()}, 1 core)"


def test_a_plan_is_shown_in_one_line() -> None:
    plan = opinfo.plan(model(4), {"conv2d": "NHWC"})
    assert repr(plan) == f"ModelPlan({plan.summary()})" and "\n" not in repr(plan)


def test_export_names_the_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"cannot be written: folder .*/gone does not exist$"
    ):
        opinfo.compile(model(4), []).export(tmp_path / "gone" / "model.so")
    with pytest.raises(
        IsADirectoryError, match=r"is a folder: name the file, such as .*/model\.so$"
    ):
        opinfo.compile(model(4), []).export(tmp_path)


def test_a_session_serves_what_is_compiled_for_shapes() -> None:
    compiled = opinfo.compile(model(tvm.tirx.Var("n", "int64")), shapes="jit")
    session = opinfo.Session(compiled)
    x = np.ones((3, 8), "float32")
    np.testing.assert_allclose(session(x).numpy(), expected(x), rtol=1e-5, atol=1e-5)
    session.close()


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (dict(model=3), TypeError, "expected a module or the path of a model, got 3"),
        (dict(model="gone.onnx"), opinfo.FrontendError, "gone.onnx: no such file"),
        (dict(shapes={"m": 4}), ValueError, "unknown dimension m"),
        (dict(backends=["nobody"], shapes="jit"), ValueError, "unknown backend 'nobody'"),
        (dict(backends=["nobody"]), ValueError, "unknown backend 'nobody'"),
        (dict(shapes="never"), ValueError, "never"),
    ],
)
def test_arguments_that_make_no_sense(
    arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        opinfo.compile(**{"model": model(4), **arguments})


@pytest.mark.parametrize("name", ["opinfo", *(f"opinfo.{part}" for part in PARTS)])
def test_what_there_is_is_listed(name: str) -> None:
    package = import_module(name)
    listed = set(dir(package))
    assert set(package.__all__) <= listed and "TYPE_CHECKING" not in listed
    assert all(getattr(package, public) is not None for public in package.__all__)


def test_the_front_door_has_the_verbs() -> None:
    verbs = {"compile", "dispatch", "inspect", "load", "plan", "tune"}
    assert verbs | {"Session", "Compiled"} <= set(dir(opinfo))
    assert all(getattr(opinfo, verb).__doc__ for verb in verbs)
    assert callable(opinfo.compile) and opinfo.Session is opinfo.jit.Session


def test_a_backend_that_is_not_available_is_in_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opinfo.byoc.backends.onnxruntime.locate.library", lambda: None)
    with pytest.warns(UserWarning, match="onnxruntime is not available"):
        compiled = opinfo.compile(model(4), ["onnxruntime"])
    assert "onnxruntime is not available: libonnxruntime is not installed" in str(compiled)


def test_defaults_of_library_that_are_not_installed_do_not_warn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("opinfo.jit.compile.library_calls.unusable", lambda b: "not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        done = opinfo.compile(model(tvm.tirx.Var("n", "int64")), shapes="library").dispatched
    assert done is not None and not done.failed and not done.taken


def test_a_library_that_is_not_there_and_one_name_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"^Session: .*nope\.so: no such library$"):
        opinfo.Session(tmp_path / "nope.so")
    with pytest.raises(TypeError, match=r"got 'onednn'; pass \['onednn'\]$"):
        opinfo.compile(model(4), "onednn")  # a sequence of letters, too


@pytest.mark.parametrize("call", [opinfo.load, opinfo.compile, opinfo.inspect])
def test_a_model_in_memory_is_saved_first(call: Any) -> None:
    onnx, torch = pytest.importorskip("onnx"), pytest.importorskip("torch")
    net = torch.nn.Linear(2, 3)
    program = torch.export.export(net, (torch.zeros(1, 2),))
    for subject, advice in (
        (onnx.ModelProto(), "got an ONNX model: save it by onnx.save"),
        (program, "got a program of torch.export: save it by torch.export.save"),
        (net, "got a torch module: export it by torch.export.export"),
        (model(4)["main"], "got a Relax function: pass the module"),
    ):
        with pytest.raises(TypeError, match=advice) as raised:
            call(subject)
        assert "\n" not in str(raised.value)
