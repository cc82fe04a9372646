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
from opinfo.byoc.codegen.host import cpu
from opinfo.front.compiled_model import describe

PARTS = ("analysis", "byoc", "jit", "layout")


def model(batch: int | tvm.tirx.Var) -> Any:
    """relu(x @ w) over a batch."""
    rng = np.random.default_rng(0)
    w = relax.const(rng.standard_normal((8, 16)).astype("float32"))
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


@pytest.mark.parametrize("backends", [None, [], ["onednn"], ["blas", "tvm"]])
def test_a_static_model_runs_on_any_backends(backends: Any) -> None:
    mod = model(4)
    assert tvm_ffi.structural_equal(mod, model(4))
    compiled = opinfo.compile(mod, backends)
    x = np.random.default_rng(1).standard_normal((4, 8)).astype("float32")
    np.testing.assert_allclose(compiled.run(x), expected(x), rtol=1e-5, atol=1e-5)
    assert tvm_ffi.structural_equal(mod, model(4))
    taken = {t.backend for t in compiled.dispatched.taken}  # type: ignore[union-attr]
    assert taken == set(["onednn"] if backends is None else backends[:1])


@pytest.mark.parametrize("shapes", [None, "jit"])
def test_a_symbolic_model_runs_at_any_size(shapes: Any) -> None:
    compiled = opinfo.compile(model(tvm.tirx.Var("n", "int64")), shapes=shapes)
    for n in (1, 5):
        x = np.random.default_rng(n).standard_normal((n, 8)).astype("float32")
        np.testing.assert_allclose(compiled.run(x), expected(x), rtol=1e-5, atol=1e-5)
    report = compiled.report()
    assert report.splitlines()[0] == f"compiled for llvm, {cpu()}, 1 core"
    assert (": jit, rule contraction" in report) == (shapes == "jit")


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
        (dict(backends=["onednn"], shapes="jit"), ValueError, "by the strategy Library"),
        (dict(backends=["nobody"]), ValueError, "there is no backend 'nobody'"),
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
    assert {"compile", "load", "inspect", "Session", "Compiled"} <= set(dir(opinfo))
    assert callable(opinfo.compile) and opinfo.Session is opinfo.jit.Session
