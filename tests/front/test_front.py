"""The front door: one call from a model to what runs, static and symbolic alike."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

import opinfo
from opinfo.byoc.codegen.host_target import cpu
from opinfo.byoc.process.spawn import spawn
from opinfo.front.compiled_model import describe
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
        verified = opinfo.compile(subject, shapes=shapes, race=False).verify(subject)
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


def test_it_is_compiled_for_this_cpu_unless_a_target_is_named() -> None:
    assert opinfo.compile(model(4), []).target.attrs["mcpu"] == cpu()
    plain = opinfo.compile(model(4), [], target="llvm")
    assert str(plain).startswith("compiled for llvm\n") and describe("llvm") == "llvm"


def test_a_file_is_compiled_and_exported(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(tvm.ir.save_json(model(4)))
    compiled = opinfo.compile(tmp_path / "model.json", race=False)
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
