"""Chains whose values would be too large in place of variables are cut at their buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

from opinfo.byoc.codegen.host_target import native_target
from opinfo.byoc.schedule import Refusal, Scheduled, schedule
from opinfo.byoc.schedule.nest.inlining.inlined_size import MOST_USES, inlined_size

LENGTH = 4


def chain() -> Any:
    """The fused PrimFunc of a chain of functions that each use their operand several times."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((40, 6), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for _ in range(LENGTH):
                half = builder.emit(op.multiply(value, relax.const(0.5, "float32")))
                value = builder.emit(op.tanh(builder.emit(op.exp(half))))
            output = builder.emit_output(value)
        builder.emit_func_output(output)
    passes = [relax.transform.LegalizeOps(), relax.transform.FoldConstant(),
              relax.transform.AnnotateTIROpPattern(), relax.transform.FuseOps(),
              relax.transform.FuseTIR()]  # fmt: skip
    mod = tvm.transform.Sequential(passes)(builder.get())
    (func,) = (f for f in mod.functions.values() if isinstance(f, tvm.tirx.PrimFunc))
    return func


def test_a_chain_is_cut_at_its_buffers() -> None:
    result = schedule(chain(), native_target())
    assert isinstance(result, Scheduled) and not result.reasons
    assert inlined_size(result.func.body) <= MOST_USES
    func = result.func.with_attr("global_symbol", "main")
    built = tvm.compile(tvm.IRModule({"main": func}), target=native_target())
    x = expected = np.random.default_rng(0).standard_normal((40, 6)).astype("float32")
    arguments = [tvm.runtime.tensor(x)]
    scalars = [p for p in func.params if not list(p.ty.shape)]
    arguments += [tvm.runtime.tensor(np.asarray(0.5, "float32")) for _ in scalars]
    output = tvm.runtime.tensor(np.zeros((40, 6), "float32"))
    built["main"](*arguments, output)
    for _ in range(LENGTH):
        expected = np.tanh(np.exp(expected / 2))
    np.testing.assert_allclose(output.numpy(), expected, rtol=1e-5)


def test_a_value_of_one_block_is_refused() -> None:
    x = tvm.te.placeholder((40,), name="x")

    def value(i: Any) -> Any:
        out = x[i]
        for _ in range(LENGTH + 1):
            out = tvm.tirx.tanh(tvm.tirx.exp(out))
        return out

    func = tvm.te.create_prim_func([x, tvm.te.compute((40,), value)])
    result = schedule(func.with_attr("tirx.noalias", True), native_target())
    assert isinstance(result, Refusal) and f"expected at most {MOST_USES}" in result.reason
