"""Functions that no backend takes are scheduled when a module is built."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from tvm import relax, tirx

from opinfo.analysis.lifting.tir.node import items
from opinfo.byoc.building.cpu_program import cpu_program
from opinfo.byoc.schedule import Refusal
from opinfo.byoc.schedule import scheduled_functions as subject
from opinfo.byoc.schedule.scheduled_functions import FEWEST, scheduled_functions

from .scheduled_modules import (
    LONG,
    arrays,
    expected,
    gates,
    loops,
    one,
    prim_func,
    run,
    stores,
    two,
)

op, nn = relax.op, relax.op.nn
SCHEDULE = import_module("opinfo.byoc.schedule.schedule")


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


def logistic(z: Any) -> Any:
    return 1 / (1 + np.exp(-z))


def twice(y: Any) -> Any:
    return op.multiply(y, op.add(y, relax.const(1, "float32")))


NAN: dict[str, tuple[Any, Any]] = {
    "beside an exponential": (lambda x, z: op.multiply(nn.relu(x), op.sigmoid(z)),
                              lambda x, z: np.maximum(x, 0) * logistic(z)),
    "inside of one": (lambda x, z: op.exp(op.maximum(x, z)),
                      lambda x, z: np.exp(np.maximum(x, z))),
    "in a value that is used twice": (lambda x, z: twice(op.maximum(x, z)),
                                      lambda x, z: np.maximum(x, z) * (np.maximum(x, z) + 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", NAN)
def test_maxima_keep_nan(name: str) -> None:
    expr, oracle = NAN[name]
    mod, (x, *_) = two(expr), arrays(LONG)
    z = x[::-1].copy()
    x[0, :3] = np.nan
    assert scheduled_functions(mod, "llvm")
    got = run(cpu_program(mod, "llvm", ())[0], [x, z])
    wanted = oracle(x.astype(np.float64), z.astype(np.float64))
    assert np.isnan(wanted[0, :3]).all()
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_the_error_function_does_not_pass_1() -> None:
    x = np.linspace(-8, 8, FEWEST, dtype="float32").reshape(LONG)
    mod = one(LONG, op.erf)
    assert scheduled_functions(mod, "llvm")
    got = run(cpu_program(mod, "llvm", ())[0], [x])
    assert np.abs(got).max() <= 1
    assert (got[x < 0] <= 0).all() and (got[x > 0] >= 0).all()


def test_nothing_is_scheduled_for_a_gpu() -> None:
    assert scheduled_functions(gates(LONG), {"kind": "cuda", "arch": "sm_90"}) == {}


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


def test_a_function_that_makes_the_scheduler_fail_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise KeyError("i")

    mod = gates(LONG)
    (name,) = scheduled_functions(mod, "llvm")
    monkeypatch.setattr(SCHEDULE, "program", broken)
    fault = "keeps the loops of its operators: it could not be scheduled: KeyError: 'i'"
    with pytest.warns(UserWarning, match=f"^{name} {fault}$"):
        assert scheduled_functions(mod, "llvm") == {}
    with pytest.warns(UserWarning, match=f"^{name} {fault}$"):
        result = SCHEDULE.schedule(mod[name].with_attr("global_symbol", name), "llvm")
    assert isinstance(result, Refusal)


def test_nothing_is_said_where_all_is_built() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cpu_program(gates(LONG), "llvm", ())
