"""Chains in functions that write into tensors: none reaches across a call that may write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.compile import compile_module
from opinfo.byoc.dispatching.choice.plan_file import PlanRefused
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.dispatching.replay_dispatch import replay
from opinfo.byoc.prepare.prepare import prepare
from tests import scaling
from tests.common.run import run

op, nn = relax.op, relax.op.nn
Write = Callable[[Any, Any, Any], Any]
X, WEIGHT = (4, 6), np.linspace(-1, 1, 36, dtype="float32").reshape(6, 6)


@pytest.fixture(autouse=True)
def _scale() -> Iterator[None]:
    with scaling.registered():
        yield


def impure(builder: Any, x: Any, _: Any) -> Any:
    builder.emit(scaling.scaled(x))
    return x


def in_place(builder: Any, x: Any, gvar: Any) -> Any:
    return builder.emit(op.call_tir_inplace(gvar, [x], [0], x.ty))


def in_a_branch(builder: Any, x: Any, _: Any) -> Any:
    """The call of `impure` in one branch of a conditional."""
    branches = []
    for call in (scaling.scaled(x), op.exp(x)):
        y = relax.Var("y", x.ty)
        branches.append(relax.SeqExpr([relax.BindingBlock([relax.VarBinding(y, call)])], y))
    builder.emit(relax.If(relax.const(True, "bool"), *branches))
    return x


def nothing(_: Any, x: Any, __: Any) -> Any:
    return x


def module(before: Write, between: Write, after: Write) -> Any:
    """A product of x, a relu of it, and writes into x, each of which returns what x is then."""
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType(X, "float32"))
    gvar = builder.add_func(scaling.doubled, "doubled")
    with builder.function("main", [x], pure=False):
        x = before(builder, x, gvar)
        product = builder.emit(op.matmul(x, relax.const(WEIGHT)))
        x = between(builder, x, gvar)
        result = builder.emit(nn.relu(product))
        x = after(builder, x, gvar)
        builder.emit_func_output(relax.Tuple([result, builder.emit(op.negative(x))]))
    return builder.get()


def regions(mod: Any) -> list[tuple[str, ...]]:
    """The operators of each region, if the results are those of the module."""
    x = np.linspace(-2, 3, 24, dtype="float32").reshape(X)
    compiled = compile_module(mod, ["blas"])
    got = compiled.machine()["main"](tvm.runtime.tensor(x))
    for a, b in zip(run(mod, (x,)), got, strict=True):
        np.testing.assert_allclose(b.numpy(), a, rtol=1e-5, atol=1e-5)
    return [region.ops for region in compiled.dispatched.taken]


@pytest.mark.parametrize("write", [impure, in_place, in_a_branch])
def test_a_chain_ends_at_a_call_that_may_write(write: Write) -> None:
    assert regions(module(nothing, write, nothing)) == [("relax.matmul",)]


@pytest.mark.parametrize("write", [impure, in_place, in_a_branch])
def test_a_chain_between_two_calls_that_may_write_is_taken(write: Write) -> None:
    assert regions(module(write, nothing, write)) == [("relax.matmul", "relax.nn.relu")]


def test_a_saved_plan_with_a_chain_across_a_write_is_refused() -> None:
    writes = (nothing, impure, nothing), (impure, nothing, nothing)
    across, within = (prepare(module(*each), ["blas"]) for each in writes)
    plan, whole = (dispatch(mod, ["blas"]).plan for mod in (across, within))
    assert [len(r.ops) for r in whole.regions] == [2]
    with pytest.raises(PlanRefused, match="does not match blas"):
        replay(across, replace(plan, regions=whole.regions), ["blas"])
