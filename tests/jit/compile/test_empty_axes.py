"""Reductions over no elements by kernels for all shapes: sums are 0 and products 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import opinfo
from opinfo.jit import Aot, Generic, Jit

op = relax.op


def _module() -> Any:
    n = tvm.tirx.Var("n", "int64")
    x, y = (relax.Var(name, relax.TensorType([n, 4], "float32")) for name in "xy")
    block = relax.BlockBuilder()
    with block.function("main", [x, y]):
        with block.dataflow():
            parts = [block.emit(v) for v in (
                op.sum(x, 0), op.prod(x, 0), op.matmul(op.permute_dims(x), y), op.sum(x * y),
            )]  # fmt: skip
            out = block.emit_output(relax.Tuple(parts))
        block.emit_func_output(out)
    return block.get()


@pytest.mark.parametrize("strategy", [Generic(), Jit(), Aot({"n": (1, 4)})], ids=str)
def test_reductions_over_no_rows(strategy: Any) -> None:
    with opinfo.Session(opinfo.compile(_module(), ["tvm"], shapes=strategy)) as session:
        random = np.random.default_rng(0)
        for n in (3, 0, 1, 0):  # not what a call before left in memory
            x, y = (random.random((n, 4), "float32") + 1 for _ in range(2))
            expected = (x.sum(0), x.prod(0), x.T @ y, (x * y).sum())
            for got, value in zip(session(x, y), expected, strict=True):
                np.testing.assert_allclose(got.numpy(), value, rtol=1e-5)
