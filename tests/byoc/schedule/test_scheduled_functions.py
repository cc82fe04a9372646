"""Functions that no backend takes are scheduled when a module is built."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx

from opinfo.analysis.lifting.tir.node import items
from opinfo.byoc.building.cpu_program import cpu_program
from opinfo.byoc.prepare.fuse import fuse
from opinfo.byoc.schedule import scheduled_functions as subject
from opinfo.byoc.schedule.scheduled_functions import FEWEST, replaced, scheduled_functions

op, nn = relax.op, relax.op.nn
LONG, SHORT = (64, FEWEST // 64), (8, 16)


def gates(shape: Any, dtype: str = "float32") -> tvm.IRModule:
    """`y = (x · s + t) · min(relu(x · s + t + 3), 6) / 6`, with `s` and `t` by columns."""
    builder = relax.BlockBuilder()
    x, s, t = (relax.Var(n, relax.TensorType(e, dtype))
               for n, e in (("x", shape), ("s", shape[1:]), ("t", shape[1:])))  # fmt: skip
    with builder.function("main", [x, s, t]):
        y = builder.emit(op.add(op.multiply(x, s), t))
        three, six = relax.const(3, dtype), relax.const(6, dtype)
        gate = op.minimum(nn.relu(op.add(y, three)), six)
        out = builder.emit(op.divide(op.multiply(y, gate), six))
        builder.emit_func_output(out)
    mod = relax.transform.ConvertToDataflow()(builder.get())
    return fuse(relax.transform.LegalizeOps()(mod))


def one(shape: Any, expr: Any) -> tvm.IRModule:
    """A module with one operator on `x`."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(expr(x)))
    return fuse(relax.transform.LegalizeOps()(builder.get()))


def expected(x: Any, s: Any, t: Any) -> Any:
    y = x.astype(np.float64) * s + t
    return y * np.clip(y + 3, 0, 6) / 6


def arrays(shape: Any) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(e).astype("float32") for e in (shape, shape[1:], shape[1:])]


def run(program: Any, values: list[Any]) -> Any:
    machine = relax.VirtualMachine(program, tvm.cpu())
    return machine["main"](*map(tvm.runtime.tensor, values)).numpy()


def loops(func: Any) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tirx.For, found.append))
    return found


def stores(func: Any) -> set[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tirx.BufferStore, lambda s: found.append(s.buffer.name)))
    return set(found)


def prim_func(mod: tvm.IRModule) -> Any:
    (func,) = (f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc))
    return func


def test_a_chain_of_operators_is_one_nest() -> None:
    mod = gates(LONG)
    assert len(stores(prim_func(mod))) == 7
    (ours,) = scheduled_functions(mod, "llvm").values()
    assert stores(ours) == {items(ours.params)[-1].name}


@pytest.mark.parametrize("shape", [LONG, (61, 541), (FEWEST, 1)])
def test_the_result_is_that_of_the_operators(shape: Any) -> None:
    mod = gates(shape)
    assert scheduled_functions(mod, "llvm")
    program, link = cpu_program(mod, "llvm", ())
    values = arrays(shape)
    assert link == ()
    np.testing.assert_allclose(run(program, values), expected(*values), rtol=2e-6, atol=2e-6)


def test_nan_and_infinities_are_kept() -> None:
    values = arrays(LONG)
    values[0][0, :4] = [np.nan, np.inf, -np.inf, -0.0]
    values[1][:4], values[2][:4] = 1, 0
    with np.errstate(invalid="ignore"):
        wanted = expected(*values)
    got = run(cpu_program(gates(LONG), "llvm", ())[0], values)
    np.testing.assert_allclose(got, wanted, rtol=2e-6, atol=2e-6)
    assert np.isnan(got[0, 0]) and got[0, 1] == np.inf and np.isnan(got[0, 2])


