"""Groups that need a number and a size that no operand has are fused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from opinfo.byoc.prepare.fuse import fuse
from opinfo.testing.unoptimised import unoptimised

from ...common.prim_funcs import prim_funcs

op = relax.op


def positions(shape_first: bool) -> tvm.IRModule:
    """The positions of x behind those of past: p, p + 1, ..."""
    builder, s, p = relax.BlockBuilder(), tirx.Var("s", "int64"), tirx.Var("p", "int64")
    x = relax.Var("x", relax.TensorType([s], "float32"))
    past = relax.Var("past", relax.TensorType([p, 2], "float32"))
    with builder.function("main", [x, past]):
        with builder.dataflow():
            count = builder.emit(op.arange(0, s, 1, dtype="int64"))
            start = builder.emit(op.arange(p, p + 1, 1, dtype="int64"))
            if shape_first:
                start = builder.emit(op.shape_to_tensor(relax.ShapeExpr([p])))
            out = builder.emit_output(op.add(count, start))
        builder.emit_func_output(out)
    return relax.transform.LegalizeOps()(builder.get())


@pytest.mark.parametrize("shape_first", [False, True])
def test_positions_behind_a_cache(shape_first: bool) -> None:
    mod = positions(shape_first)
    before = mod.script()
    fused = fuse(mod)
    assert mod.script() == before
    assert len(prim_funcs(fused)) == 1
    machine = relax.VirtualMachine(unoptimised(fused), tvm.cpu())
    arguments: list[Any] = [np.zeros(3, "float32"), np.zeros((7, 2), "float32")]
    got = machine["main"](*map(tvm.runtime.tensor, arguments)).numpy()
    np.testing.assert_array_equal(got, [7, 8, 9])
