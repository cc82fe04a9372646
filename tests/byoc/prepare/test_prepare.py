"""Preparation for backends: operators that do nothing are dropped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.matching.lowered import read
from opinfo.byoc.prepare.prepare import prepare

from ...layout import nets

op = relax.op
N = tvm.tirx.Var("n", "int64")


@pytest.mark.parametrize(("shape", "to", "ops"), [
    ((4, 6), (4, 6), ["relax.exp"]),
    ((N, 6), (N, 6), ["relax.exp"]),
    ((1, 6), (4, 6), ["relax.broadcast_to", "relax.exp"]),
    ((6,), (1, 6), ["relax.broadcast_to", "relax.exp"]),
])  # fmt: skip
def test_a_broadcast_to_the_same_shape_is_dropped(
    shape: tuple[Any, ...], to: tuple[Any, ...], ops: list[str]
) -> None:
    mod = nets.net(lambda e, r, x: e(op.exp(e(op.broadcast_to(x, to)))), shape, legal=False)
    lowered = read(prepare(mod), "test")
    assert len(lowered.ops) == len(ops)
    assert lowered.name_of(lowered.ops[-1]) == "relax.exp"


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_a_batch_norm_keeps_its_dtype(dtype: str) -> None:
    """Constants of numpy's float64 became float32, and the product with them failed."""
    rng = np.random.default_rng(0)
    data = rng.standard_normal((1, 4, 2, 3)).astype(dtype)
    gamma, beta, mean, var = (rng.random(4).astype(dtype) + 1 for _ in range(4))
    x = relax.Var("x", relax.TensorType((1, 4, 2, 3), dtype))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            statistics = (relax.const(a, dtype) for a in (gamma, beta, mean, var))
            call = relax.op.nn.batch_norm(x, *statistics, axis=1, epsilon=1e-5, training=False)
            out = builder.emit_output(relax.TupleGetItem(builder.emit(call), 0))
        builder.emit_func_output(out)
    prepared = prepare(builder.get(), ["onnxruntime"])
    machine = relax.VirtualMachine(tvm.compile(prepared, "llvm"), tvm.cpu())
    got = machine["main"](tvm.runtime.tensor(data)).numpy()
    wide = [a.astype("float64").reshape(1, 4, 1, 1) for a in (gamma, beta, mean, var)]
    expected = (data - wide[2]) / np.sqrt(wide[3] + 1e-5) * wide[0] + wide[1]
    assert got.dtype == dtype
    within = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3}[dtype]
    np.testing.assert_allclose(got, expected, rtol=within, atol=within)
