"""Stores of opaque code to buffers without elements, which would write memory of something else."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

from opinfo.byoc.dims.symbolic_dims import bind
from opinfo.byoc.prepare.loops.guard_stores import guard_stores, guarded


@I.ir_module(s_tir=True)
class Before:
    @T.prim_func(s_tir=True)
    def main(x_: T.handle, y_: T.handle) -> None:
        n = T.int64()
        x = T.match_buffer(x_, (n, T.int64(4)))
        y = T.match_buffer(y_, (n, T.int64(4)))
        with T.sblock("scan"):
            T.reads()
            T.writes()
            for j in T.parallel(T.int64(4)):
                y[0, j] = x[0, j]
                for k in range(n - T.int64(1)):
                    y[k + 1, j] = y[k, j] + x[k + 1, j]
        for i, j in T.grid(n, T.int64(4)):
            with T.sblock("double"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(y[vi, vj])
                T.writes(y[vi, vj])
                y[vi, vj] = y[vi, vj] * T.float32(2)


@I.ir_module(s_tir=True)
class Expected:
    @T.prim_func(s_tir=True)
    def main(x_: T.handle, y_: T.handle) -> None:
        n = T.int64()
        x = T.match_buffer(x_, (n, T.int64(4)))
        y = T.match_buffer(y_, (n, T.int64(4)))
        with T.sblock("scan"):
            T.reads()
            T.writes()
            for j in T.parallel(T.int64(4)):
                if T.int64(0) < n:
                    y[0, j] = x[0, j]
                for k in range(n - T.int64(1)):
                    y[k + 1, j] = y[k, j] + x[k + 1, j]
        for i, j in T.grid(n, T.int64(4)):
            with T.sblock("double"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(y[vi, vj])
                T.writes(y[vi, vj])
                y[vi, vj] = y[vi, vj] * T.float32(2)


def test_only_the_store_outside_of_the_loop_over_rows_is_guarded() -> None:
    mod: Any = Before
    before = mod.clone()
    tvm.ir.assert_structural_equal(guard_stores(mod), Expected)
    tvm.ir.assert_structural_equal(mod, before)


def test_buffers_with_elements_stay() -> None:
    mod: Any = Before
    func = bind(mod["main"], {"n": 8})
    assert guarded(func) is func


#: A scan over rows so long that a store past the end reaches other memory or none.
_SCAN = """
import numpy as np, tvm, opinfo
from tvm import relax
n = tvm.tirx.Var("n", "int64")
x = relax.Var("x", relax.TensorType([n, 1 << 20], "float32"))
block = relax.BlockBuilder()
with block.function("main", [x]):
    with block.dataflow():
        out = block.emit_output(block.emit({call}))
    block.emit_func_output(out)
compiled = opinfo.compile(block.get(), [], shapes={shapes})
run = compiled.run if {shapes} is None else opinfo.Session(compiled)
for rows in (2, 0, 1, 0):
    x = np.ones((rows, 1 << 20), "float32")
    np.testing.assert_array_equal(np.from_dlpack(run(x)), x.{name}(0))
"""


@pytest.mark.part
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("shapes", ["None", "opinfo.jit.Generic()", '"jit"'])
def test_scans_of_no_rows_write_nothing(name: str, shapes: str) -> None:
    """In a process of its own, which the stray store would end or corrupt."""
    code = _SCAN.format(call=f"relax.op.{name}(x, 0)", name=name, shapes=shapes)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
