"""Strategies of functions: which is chosen, what it makes of the module, why not."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from opinfo.byoc.schedule import Scheduled
from opinfo.jit import (
    Aot,
    Config,
    Dim,
    Generic,
    Record,
    Session,
    compile_shapes,
    specialize_shapes,
)
from opinfo.jit.compile.compile_shapes import lowered
from opinfo.jit.config.strategy import strategy
from tests.jit import modules


def attention(session: Session, n: int, m: int) -> None:
    """Call `modules.attention` and compare."""
    q, k = modules.rows(n), modules.rows(m + 10)[:m]
    scores = q @ k.T
    e = np.exp(scores - scores.max(-1, keepdims=True))
    got = session(tvm.runtime.tensor(q), tvm.runtime.tensor(k)).numpy()
    np.testing.assert_allclose(got, e / e.sum(-1, keepdims=True) @ k, rtol=1e-4, atol=1e-5)


def calls(mod: Any) -> list[str]:
    """What is called in a module, in order."""
    found: list[str] = []

    def visit(e: Any) -> None:
        if isinstance(e, tvm.ir.Call) and getattr(e.op, "name", "").startswith("relax.call"):
            target = e.args[0]
            found.append(getattr(target, "name_hint", None) or str(target.global_symbol))

    for f in mod.functions.values():
        if isinstance(f, relax.Function):
            relax.analysis.post_order_visit(f, visit)
    return found


def test_the_input_is_as_it_was_and_calls_are_sites() -> None:
    mod = lowered(modules.dense(2))
    before = tvm.ir.save_json(mod)
    done = specialize_shapes(mod, "jit")
    assert tvm.ir.save_json(mod) == before
    assert calls(mod) == ["fused_matmul_relu"] * 2
    assert calls(done.module) == ["opinfo_site_0", "opinfo_site_1"]
    assert [t.rule for t in done.functions] == ["contraction"]


def test_generic_calls_stay_calls() -> None:
    done = specialize_shapes(lowered(modules.dense()), "generic")
    assert calls(done.module) == ["fused_matmul_relu"]


def test_a_function_goes_before_an_operator_before_the_default() -> None:
    given = Config("jit", by_function={"fused_matmul_relu": Record()},
                   by_op={"relax.matmul": Generic()})  # fmt: skip
    done = specialize_shapes(lowered(modules.dense()), given)
    assert [t.strategy for t in done.functions] == [Record()]
    by_op = specialize_shapes(
        lowered(modules.dense()), Config("jit", by_op={"relax.nn.relu": Aot()})
    )
    assert by_op.functions[0].strategy == Generic()
    assert by_op.functions[0].why.startswith("no values are declared for n")


@pytest.mark.parametrize("how", ["jit", Aot({"n": (2, 4)})], ids=["jit", "aot"])
def test_a_dimension_may_stand_alone_in_the_result_only(how: Any) -> None:
    """Of the reshape, which is fused with nothing: its operand has n * 2 rows."""
    bb = relax.BlockBuilder()
    n = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n * 2, 3), "float32"))
    like = relax.Var("like", relax.TensorType((n,), "float32"))
    with bb.function("main", [x, like]):
        with bb.dataflow():
            gv = bb.emit_output(relax.op.permute_dims(relax.op.reshape(x, (n, 6))))
        bb.emit_func_output(gv)
    done = compile_shapes(bb.get(), how)
    with Session(done) as session:
        for size in (1, 2, 2, 4, 5):
            rows = modules.rows(2 * size)[:, :3].copy()
            got = session(rows, np.zeros(size, "float32")).numpy()
            np.testing.assert_array_equal(got, rows.reshape(size, 6).T)


@pytest.mark.parametrize("how", ["jit", "record", Aot({"n": (2, 4)})], ids=["jit", "record", "aot"])
def test_a_function_may_have_several_results(how: Any) -> None:
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((tirx.Var("n", "int64"), 6), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            both = bb.emit(relax.op.split(x, 2, 1))
            gv = bb.emit_output(relax.Tuple([both[1], both[0]]))
        bb.emit_func_output(gv)
    done = compile_shapes(bb.get(), how)
    assert [t.strategy for t in done.functions] == [strategy(how)]
    with Session(done) as session:
        for n in (1, 2, 2, 4, 5):
            rows = modules.rows(n)[:, :6].copy()
            right, left = session(rows)
            np.testing.assert_array_equal(left.numpy(), rows[:, :3])
            np.testing.assert_array_equal(right.numpy(), rows[:, 3:])


@pytest.mark.parametrize(
    ("made", "message"),
    [(lambda: Dim(likely=(cast("int", 2.0),)), "a likely value: expected an integer, got 2.0"),
     (lambda: Dim(cast("int", 1.5), 8), "low: expected an integer, got 1.5"),
     (lambda: Aot({"n": (cast("int", 1.5),)}), "expected positive integers"),
     (lambda: specialize_shapes(lowered(modules.dense()), Config(dims={"n": cast("Dim", (1, 8))})),
      r"dims: n: expected a Dim, such as Dim\(1, 8\), got \(1, 8\)")],
)  # fmt: skip
def test_invalid_numbers_are_refused(made: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made()
    assert Aot({"n": (cast("int", np.int64(4)),)}).buckets == {"n": (4,)}


def test_functions_of_one_shape_are_scheduled() -> None:
    bound = relax.transform.BindSymbolicVars({"n": 5})(modules.dense())
    (function,) = specialize_shapes(lowered(bound), "jit").functions
    assert function.strategy == Generic() and function.rule == "contraction"


@pytest.mark.parametrize(
    ("given", "message"),
    [("fast", "expected a strategy or one of generic, aot, jit, library, record, got 'fast'"),
     (Config("jit", by_op={"relax.add": "quick"}), "got 'quick'")],
)  # fmt: skip
def test_an_invalid_strategy_is_refused(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        specialize_shapes(lowered(modules.dense()), given)


@pytest.mark.parametrize(
    ("given", "message"),
    [(Config(by_function={"no_such": "aot"}), "unknown PrimFunc no_such; known: "),
     (Config(by_op={"relax.matmull": "aot"}), "relax.matmull is neither an operator")],
)  # fmt: skip
def test_names_that_mean_nothing_are_refused(given: Config, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        specialize_shapes(lowered(modules.dense()), given)


def test_a_schedule_that_does_not_build_is_dropped_and_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`free` is defined nowhere: TVM refuses the function."""

    def broken(func: Any, target: Any) -> Any:
        free = tirx.Var("free", "int64")
        body = tirx.IfThenElse(free > tirx.IntImm("int64", 0), func.body, None)
        made = tirx.PrimFunc(func.params, body, func.ret_type, func.attrs)
        return Scheduled(made, ("broken",))

    monkeypatch.setattr("opinfo.jit.compile.specialize.schedule", broken)
    for how in (Generic(), Aot({"n": (2,)})):
        done = compile_shapes(modules.dense(), Config(how))
        (function,) = done.functions
        assert function.rule == "none" and function.why.startswith("its schedule does not build: ")
        with Session(done) as session:
            x = modules.rows(2)
            np.testing.assert_allclose(session(x).numpy(), modules.expected(x), rtol=1e-4,
                                       atol=1e-5)  # fmt: skip


def test_modules_that_cannot_be_compiled_are_refused_early(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError, match=r"expected a tvm.IRModule, got str"):
        compile_shapes("model.onnx")
    with pytest.raises(ValueError, match="the module has no Relax function"):
        compile_shapes(tvm.IRModule({}))
    with pytest.raises(ValueError, match="the target is cuda; symbolic shapes are"):
        compile_shapes(modules.dense(), target={"kind": "cuda", "arch": "sm_90"})
    kind = relax.TensorType((2, 4), "float32")
    x, free = relax.Var("x", kind), relax.Var("free", kind)
    func = relax.Function([x], relax.SeqExpr([], free), kind)
    with pytest.raises(ValueError, match="nothing defines the variable free of main"):
        compile_shapes(tvm.IRModule({"main": func}))
    monkeypatch.setattr("tvm.support.cc.get_cc", lambda: None)
    with pytest.raises(FileNotFoundError, match="no C\\+\\+ compiler on PATH"):
        compile_shapes(modules.dense())
