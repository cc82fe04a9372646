"""What a plan must not change: devices, writes, callers outside, names that leave a block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from opinfo.layout import plan_layout
from opinfo.transform import CancelLayoutTransforms

from ...common.prim_funcs import lowered
from ...common.run import run
from .. import nets
from .test_plan import IMAGE, NHWC, names


@pytest.mark.parametrize("strings", [["NHWC", "OHWI"], ["NCHW4c", "OIHW4i4o"]])
def test_values_stay_on_their_devices(strings: list[str]) -> None:
    host = relax.VDevice("llvm")
    bb = relax.BlockBuilder()
    shapes = (1, 3, 8, 8), (8, 3, 3, 3), (1, 8, 6, 6)
    x, w = (relax.Var(n, relax.TensorType(s, "float32", host))
            for n, s in zip("xw", shapes, strict=False))  # fmt: skip
    conv = bb.add_func(lowered(relax.op.nn.conv2d, *shapes[:2]), "conv2d")
    relu = bb.add_func(lowered(relax.op.nn.relu, shapes[2]), "relu")
    ty = relax.TensorType(shapes[2], "float32", host)
    with bb.function("main", [x, w]):
        with bb.dataflow():
            y = bb.emit(relax.call_tir(conv, [x, w], out_ty=ty))
            z = bb.emit_output(relax.call_tir(relu, [y], out_ty=ty))
        bb.emit_func_output(z)
    mod = bb.get()
    mod.update_global_info("vdevice", [host])
    planned = plan_layout(mod, {"conv2d": strings}).module
    bindings = [b for block in planned["main"].body.blocks for b in block.bindings]
    assert len(bindings) == 5
    assert all(b.var.ty.vdevice is not None for b in bindings)


def test_no_memory_is_shared_with_what_is_written_in_place() -> None:
    @I.ir_module(s_tir=True)
    class Module:
        @T.prim_func(private=True, s_tir=True)
        def transpose(a: T.Buffer((1, 4), "float32"), b: T.Buffer((4, 1), "float32")) -> None:
            for i, j in T.grid(4, 1):
                with T.sblock("b"):
                    v, w = T.axis.remap("SS", [i, j])
                    b[v, w] = a[w, v]

        @T.prim_func(private=True, s_tir=True)
        def double(a: T.Buffer((4, 1), "float32")) -> None:
            for i, j in T.grid(4, 1):
                with T.sblock("a"):
                    v, w = T.axis.remap("SS", [i, j])
                    a[v, w] = a[v, w] * T.float32(2)

        @R.function
        def main(x: R.Tensor((1, 4), "float32")) -> R.Tuple(
            R.Tensor((1, 4), "float32"), R.Tensor((4, 1), "float32")
        ):
            cls = Module
            y = R.call_tir(cls.transpose, (x,), out_ty=R.Tensor((4, 1), "float32"))
            z = R.call_tir_inplace(cls.double, (y,), [0], out_ty=R.Tensor((4, 1), "float32"))
            return (x, z)

    planned = plan_layout(Module)
    tvm.ir.assert_structural_equal(planned.module, Module)


def test_a_pin_is_for_functions_that_the_outside_calls() -> None:
    @I.ir_module
    class Module:
        @R.function(private=True)
        def sub(x: R.Tensor((4, 4, 4, 4), "float32")) -> R.Tensor((4, 4, 4, 4), "float32"):
            with R.dataflow():
                y = R.nn.softmax(x, axis=1)
                R.output(y)
            return y

        @R.function
        def main(x: R.Tensor((4, 4, 4, 4), "float32")) -> R.Tensor((4, 4, 4, 4), "float32"):
            cls = Module
            y = cls.sub(x)
            return y

    mod = relax.transform.LegalizeOps()(Module)
    planned = plan_layout(mod, pins={"x": "NHWC"})
    tvm.ir.assert_structural_equal(planned.module["sub"], mod["sub"])
    x = np.random.default_rng(0).standard_normal((4, 4, 4, 4)).astype("float32")
    (want,) = run(mod, [x])
    (got,) = run(relax.transform.LegalizeOps()(planned.module), [x.transpose(0, 2, 3, 1).copy()])
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_values_that_leave_a_dataflow_block_under_another_name() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(
            x: R.Tensor((1, 4, 4, 4), "float32"),
            c: R.Tensor((), "bool"),
            w: R.Tensor((4, 4, 3, 3), "float32"),
        ) -> R.Tensor((1, 4, 4, 4), "float32"):
            with R.dataflow():
                y = R.nn.conv2d(x, w, padding=[1, 1, 1, 1])
                g = y
                R.output(g)
            if c:
                z = R.nn.conv2d(g, w, padding=[1, 1, 1, 1])
            else:
                z = R.nn.relu(g)
            return z

    mod = relax.transform.LegalizeOps()(Module)
    for desired in (NHWC, {}):
        planned = plan_layout(mod, desired)
        relax.analysis.well_formed(planned.module)
    x, w = (np.random.default_rng(0).standard_normal(s).astype("float32")
            for s in ((1, 4, 4, 4), (4, 4, 3, 3)))  # fmt: skip
    planned = plan_layout(mod, NHWC)
    for c in (True, False):
        args = [x, np.array(c), w]
        for a, b in zip(run(mod, args), run(relax.transform.LegalizeOps()(planned.module), args),
                        strict=True):  # fmt: skip
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_weights_that_are_returned() -> None:
    def build(emit: Any, rng: Any, x: Any) -> Any:
        return emit(relax.Tuple([emit(relax.op.add(x, x)), x]))

    mod = nets.net(build, IMAGE)
    mod = tvm.IRModule({g: f.with_attr("num_input", 0) if isinstance(f, relax.Function) else f
                        for g, f in mod.functions_items()})  # fmt: skip
    planned = plan_layout(mod, pins={"x0": "NHWC"})
    relax.analysis.well_formed(planned.module)


def test_nothing_is_cancelled_across_a_write_in_place() -> None:
    @I.ir_module(s_tir=True)
    class Module:
        @T.prim_func(private=True, s_tir=True)
        def double(a: T.Buffer((2, 3), "float32")) -> None:
            for i, j in T.grid(2, 3):
                with T.sblock("a"):
                    v, w = T.axis.remap("SS", [i, j])
                    a[v, w] = a[v, w] * T.float32(2)

        @R.function
        def main(x: R.Tensor((2, 3), "float32")) -> R.Tuple(
            R.Tensor((2, 3), "float32"), R.Tensor((2, 3), "float32")
        ):
            cls = Module
            y = R.exp(x)
            t = R.permute_dims(y)
            z = R.call_tir_inplace(cls.double, (y,), [0], out_ty=R.Tensor((2, 3), "float32"))
            u = R.permute_dims(t)
            return (z, u)

    assert names(CancelLayoutTransforms()(Module)).count("relax.permute_dims") == 2


def test_conversions_that_undo_each_other_go() -> None:
    def build(emit: Any, rng: Any, x: Any) -> Any:
        y = emit(relax.op.permute_dims(x, [0, 2, 3, 1]))
        return emit(relax.op.permute_dims(y, [0, 3, 1, 2]))

    mod = CancelLayoutTransforms()(nets.net(build, IMAGE, legal=False))
    assert not names(mod)


def test_equal_shapes_alone_do_not_cancel_transforms() -> None:
    def build(emit: Any, rng: Any, x: Any) -> Any:
        y = emit(relax.op.layout_transform(x, index_map=lambda i, j: (j, i)))
        return emit(relax.op.layout_transform(y, index_map=lambda i, j: (i, j)))

    mod = CancelLayoutTransforms()(nets.net(build, (4, 4), legal=False))
    assert names(mod) == ["relax.layout_transform"] * 2