@pytest.mark.parametrize("shape", [SHORT, (64, FEWEST // 64 - 1)])
def test_short_functions_stay(shape: Any) -> None:
    assert scheduled_functions(gates(shape), "llvm") == {}


STAYING = {
    "one operator on elements": (LONG, nn.relu),
    "a transpose": (LONG, op.permute_dims),
    "a padded copy": (LONG, lambda x: nn.pad(x, (1, 1, 1, 1))),
    "sums that depend on each other": (LONG, lambda x: op.cumsum(x, 1)),
    "pairs that depend on each other": (LONG, lambda x: op.argmax(x, 1)),
}


@pytest.mark.parametrize("name", STAYING)
def test_what_gains_nothing_stays(name: str) -> None:
    assert scheduled_functions(one(*STAYING[name]), "llvm") == {}


@pytest.mark.parametrize(
    ("expr", "oracle"),
    [(op.exp, np.exp), (lambda x: op.mean(x, [1]), lambda x: x.mean(1))],
    ids=["a function of each element", "a reduction"],
)
def test_one_operator_is_scheduled(expr: Any, oracle: Any) -> None:
    mod, (x, *_) = one(LONG, expr), arrays(LONG)
    assert len(scheduled_functions(mod, "llvm")) == 1
    got = run(cpu_program(mod, "llvm", ())[0], [x])
    np.testing.assert_allclose(got, oracle(x.astype(np.float64)), rtol=2e-6, atol=2e-6)


def test_functions_of_each_element_count_more() -> None:
    shape = (FEWEST // 16,)
    gelu, mean = one(shape, op.exp), one(shape, lambda x: op.sum(x, [0]))
    assert scheduled_functions(gelu, "llvm") == {} == scheduled_functions(mean, "llvm")
    assert len(scheduled_functions(one((FEWEST // 8,), op.exp), "llvm")) == 1


def test_a_pool_of_neighbouring_channels_has_vectors() -> None:
    """Copies in blocks of one channel would have none."""
    mod = one((1, 112, 112, 64), lambda x: nn.max_pool2d(x, (3, 3), (2, 2), (1, 1, 1, 1),
                                                         layout="NHWC"))  # fmt: skip
    (ours,) = scheduled_functions(mod, "llvm").values()
    outer = [loop for loop in loops(ours) if int(loop.kind) == tirx.ForKind.SERIAL]
    assert all(int(loop.extent) != 64 for loop in outer)
    x = np.random.default_rng(0).standard_normal((1, 112, 112, 64)).astype("float32")
    around = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(around, (3, 3), (1, 2))[:, ::2, ::2]
    got = run(cpu_program(mod, "llvm", ())[0], [x])
    np.testing.assert_array_equal(got, windows.max((-1, -2)))


def test_symbolic_functions_stay() -> None:
    assert scheduled_functions(gates((tirx.Var("n", "int64"), FEWEST)), "llvm") == {}


def test_nothing_is_scheduled_for_a_gpu() -> None:
    assert scheduled_functions(gates(LONG), {"kind": "cuda", "arch": "sm_90"}) == {}


def test_what_is_scheduled_already_stays() -> None:
    mod = gates(LONG)
    (name,) = scheduled_functions(mod, "llvm")
    marked = replaced(mod, {name: prim_func(mod).with_attr("tirx.is_scheduled", True)})
    assert scheduled_functions(marked, "llvm") == {}


def test_outer_loops_are_divided_among_cores() -> None:
    mod = gates(LONG)
    (serial,), (divided,) = (scheduled_functions(mod, "llvm", n).values() for n in (1, 2))
    kinds = [{int(loop.kind) for loop in loops(f)} for f in (serial, divided)]
    assert tirx.ForKind.PARALLEL not in kinds[0] and tirx.ForKind.PARALLEL in kinds[1]


def test_a_schedule_that_does_not_build_is_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mod, good = gates(LONG), scheduled_functions
    (name,) = good(mod, "llvm")

    def broken(*args: Any) -> dict[str, Any]:
        (ours,) = good(*args).values()
        undefined = tirx.Var("undefined", "bool")
        return {name: ours.with_body(tirx.IfThenElse(undefined, ours.body, None))}

    monkeypatch.setattr(subject, "scheduled_functions", broken)
    values = arrays(LONG)
    with pytest.warns(UserWarning, match=f"^{name} keeps the loops of its operators: TVM does"):
        program, _ = cpu_program(mod, "llvm", ())
    np.testing.assert_allclose(run(program, values), expected(*values), rtol=2e-6, atol=2e-6)


def test_nothing_is_said_where_all_is_built() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cpu_program(gates(LONG), "llvm", ())
