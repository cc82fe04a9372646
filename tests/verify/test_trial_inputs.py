"""Inputs of trial runs: seeded, and such that a program goes the way that it tests for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax

from opinfo.verify.trial_inputs import trial_inputs

ops = relax.op


def module(build: Any, dtype: str = "int64", shape: tuple[int, ...] = ()) -> Any:
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    rate = relax.Var("rate", relax.TensorType(shape, dtype))
    with bb.function("main", [x, rate]):
        bb.emit_func_output(bb.emit(build(bb.emit, rate)))
    return bb.get()


def equal(value: Any, number: int, dtype: str = "int64") -> Any:
    return ops.equal(value, relax.const(number, dtype))


def rate(mod: Any) -> list[float]:
    return trial_inputs(mod, 0)[1].reshape(-1).tolist()


def test_an_integer_is_what_it_is_tested_for() -> None:
    assert rate(module(lambda emit, r: equal(r, 16000))) == [16000]


def test_the_first_test_decides() -> None:
    def twice(emit: Any, r: Any) -> Any:
        return ops.logical_or(emit(equal(r, 16000)), emit(equal(r, 8000)))

    assert rate(module(twice)) == [16000]


def test_casts_and_reshapes_are_looked_through() -> None:
    def moved(emit: Any, r: Any) -> Any:
        return ops.equal(relax.const(7, "int32"), emit(ops.astype(emit(ops.squeeze(r)), "int32")))

    assert rate(module(moved, shape=(1,))) == [7]


@pytest.mark.parametrize("build", [
    lambda emit, r: ops.equal(r, r),
    lambda emit, r: ops.less(r, relax.const(9, "int64")),
    lambda emit, r: ops.equal(emit(ops.add(r, r)), relax.const(9, "int64")),
])  # fmt: skip
def test_other_integers_are_0_or_1(build: Any) -> None:
    assert set(rate(module(build, shape=(64,)))) == {0, 1}


def test_values_depend_on_the_seed_only() -> None:
    mod = module(lambda emit, r: equal(r, 3))
    first, again, other = (trial_inputs(mod, seed)[0] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
