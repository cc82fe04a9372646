# mypy: disable-error-code="no-untyped-def"
"""Casts that several kernels read are repeated in each, where they widen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from opinfo.byoc.backends.nvidia.passes.casts_by_reader import casts_by_reader
from opinfo.byoc.backends.nvidia.passes.fuse_rows import fuse_rows
from opinfo.byoc.prepare.fuse import fuse


def lowered(build: Any, dtype: str, rows: Any = 6) -> Any:
    """A module of PrimFuncs: what ``build`` emits of x and r."""
    xs = [relax.Var(name, relax.TensorType((rows, 64), dtype)) for name in "xr"]
    bb = relax.BlockBuilder()
    with bb.function("main", xs):
        with bb.dataflow():
            out = bb.emit_output(build(bb.emit, *xs))
        bb.emit_func_output(out)
    return relax.transform.LegalizeOps()(bb.get())


def two_readers(emit: Any, x: Any, r: Any, wide: str = "float32") -> Any:
    a = emit(relax.op.astype(x, wide))
    return emit(relax.Tuple([emit(relax.op.add(a, a)), emit(relax.op.nn.softmax(a))]))


def stored(mod: Any) -> list[str]:
    """The dtypes of the results of all calls, after fusion."""
    bindings = [b for block in mod["main"].body.blocks for b in block.bindings]
    return [str(b.var.ty.dtype) for b in bindings if isinstance(b.var.ty, relax.TensorType)]


def test_a_cast_is_repeated_for_each_reader_and_once_for_one() -> None:
    @I.ir_module
    class Before:
        @T.prim_func(private=True, s_tir=True)
        def cast(x: T.Buffer((8,), "float16"), y: T.Buffer((8,), "float32")):
            T.func_attr({"tirx.noalias": True})
            for i in range(8):
                with T.sblock("y"):
                    v = T.axis.spatial(8, i)
                    y[v] = T.Cast("float32", x[v])

        @T.prim_func(private=True, s_tir=True)
        def square(x: T.Buffer((8,), "float32"), z: T.Buffer((8,), "float32"),
                   y: T.Buffer((8,), "float32")):  # fmt: skip
            T.func_attr({"tirx.noalias": True})
            for i in range(8):
                with T.sblock("y"):
                    v = T.axis.spatial(8, i)
                    y[v] = x[v] * z[v]

        @R.function
        def main(x: R.Tensor((8,), "float16")):
            cls = Before
            with R.dataflow():
                a = R.call_tir(cls.cast, (x,), out_ty=R.Tensor((8,), "float32"))
                b = R.call_tir(cls.square, (a, a), out_ty=R.Tensor((8,), "float32"))
                c = R.call_tir(cls.square, (b, a), out_ty=R.Tensor((8,), "float32"))
                R.output(c)
            return c

    @I.ir_module
    class Expected:
        @T.prim_func(private=True, s_tir=True)
        def cast(x: T.Buffer((8,), "float16"), y: T.Buffer((8,), "float32")):
            T.func_attr({"tirx.noalias": True, "op_pattern": 0})
            for i in range(8):
                with T.sblock("y"):
                    v = T.axis.spatial(8, i)
                    y[v] = T.Cast("float32", x[v])

        @T.prim_func(private=True, s_tir=True)
        def square(x: T.Buffer((8,), "float32"), z: T.Buffer((8,), "float32"),
                   y: T.Buffer((8,), "float32")):  # fmt: skip
            T.func_attr({"tirx.noalias": True, "op_pattern": 0})
            for i in range(8):
                with T.sblock("y"):
                    v = T.axis.spatial(8, i)
                    y[v] = x[v] * z[v]

        @R.function
        def main(x: R.Tensor((8,), "float16")):
            cls = Expected
            with R.dataflow():
                a0 = R.call_tir(cls.cast, (x,), out_ty=R.Tensor((8,), "float32"))
                b = R.call_tir(cls.square, (a0, a0), out_ty=R.Tensor((8,), "float32"))
                a1 = R.call_tir(cls.cast, (x,), out_ty=R.Tensor((8,), "float32"))
                c = R.call_tir(cls.square, (b, a1), out_ty=R.Tensor((8,), "float32"))
                R.output(c)
            return c

    tvm.ir.assert_structural_equal(casts_by_reader(Before), Expected)
    tvm.ir.assert_structural_equal(casts_by_reader(Expected), Expected)


@pytest.mark.parametrize("rows", [6, tvm.tirx.Var("n", "int64")])
def test_halves_that_two_kernels_read_are_not_stored_as_float32(rows: Any) -> None:
    mod = lowered(two_readers, "float16", rows)
    assert stored(fuse_rows(fuse(mod))).count("float32") == 3
    assert stored(fuse_rows(fuse(casts_by_reader(mod)))).count("float32") == 2


def test_a_cast_that_narrows_is_stored_once() -> None:
    mod = lowered(lambda e, x, r: two_readers(e, x, r, "float16"), "float32")
    before = relax.transform.AnnotateTIROpPattern()(mod)
    tvm.ir.assert_structural_equal(casts_by_reader(mod), before)


def test_the_result_is_equal() -> None:
    mod = lowered(two_readers, "float16")
    x = np.random.default_rng(0).standard_normal((6, 64)).astype("float16")
    found = []
    for each in (mod, casts_by_reader(mod)):
        vm = relax.VirtualMachine(tvm.compile(each, target="llvm"), tvm.cpu())
        found.append([t.numpy() for t in vm["main"](*[tvm.runtime.tensor(x)] * 2)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_cast_of_what_a_block_keeps_is_not_repeated_behind_it() -> None:
    x = relax.Var("x", relax.TensorType((6, 64), "float16"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            kept = bb.emit(relax.op.negative(x))
            cast = bb.emit_output(relax.op.astype(kept, "float32"))
            first = bb.emit_output(relax.op.add(cast, cast))
        second = bb.emit(relax.op.nn.softmax(cast))
        bb.emit_func_output(relax.Tuple([first, second]))
    mod = relax.transform.LegalizeOps()(bb.get())
    relax.analysis.well_formed(casts_by_reader(mod))
