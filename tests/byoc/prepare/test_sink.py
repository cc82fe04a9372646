"""Reshapes after what is element by element: what moves, what stays, the same elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.compile import compile_module
from opinfo.byoc.prepare.sink_reshapes import sink_reshapes

from ...common.run import run
from ...layout import nets
from ...layout.nets import const

op = relax.op
N = tvm.tirx.Var("n", "int64")


def net(build: Callable[..., Any], *shapes: tuple[Any, ...]) -> Any:
    return nets.net(build, *shapes, legal=False)


def _row() -> Any:
    return relax.const(np.arange(6, dtype="float32"))


MOVED: dict[str, tuple[Any, Any]] = {
    "one after the other": (
        net(lambda e, r, x: e(op.add(e(op.erf(e(op.reshape(x, (1, 4, 6))))), relax.const(1.0))),
            (4, 6)),
        net(lambda e, r, x: e(op.reshape(e(op.add(e(op.erf(x)), relax.const(1.0))), (1, 4, 6))),
            (4, 6)),
    ),
    "two that are reshaped alike": (
        net(lambda e, r, x: (lambda y: e(op.multiply(y, e(op.sigmoid(y)))))(
            e(op.reshape(x, (2, 2, 6)))), (4, 6)),
        net(lambda e, r, x: e(op.reshape(e(op.multiply(x, e(op.sigmoid(x)))), (2, 2, 6))), (4, 6)),
    ),
    "there and back": (
        net(lambda e, r, x: e(op.reshape(e(op.exp(e(op.reshape(x, (24,))))), (4, 6))), (4, 6)),
        net(lambda e, r, x: e(op.exp(x)), (4, 6)),
    ),
    "a row": (
        net(lambda e, r, x: e(op.add(e(op.reshape(x, (2, 2, 6))), _row())), (4, 6)),
        net(lambda e, r, x: e(op.reshape(e(op.add(x, _row())), (2, 2, 6))), (4, 6)),
    ),
    "symbolic": (
        net(lambda e, r, x: e(op.exp(e(op.reshape(x, (1, N, 6))))), (N, 6)),
        net(lambda e, r, x: e(op.reshape(e(op.exp(x)), (1, N, 6))), (N, 6)),
    ),
}  # fmt: skip
STAYS: dict[str, Any] = {
    "reshaped otherwise": net(lambda e, r, x, y: e(op.add(
        e(op.reshape(x, (2, 12))), e(op.reshape(y, (2, 12))))), (4, 6), (6, 4)),
    "not reshaped": net(lambda e, r, x, y: e(op.add(e(op.reshape(x, (2, 12))), y)),
                        (4, 6), (2, 12)),
    "broadcast": net(lambda e, r, x: e(op.add(e(op.reshape(x, (1, 4, 6))), const(r, 3, 4, 6))),
                     (4, 6)),
    "a row of another length": net(lambda e, r, x: e(op.add(e(op.reshape(x, (4, 6))), _row())),
                                   (2, 12)),
    "not element by element": net(lambda e, r, x: e(op.nn.softmax(e(op.reshape(x, (2, 12))), 1)),
                                  (4, 6)),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVED)
def test_it_comes_first(name: str) -> None:
    before, expected = MOVED[name]
    text = before.script()
    after = sink_reshapes(before)
    canonical = relax.transform.CanonicalizeBindings()
    tvm.ir.assert_structural_equal(canonical(after), canonical(expected), map_free_vars=True)
    assert before.script() == text
    x = np.random.default_rng(0).standard_normal((4, 6)).astype("float32")
    np.testing.assert_array_equal(run(after, [x])[0], run(before, [x])[0])


@pytest.mark.parametrize("name", STAYS)
def test_other_reshapes_stay(name: str) -> None:
    tvm.ir.assert_structural_equal(sink_reshapes(STAYS[name]), STAYS[name], map_free_vars=True)


def test_what_follows_a_reshaped_product_is_done_with_it() -> None:
    def build(e: Any, r: Any, x: Any) -> Any:
        y = e(op.reshape(e(op.matmul(x, const(r, 6, 8))), (1, 4, 8)))
        risen = e(op.add(e(op.erf(e(op.divide(y, relax.const(2**0.5))))), relax.const(1.0)))
        y = e(op.multiply(e(op.multiply(y, risen)), relax.const(0.5)))
        return e(op.matmul(e(op.reshape(y, (4, 8))), const(r, 8, 3)))

    mod = net(build, (4, 6))
    made = compile_module(mod, ["onednn"])
    assert [len(t.ops) for t in made.dispatched.taken] == [6, 1]
    assert made.dispatched.left == ()
    x = np.random.default_rng(0).standard_normal((4, 6)).astype("float32")
    found = made.machine()["main"](tvm.runtime.tensor(x)).numpy()
    np.testing.assert_allclose(found, run(mod, [x])[0], rtol=1e-4, atol=1e-5)
