"""Bounds hold for what a tensor has after rounding, and where an index is outside of an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relax

from opinfo.byoc.matching.lowered import read
from opinfo.byoc.patterns.value_bounds import bounds

from ...common.run import run

op = relax.op
Emit = Callable[[Any], Any]


def _module(build: Callable[[Emit, Any], Any], dtype: str) -> Any:
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((6,), dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(build(builder.emit, x))
        builder.emit_func_output(out)
    return relax.transform.LegalizeOps()(builder.get())


def _rounded(emit: Emit, x: Any, most: int, dtype: str) -> Any:
    return op.astype(emit(op.clip(x, 0, most)), dtype)


def _sum(emit: Emit, x: Any) -> Any:
    """2051 is 2052 in float16, so that the sum is more than 4102."""
    half = emit(_rounded(emit, x, 2051, "float16"))
    return op.add(half, half)


@pytest.mark.parametrize("build", [
    lambda e, x: _rounded(e, x, 2051, "float16"),
    lambda e, x: _rounded(e, x, (1 << 24) + 3, "float32"),
    _sum,
])  # fmt: skip
def test_bounds_are_rounded_as_elements_are(build: Any) -> None:
    mod = _module(build, "int32")
    lowered = read(mod, "test")
    (found,) = run(mod, [np.full(6, 2**31 - 1, "int32")])
    result = lowered.ops[-1].outputs[0]
    within = bounds(result, lowered.infos)
    assert within is not None and float(found.max()) <= within[1]


def test_ends_beyond_float64_are_unknown() -> None:
    """2^53 + 1 is 2^53 in float64, in which bounds are."""
    top = (1 << 53) + 1
    for build in (
        lambda emit, x: op.clip(x, 0, top),
        lambda emit, x: op.add(emit(op.clip(x, 0, top - 1)), relax.const(1, "int64")),
    ):
        lowered = read(_module(build, "int64"), "test")
        assert bounds(lowered.ops[-1].outputs[0], lowered.infos) is None


def test_an_element_outside_may_be_nan() -> None:
    table = relax.const(np.arange(6, dtype="float32"))
    for mode, within in (("nan", None), ("clip", (0.0, 5.0))):
        lowered = read(_module(lambda e, x, m=mode: op.take(table, x, 0, m), "int32"), "test")
        assert bounds(lowered.ops[-1].outputs[0], lowered.infos) == within


@pytest.mark.parametrize("steps", [1, 40])
def test_integers_are_followed_through_the_steps_of_a_loop(steps: int) -> None:
    """A loop that was unrolled joins what it has chosen before; 16 operators were followed."""

    def build(emit: Emit, x: Any) -> Any:
        chosen = emit(op.argmax(x, 0, keepdims=True))
        for _ in range(steps):
            chosen = emit(op.concat([chosen, emit(op.argmax(x, 0, keepdims=True))], 0))
        return op.add(chosen, relax.const(2, "int64"))

    lowered = read(_module(build, "float32"), "test")
    result = lowered.ops[-1].outputs[0]
    assert bounds(result, lowered.infos) == (1.0, 7.0)
