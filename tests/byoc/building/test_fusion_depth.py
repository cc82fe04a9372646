"""Long chains of operators are fused in parts, as LLVM's time grows faster than their length."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx

from opinfo.byoc.building.cpu_program import cpu_program
from opinfo.byoc.prepare.fuse import DEPTH, MOST, fuse

from .scheduled_modules import run

LENGTH = 2 * MOST + 5


def _chain() -> Any:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((3, 5), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = x
            for k in range(LENGTH):
                y = builder.emit(relax.op.add(y, relax.const(float(k), "float32")))
            out = builder.emit_output(y)
        builder.emit_func_output(out)
    return relax.transform.LegalizeOps()(builder.get())


def _lengths(mod: Any) -> list[int]:
    """How many operators each function has."""
    out = []
    for func in mod.functions.values():
        if isinstance(func, tirx.PrimFunc):
            blocks: list[Any] = []
            tvm_ffi.structural_walk(func.body, (tvm.s_tir.SBlock, blocks.append))
            out.append(len(blocks) - 1)  # without the root
    return sorted(out)


def test_a_function_has_a_limited_number_of_operators() -> None:
    mod = fuse(_chain())
    assert sum(_lengths(mod)) == LENGTH and max(_lengths(mod)) <= MOST
    x = np.random.default_rng(0).standard_normal((3, 5)).astype("float32")
    expected = x + np.float32(LENGTH * (LENGTH - 1) / 2)
    program, _ = cpu_program(mod, tvm.target.Target("llvm"), ())
    np.testing.assert_allclose(run(program, [x]), expected, rtol=1e-4)


def test_an_option_of_the_user_comes_first() -> None:
    with tvm.transform.PassContext(config={DEPTH: LENGTH}):
        assert _lengths(fuse(_chain())) == [LENGTH]
