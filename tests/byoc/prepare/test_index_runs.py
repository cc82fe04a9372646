"""Takes at runs of indices as slices: which ones, and the same elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.prepare.gpu.index_runs import slice_index_runs

from ...common.run import run

SHAPE = (3, 6, 4)


def net(indices: Any, axis: int | None = 1, given: bool = False) -> Any:
    array = np.asarray(indices, "int64")
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    i = relax.Var("i", relax.TensorType(array.shape, "int64")) if given else relax.const(array)
    builder = relax.BlockBuilder()
    with builder.function("main", [x, i] if given else [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.take(x, i, axis))
        builder.emit_func_output(out)
    return builder.get()


SLICED = {
    "a roll": (net([4, 5, 0, 1, 2, 3]), ["strided_slice", "strided_slice", "concat"]),
    "the last axis": (net([1, 2, 3, 0], -1), ["strided_slice", "strided_slice", "concat"]),
    "one run": (net([2, 3, 4]), ["strided_slice"]),
    "one index": (net([5]), ["strided_slice"]),
}
STAYS = {
    "three runs": net([0, 2, 4]),
    "falling": net([5, 4, 3]),
    "outside": net([4, 5, 6]),
    "from the end": net([-2, -1, 0]),
    "a matrix of indices": net([[0, 1], [2, 3]]),
    "indices of the caller": net([4, 5, 0, 1, 2, 3], given=True),
}


@pytest.mark.parametrize("name", SLICED)
def test_runs_are_slices(name: str) -> None:
    before, ops = SLICED[name]
    after = slice_index_runs(before)
    found = [b.value.op.name for b in after["main"].body.blocks[0].bindings]
    assert found == [f"relax.{name}" for name in ops]
    x = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    np.testing.assert_array_equal(run(after, [x])[0], run(before, [x])[0])


def test_a_narrow_index_does_not_wrap_around() -> None:
    x = relax.Var("x", relax.TensorType((300,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit(relax.op.take(x, relax.const(np.array([255, 0], "uint8")), 0))
            out = builder.emit_output(out)
        builder.emit_func_output(out)
    values = np.arange(300, dtype="float32")
    np.testing.assert_array_equal(run(slice_index_runs(builder.get()), [values])[0], [255, 0])


@pytest.mark.parametrize("name", STAYS)
def test_other_gathers_stay(name: str) -> None:
    tvm.ir.assert_structural_equal(slice_index_runs(STAYS[name]), STAYS[name])
