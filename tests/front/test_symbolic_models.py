"""Models with symbolic sizes: compiled for any, called with those that will come, and served."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import opinfo
from opinfo.byoc.codegen.host_target import cpu
from opinfo.front import compiled_model
from opinfo.jit import Config, Dim, Recording

from .test_front import expected, model


@pytest.mark.part
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


def test_a_session_serves_what_is_compiled_for_shapes() -> None:
    compiled = opinfo.compile(model(tvm.tirx.Var("n", "int64")), shapes="jit")
    session = opinfo.Session(compiled)
    x = np.ones((3, 8), "float32")
    np.testing.assert_allclose(session(x).numpy(), expected(x), rtol=1e-5, atol=1e-5)
    session.close()
