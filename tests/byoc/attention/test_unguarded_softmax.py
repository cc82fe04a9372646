"""Softmax guards against rows that are masked as a whole: which are dropped, which stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.compile import compile_module
from opinfo.byoc.prepare.prepare import prepare
from opinfo.byoc.prepare.unguarded_softmax import drop_softmax_guards

from ...common.run import run
from ...layout import nets

op, nn = relax.op, relax.op.nn
N = tvm.tirx.Var("n", "int64")
LOW = -np.inf
HEADS = (1, 2, 6, 4)
Scores = Callable[[Any, Any], Any]


def constant(value: Any, dtype: str = "float32") -> Any:
    return relax.const(np.asarray(value, dtype))


def guard(e: Any, x: Any, axis: int = -1, level: float = LOW, exact: bool = False) -> Any:
    """Whether all elements of a row are masked, as torch's importer writes it."""
    masked = e(op.equal(x, constant(level)))
    if exact:
        return e(op.astype(e(op.min(e(op.astype(masked, "int8")), [axis], True)), "bool"))
    some = e(op.max(e(op.astype(e(op.logical_not(masked)), "int8")), [axis], True))
    return e(op.logical_not(e(op.astype(some, "bool"))))


def attended(scores: Scores, fill: float = 0.0, **options: Any) -> Callable[..., Any]:
    """Return what builds attention of a tensor to itself; ``scores(emit, product)`` are guarded."""

    def build(e: Any, r: Any, x: Any) -> Any:
        product = e(op.matmul(x, e(op.permute_dims(x, [0, 1, 3, 2]))))
        masked = scores(e, product)
        weights = e(nn.softmax(masked, -1))
        empty = e(op.full_like(weights, constant(fill)))
        return e(op.matmul(e(op.where(guard(e, masked, **options), empty, weights)), x))

    return build


def attention(scores: Scores, shape: Any = HEADS, **options: Any) -> Any:
    return nets.net(attended(scores, **options), shape, legal=False)


def added(mask: Any) -> Scores:
    return lambda e, x: e(op.add(x, constant(mask)))


def causal(e: Any, x: Any) -> Any:
    """A mask that is computed from positions."""
    places = e(op.arange(0, 6, 1, dtype="int64"))
    rows, columns = (e(op.reshape(places, s)) for s in ((6, 1), (1, 6)))
    seen = e(op.less_equal(columns, rows))
    return e(op.add(e(op.where(seen, constant(0.0), constant(LOW))), x))


def folded_heads(e: Any, x: Any) -> Any:
    """Scores that are scaled, reshaped and masked."""
    scaled = e(op.divide(e(op.multiply(x, constant(0.5))), constant(2.0)))
    return e(op.add(e(op.reshape(scaled, (2, 6, 6))), constant(np.triu(np.full((6, 6), LOW), 1))))


def batched(e: Any, r: Any, x: Any) -> Any:
    product = e(op.matmul(x, e(op.permute_dims(x, [0, 1, 3, 2]))))
    masked = folded_heads(e, product)
    weights = e(nn.softmax(masked, -1))
    return e(op.where(guard(e, masked), e(op.full_like(weights, constant(0.0))), weights))


COLUMN, ROW = np.zeros((6, 6)), np.zeros((6, 6))
COLUMN[:, 2] = LOW
ROW[2] = LOW
DROPPED: dict[str, Any] = {
    "no mask": attention(lambda e, x: e(op.multiply(x, constant(0.5)))),
    "a masked column": attention(added(COLUMN)),
    "a causal mask": attention(causal),
    "a smallest number": attention(added(np.full((6, 6), np.finfo("float32").min))),
    "the smallest of all": attention(added(COLUMN), exact=True),
    "symbolic": attention(lambda e, x: x, (1, 2, N, 4)),
    "reshaped": nets.net(batched, HEADS, legal=False),
}


def _guarded(e: Any, scores: Any) -> Any:
    weights = e(nn.softmax(scores, -1))
    empty = e(op.full_like(weights, constant(0.0)))
    return e(op.where(guard(e, scores), empty, weights))


def _given(e: Any, r: Any, x: Any, mask: Any) -> Any:
    """A mask that is known at run time only."""
    product = e(op.matmul(x, e(op.permute_dims(x, [0, 1, 3, 2]))))
    return _guarded(e, e(op.add(product, mask)))


def _scaled_by_tensor(e: Any, r: Any, x: Any, scale: Any) -> Any:
    product = e(op.matmul(x, e(op.permute_dims(x, [0, 1, 3, 2]))))
    return _guarded(e, e(op.multiply(product, scale)))


def _other_scores(e: Any, r: Any, x: Any) -> Any:
    product = e(op.matmul(x, e(op.permute_dims(x, [0, 1, 3, 2]))))
    weights = e(nn.softmax(product, -1))
    empty = e(op.full_like(weights, constant(0.0)))
    return e(op.where(guard(e, added(ROW)(e, product)), empty, weights))


STAYS: dict[str, Any] = {
    "a masked row": attention(added(ROW)),
    "two masks that leave nothing": attention(
        lambda e, x: added(np.where(COLUMN == 0, LOW, 0))(e, added(COLUMN)(e, x))
    ),
    "a guard of columns": attention(added(COLUMN), axis=-2),
    "a guard of another number": attention(lambda e, x: x, level=0.0),
    "another number in masked rows": attention(lambda e, x: x, fill=1.0),
    "an infinite mask that is turned": attention(
        lambda e, x: e(op.multiply(added(np.full((6, 6), np.inf))(e, x), constant(-1.0)))
    ),
    "scores of another operator": attention(lambda e, x: e(op.log(x))),
    "a mask at run time": nets.net(_given, HEADS, (6, 6), legal=False),
    "a scale at run time": nets.net(_scaled_by_tensor, HEADS, (1,), legal=False),
    "a guard of other scores": nets.net(_other_scores, HEADS, legal=False),
}


def selects(mod: Any) -> int:
    """How many reductions of guards a module has."""
    return sum(1 for line in str(mod).splitlines() if "R.max(" in line or "R.min(" in line)


@pytest.mark.parametrize("name", DROPPED)
def test_a_guard_that_does_nothing_is_dropped(name: str) -> None:
    assert selects(DROPPED[name]) == 1
    assert selects(drop_softmax_guards(DROPPED[name])) == 0


@pytest.mark.parametrize("name", STAYS)
def test_another_guard_stays(name: str) -> None:
    assert selects(drop_softmax_guards(STAYS[name])) == 1


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
def test_the_results_are_those_of_tvm(backend: str) -> None:
    """Guards that are dropped, and one that makes zeros of a row."""
    builds = [attended(scores) for scores in (lambda e, x: x, causal, added(ROW))]

    def build(e: Any, r: Any, x: Any) -> Any:
        return e(relax.Tuple([*(b(e, r, x) for b in builds), batched(e, r, x)]))

    mod = nets.net(build, HEADS, legal=False)
    x = np.random.default_rng(3).standard_normal(HEADS).astype("float32")
    found = compile_module(mod, [backend], plan=False).machine()["main"](tvm.runtime.tensor(x))
    expected = run(mod, [x])
    assert not expected[2][:, :, 2].any()
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=2e-4, atol=2e-5)


def test_prepared_attention_has_no_guard() -> None:
    assert "equal" not in str(prepare(DROPPED["no mask"]))
