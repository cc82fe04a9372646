"""Products with the same weights become one: what is merged, what stays, the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relax

from opinfo.byoc.prepare.merging.merge_products import merge_products

from ...common.run import run
from ...layout import nets

op = relax.op
SIZE = 16
WEIGHTS = np.random.default_rng(0).uniform(-1, 1, (SIZE, SIZE)).astype("float32")
BIAS = np.arange(SIZE, dtype="float32")


def _times(e: Any, x: Any, weights: Any = WEIGHTS, bias: Any = BIAS) -> Any:
    """A product with constants of its own, as importers write them."""
    product = e(op.matmul(x, relax.const(weights)))
    return product if bias is None else e(op.add(product, relax.const(bias)))


def _row(e: Any, x: Any, k: int, count: int = 1) -> Any:
    return e(op.strided_slice(x, [0], [k], [k + count], [1]))


def _steps(e: Any, r: Any, x: Any) -> Any:
    """An unrolled recurrence: the inputs' products can be merged, those of the state cannot."""
    state = _row(e, x, 0)
    for k in range(4):
        inputs = _times(e, _row(e, x, k))
        state = e(op.tanh(e(op.add(inputs, _times(e, state, WEIGHTS.T.copy(), None)))))
    return state


def _two_layers(e: Any, r: Any, x: Any) -> Any:
    """The second layer reads all of the first one, in reverse."""
    first = [e(op.tanh(_times(e, _row(e, x, k)))) for k in range(3)]
    return e(op.concat([_times(e, y, -WEIGHTS) for y in reversed(first)], 0))


def _bias_apart(e: Any, r: Any, x: Any) -> Any:
    """A product that is read beside its sum keeps it."""
    parts = []
    for k in range(2):
        product = _times(e, _row(e, x, k), bias=None)
        parts += [product, e(op.add(product, relax.const(BIAS)))]
    return e(op.concat(parts, 0))


def _several_rows(e: Any, r: Any, x: Any) -> Any:
    return e(op.concat([_times(e, _row(e, x, k, k + 1)) for k in range(3)], 0))


def _other_weights(e: Any, r: Any, x: Any) -> Any:
    return e(op.concat([_times(e, _row(e, x, k), WEIGHTS + np.float32(k)) for k in range(3)], 0))


def _other_bias(e: Any, r: Any, x: Any) -> Any:
    return e(op.concat([_times(e, _row(e, x, k), bias=BIAS + k) for k in range(3)], 0))


def _many_rows(e: Any, r: Any, x: Any) -> Any:
    return e(op.concat([_times(e, _row(e, x, 0, 6)) for _ in range(2)], 0))


def _one_after_the_other(e: Any, r: Any, x: Any) -> Any:
    first = _times(e, _row(e, x, 0))
    return e(op.add(_times(e, _row(e, x, 1)), _times(e, e(op.tanh(first)))))


def _crossed(e: Any, r: Any, x: Any) -> Any:
    """Either pair can be merged, but then each product of the other one depends on its twin."""
    first, last = _times(e, _row(e, x, 0)), _times(e, _row(e, x, 1), -WEIGHTS)
    return e(op.add(_times(e, e(op.tanh(first)), -WEIGHTS), _times(e, e(op.tanh(last)))))


#: How many products there are before and after.
NETS: dict[str, tuple[Callable[..., Any], int, int]] = {
    "steps": (_steps, 8, 5),
    "two layers": (_two_layers, 6, 2),
    "bias apart": (_bias_apart, 2, 1),
    "several rows": (_several_rows, 3, 1),
    "other weights": (_other_weights, 3, 3),
    "other bias": (_other_bias, 3, 3),
    "many rows": (_many_rows, 2, 2),
    "crossed": (_crossed, 4, 3),
    "one after the other": (_one_after_the_other, 3, 3),
}


def _calls(mod: Any) -> list[str]:
    values = [b.value for block in mod["main"].body.blocks for b in block.bindings]
    return [v.op.name for v in values if isinstance(v, relax.Call)]


@pytest.mark.parametrize("name", NETS)
def test_products_of_few_rows_are_merged(name: str) -> None:
    build, before, after = NETS[name]
    mod = nets.net(build, (8, SIZE), legal=False)
    merged = relax.transform.DeadCodeElimination()(merge_products(mod))
    counts = [_calls(m).count("relax.matmul") for m in (mod, merged)]
    assert counts == [before, after]
    relax.analysis.well_formed(merged)  # raises
    x = np.random.default_rng(1).uniform(-1, 1, (8, SIZE)).astype("float32")
    np.testing.assert_allclose(run(merged, [x])[0], run(mod, [x])[0], rtol=1e-5, atol=1e-5)


def test_the_bias_is_added_once() -> None:
    merged = merge_products(nets.net(_two_layers, (8, SIZE), legal=False))
    assert _calls(relax.transform.DeadCodeElimination()(merged)).count("relax.add") == 2


def test_nothing_to_merge_changes_nothing() -> None:
    mod = nets.net(_other_weights, (8, SIZE), legal=False)
    assert merge_products(mod)["main"].same_as(mod["main"])
