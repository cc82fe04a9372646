"""Functions with impure calls: no copy of a value that a call may write into."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tvm import relax, tirx
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from opinfo.layout import plan_layout
from opinfo.layout.graph.side_effects import Effect, SideEffects
from tests import scaling
from tests.common.run import run


@pytest.fixture(autouse=True)
def _scale() -> Iterator[None]:
    with scaling.registered():
        yield


@I.ir_module(s_tir=True)
class Lowered:
    @T.prim_func(private=True, s_tir=True)
    def tall(
        x: T.Buffer((T.int64(4), T.int64(6)), "float32"),
        y: T.Buffer((T.int64(6), T.int64(4)), "float32"),
    ) -> None:
        for i, j in T.grid(T.int64(6), T.int64(4)):
            with T.sblock("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = x[vj, vi]

    @T.prim_func(private=True, s_tir=True)
    def product(
        x: T.Buffer((T.int64(4), T.int64(6)), "float32"),
        w: T.Buffer((T.int64(6), T.int64(4)), "float32"),
        y: T.Buffer((T.int64(4), T.int64(4)), "float32"),
    ) -> None:
        for i, j, k in T.grid(T.int64(4), T.int64(4), T.int64(6)):
            with T.sblock("b"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    y[vi, vj] = T.float32(0)
                y[vi, vj] = y[vi, vj] + x[vi, vk] * w[vk, vj]

    @R.function(pure=False, private=True)
    def scaled(x: R.Tensor((4, 6), "float32")) -> R.Tensor((4, 6), "float32"):
        y = R.call_packed("opinfo.tests.scale_in_place", x, ty_args=R.Tensor((4, 6), "float32"))
        return y


def module(*, middle: str, pure: bool = False) -> Any:
    """Two transposes of one tensor, before and after a call."""
    cls: Any = Lowered
    builder = relax.BlockBuilder(cls)
    tensor = relax.TensorType((4, 6), "float32")
    tall = relax.TensorType((6, 4), "float32")
    x = relax.Var("x", tensor)
    with builder.function("main", [x], pure=pure):
        before = builder.emit(relax.call_tir(cls.get_global_var("tall"), (x,), tall))
        alias = builder.emit(x)
        call = {
            "packed": lambda: scaling.scaled(alias),
            "function": lambda: relax.Call(cls.get_global_var("scaled"), [x]),
            "operator": lambda: relax.op.add(x, x),
        }[middle]()
        builder.emit(call)
        after = builder.emit(relax.call_tir(cls.get_global_var("tall"), (x,), tall))
        square = relax.TensorType((4, 4), "float32")
        total = builder.emit(relax.call_tir(cls.get_global_var("product"), (x, after), square))
        builder.emit_func_output(relax.Tuple([before, after, total]))
    return builder.get()


def conversions(mod: Any) -> int:
    """The permutations in a module, which are copies in another layout."""
    return str(mod["main"]).count("R.permute_dims")


@pytest.mark.parametrize("middle", ["packed", "function"])
def test_a_call_that_writes_is_seen_by_later_reads(middle: str) -> None:
    mod = module(middle=middle)
    x = np.arange(24, dtype="float32").reshape(4, 6)
    want = run(mod, (x,))
    np.testing.assert_array_equal(want[1], 2 * want[0] + 1)  # the call did write
    for left, right in zip(want, run(plan_layout(mod).module, (x,)), strict=True):
        np.testing.assert_array_equal(left, right)


def test_a_pure_call_leaves_layouts_free() -> None:
    mod = module(middle="operator", pure=True)
    assert conversions(plan_layout(mod).module) == 1


def test_a_parameter_that_is_written_is_not_pinned() -> None:
    with pytest.raises(ValueError, match="pins: main cannot be pinned: it has impure calls"):
        plan_layout(module(middle="packed"), pins={"x": "ba"})


def test_a_requested_layout_that_would_be_a_copy_is_refused_with_the_reason() -> None:
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((1, 4, 6, 6), "float32"))
    kernel = relax.const(np.ones((8, 4, 3, 3), "float32"))
    with builder.function("main", [x], pure=False):
        builder.emit(scaling.scaled(x))
        builder.emit_func_output(builder.emit(relax.op.nn.conv2d(x, kernel)))
    mod = relax.transform.LegalizeOps()(builder.get())
    (choice,) = plan_layout(mod, {"nn.conv2d": ["NHWC", "OHWI"]}).report.ops
    assert choice.why.endswith("requested in NHWC OHWI, but an impure call may write into x")


@I.ir_module
class Ring:
    @R.function(pure=False)
    def first(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Ring
        y = cls.second(x)
        z = R.call_packed("opinfo.tests.scale_in_place", y, ty_args=R.Tensor((4,), "float32"))
        return z

    @R.function(pure=False)
    def second(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Ring
        y = cls.first(x)
        return y

    @R.function
    def alone(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Ring
        y = cls.alone(x)
        return y


def test_functions_that_call_each_other_have_one_effect() -> None:
    """The effect of a ring is that of all its functions, wherever it is entered first."""
    for names in (("first", "second"), ("second", "first")):
        effects = SideEffects(Ring)
        assert [effects.of_function(Ring[name]) for name in names] == [Effect.IMPURE] * 2
    assert SideEffects(Ring).of_function(Ring["alone"]) == Effect.NONE


def test_foreign_code_counts_as_pure_only_as_declared() -> None:
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    extern, effects = relax.ExternFunc("clear"), SideEffects(Ring)
    call = relax.op.call_builtin_with_ctx(extern, (x,), ty_args=[x.ty])
    assert effects.of(call) == Effect.IMPURE
    declared = relax.op.call_pure_packed(extern, x, ty_args=[x.ty])
    assert effects.of(declared) == Effect.DECLARED_PURE
    for harmless in (relax.op.print(x, format="{}"), relax.op.permute_dims(x)):
        assert effects.of(harmless) == Effect.NONE


def test_numbers_of_sizes_have_no_effect() -> None:
    """A size that is chosen, as of an optional slice, is a call of an operator of TIR."""
    n = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n,), "float32"))
    size = tirx.if_then_else(n > 4, tirx.IntImm("int64", 4), n)
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(relax.op.zeros(relax.ShapeExpr([size]), "float32")))
    mod = bb.get()
    assert SideEffects(mod).of_function(mod["main"]) is Effect.NONE
