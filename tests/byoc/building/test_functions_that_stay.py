"""Functions that keep the loops of their operators."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import relax, tirx
from tvm.script import tirx as T

from opinfo.byoc.schedule import scheduled_functions as subject
from opinfo.byoc.schedule.scheduled_functions import FEWEST, replaced, scheduled_functions

from .scheduled_modules import (
    LONG,
    SHORT,
    gates,
    one,
    prim_func,
    two,
)

op, nn = relax.op, relax.op.nn


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


def logistic_map(steps: int) -> tvm.IRModule:
    """`x = 3.5 · x · (1 - x)`, so many times: each value is used twice."""

    def expr(x: Any) -> Any:
        for _ in range(steps):
            x = op.multiply(op.multiply(x, relax.const(3.5, "float32")),
                            op.subtract(relax.const(1, "float32"), x))  # fmt: skip
        return x

    return two(lambda x, z: op.add(expr(x), z))


def test_chains_that_would_be_copied_too_often_stay() -> None:
    """TVM's passes and LLVM take time that doubles with each step."""
    assert len(scheduled_functions(logistic_map(4), "llvm")) == 1
    assert scheduled_functions(logistic_map(16), "llvm") == {}


def test_functions_that_pass_addresses_stay() -> None:
    assert scheduled_functions(one(LONG, lambda x: op.sort(x, 1)), "llvm") == {}


@T.prim_func(private=True, s_tir=True)
def by_data(x: T.Buffer(LONG, "float32"), y: T.Buffer(LONG, "float32")) -> None:
    T.func_attr({"tirx.noalias": True})
    t = T.sblock_alloc_buffer(LONG)
    for i, j in T.grid(*LONG):
        with T.sblock("t"):
            v, w = T.axis.remap("SS", [i, j])
            t[v, w] = x[v, w] * T.float32(2) + T.float32(1)
    for i, j in T.grid(*LONG):
        with T.sblock("y"):
            v, w = T.axis.remap("SS", [i, j])
            y[v, w] = t[v, w] + T.if_then_else(t[v, w] > T.float32(0), T.sqrt(t[v, w]),
                                              T.float32(-7))  # fmt: skip


def test_functions_with_branches_by_data_stay() -> None:
    assert scheduled_functions(tvm.IRModule({"by_data": by_data}), "llvm") == {}


def test_a_function_that_cannot_be_read_stays_and_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(*_: Any) -> Any:
        raise TypeError("no such form")

    monkeypatch.setattr(subject, "read_shape", failing)
    (gvar,) = (g for g, f in gates(LONG).functions_items() if isinstance(f, tirx.PrimFunc))
    with pytest.warns(UserWarning, match=f"^{gvar.name_hint} keeps .*: TypeError: no such form"):
        assert scheduled_functions(gates(LONG), "llvm") == {}


def test_symbolic_functions_stay() -> None:
    assert scheduled_functions(gates((tirx.Var("n", "int64"), FEWEST)), "llvm") == {}


def test_what_is_scheduled_already_stays() -> None:
    mod = gates(LONG)
    (name,) = scheduled_functions(mod, "llvm")
    marked = replaced(mod, {name: prim_func(mod).with_attr("tirx.is_scheduled", True)})
    assert scheduled_functions(marked, "llvm") == {}
