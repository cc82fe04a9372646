"""Preparing an impure function: nothing is read later than in the program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from opinfo.byoc.prepare.prepare import prepare
from tests import scaling
from tests.common.run import run
from tests.layout.equal import execute

op = relax.op
#: What reads x before it is overwritten, and what reads the result after that.
CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "a reshape below an operator": (lambda x: op.reshape(x, (24,)), op.exp),
    "two reshapes": (lambda x: op.reshape(x, (24,)), lambda y: op.reshape(y, (2, 12))),
    "a cast to the same dtype": (lambda x: op.astype(x, "float32"), op.exp),
    "a product with a spread operand": (
        lambda x: op.broadcast_to(x, (2, 4, 6)),
        lambda y: op.matmul(relax.const(np.ones((2, 3, 4), "float32")), y),
    ),
    "a sum of stacked tensors": (
        lambda x: op.stack([x, relax.const(np.ones((4, 6), "float32"))], axis=0),
        lambda y: op.sum(y, axis=[0]),
    ),
    "a choice that is constant": (
        lambda x: op.where(relax.const(True, "bool"), x, relax.const(0.0, "float32")),
        op.exp,
    ),
    "a product by 1": (lambda x: op.multiply(x, relax.const(1.0, "float32")), op.exp),
}


@pytest.fixture(autouse=True)
def _scale() -> Iterator[None]:
    with scaling.registered():
        yield


def module(before: Callable[[Any], Any], after: Callable[[Any], Any]) -> Any:
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((4, 6), "float32"))
    with builder.function("main", [x], pure=False):
        early = builder.emit(before(x))
        builder.emit(scaling.scaled(x))
        builder.emit_func_output(builder.emit(after(early)))
    return builder.get()


@pytest.mark.parametrize("name", CASES)
def test_what_is_read_before_a_call_is_not_read_after_it(name: str) -> None:
    mod = module(*CASES[name])
    x = np.linspace(-1, 1, 24, dtype="float32").reshape(4, 6)
    (want,), (got,) = run(mod, (x,)), run(prepare(mod), (x,))
    np.testing.assert_allclose(got, want, rtol=1e-5)


def updated(before: Callable[[Any], Any], after: Callable[[Any], Any]) -> Any:
    """As `module`, with an update in place, which Relax takes for pure."""
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((4, 6), "float32"))
    gvar = builder.add_func(scaling.doubled, "doubled")
    with builder.function("main", [x]):
        with builder.dataflow():
            early = builder.emit(before(x))
            new = builder.emit_output(op.call_tir_inplace(gvar, [x], [0], x.ty))
            out = builder.emit_output(after(early))
        builder.emit_func_output(relax.Tuple([new, out]))
    return builder.get()


@pytest.mark.parametrize("name", CASES)
def test_what_is_read_before_an_update_in_place_is_not_read_after_it(name: str) -> None:
    mod = updated(*CASES[name])
    x = np.linspace(-1, 1, 24, dtype="float32").reshape(4, 6)
    for want, got in zip(execute(mod, (x,)), execute(prepare(mod), (x,)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_pure_functions_beside_it_are_still_prepared() -> None:
    @I.ir_module
    class Pure:
        @R.function
        def pure(x: R.Tensor((4, 6), "float32")) -> R.Tensor((4, 6), "float32"):
            with R.dataflow():
                y = R.reshape(x, R.shape([24]))
                z = R.reshape(y, R.shape([4, 6]))
                w = R.exp(z)
                R.output(w)
            return w

    mod = module(*CASES["two reshapes"])
    mod.update(Pure)
    assert str(prepare(mod)["pure"]).count("R.call_tir") == 1
