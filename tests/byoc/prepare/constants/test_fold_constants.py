"""What depends on constants only is computed with one build; TVM's FoldConstant is the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import opinfo
from opinfo.analysis.support.tvm_compat import array_of
from opinfo.byoc.prepare.constants.fold_constants import fold_constants

ops = relax.op
Emit = Callable[[Any], Any]


def weights(*shape: int, dtype: str = "float32") -> Any:
    return relax.const(np.random.default_rng(sum(shape)).uniform(1, 9, shape).astype(dtype))


def module(operand: Callable[[Emit], Any], in_dataflow: bool = True) -> Any:
    """A module that adds a tensor of (8, 8) to its input."""
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((8, 8), "float32"))
    with bb.function("main", [x]):
        if in_dataflow:
            with bb.dataflow():
                out = bb.emit_output(ops.add(x, operand(bb.emit)))
        else:
            out = bb.emit(ops.add(x, operand(bb.emit)))
        bb.emit_func_output(out)
    return bb.get()


def norm(emit: Emit) -> Any:
    root = emit(ops.rsqrt(emit(ops.add(weights(8), relax.const(1e-5, "float32")))))
    scale = emit(ops.expand_dims(emit(ops.multiply(weights(8), root)), 1))
    return emit(ops.multiply(emit(ops.permute_dims(weights(8, 8))), scale))


def joined(emit: Emit) -> Any:
    halves = emit(ops.concat([weights(4, 8), emit(ops.reshape(weights(8, 4), (4, 8)))], 0))
    return emit(ops.where(emit(ops.greater(halves, weights(8, 8))), halves, weights(8, 8)))


def cast(emit: Emit) -> Any:
    rows = emit(ops.astype(weights(8, dtype="int64"), "float16"))
    return emit(ops.astype(emit(ops.broadcast_to(rows, (8, 8))), "float32"))


def parts(emit: Emit) -> Any:
    """A tuple, which stays with FoldConstant, and what is computed from it."""
    both = emit(ops.split(weights(8, 16), 2, 1))
    return emit(ops.multiply(emit(relax.TupleGetItem(both, 0)), norm(emit)))


CASES = [norm, joined, cast, parts]


@pytest.mark.parametrize("operand", CASES)
def test_the_result_is_that_of_tvm(operand: Callable[[Emit], Any]) -> None:
    mod = module(operand)
    expected = relax.transform.DeadCodeElimination()(relax.transform.FoldConstant()(mod))
    tvm.ir.assert_structural_equal(fold_constants(mod), expected)


@pytest.mark.parametrize("operand", CASES)
def test_the_input_is_not_changed(operand: Callable[[Emit], Any]) -> None:
    mod = module(operand)
    fold_constants(mod)
    tvm.ir.assert_structural_equal(mod, module(operand))


def test_bindings_outside_dataflow_are_folded() -> None:
    (binding,) = fold_constants(module(norm, in_dataflow=False))["main"].body.blocks[0].bindings
    assert binding.value.op.name == "relax.add"


def test_calls_that_are_alike_are_built_once_and_cheaply(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[tuple[int, int]] = []
    compiled = tvm.compile

    def compile(mod: Any, target: Any, **options: Any) -> Any:
        level = tvm.target.Target(target).attrs["opt-level"]
        built.append((len(mod.functions_items()), int(level)))
        return compiled(mod, target=target, **options)

    monkeypatch.setattr(tvm, "compile", compile)

    def many(emit: Emit) -> Any:
        total = emit(ops.permute_dims(weights(8, 8)))
        for _ in range(20):
            total = emit(ops.add(total, emit(ops.permute_dims(weights(8, 8)))))
        return total

    fold_constants(module(many))
    assert built == [(2, 1)]  # each function runs once


def added(mod: Any) -> Any:
    """The constant that main adds to its input, as all that it does."""
    (binding,) = fold_constants(mod)["main"].body.blocks[0].bindings
    return array_of(binding.value.args[1]).numpy()


def test_ranges_are_folded() -> None:
    mod = module(lambda emit: emit(ops.astype(emit(ops.arange(0, 8, 1, "int64")), "float32")))
    np.testing.assert_array_equal(added(mod), np.arange(8))


def test_a_large_creator_is_folded_into_what_is_small() -> None:
    def tall(emit: Emit) -> Any:
        return emit(ops.matmul(weights(8, 2048), emit(ops.ones((2048, 8), "float32"))))

    sums = array_of(weights(8, 2048)).numpy().sum(1, keepdims=True)
    np.testing.assert_allclose(added(module(tall)), np.repeat(sums, 8, 1), rtol=1e-4)


def test_a_large_creator_that_others_read_stays() -> None:
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((64, 64), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            ones = bb.emit(ops.ones((64, 64), "float32"))
            out = bb.emit_output(ops.add(x, ones))
        bb.emit_func_output(out)
    mod = bb.get()
    tvm.ir.assert_structural_equal(fold_constants(mod), mod)


@tvm.script.ir_module
class OfAnotherDevice:
    """Two functions of a constant, one of which is only for a GPU."""

    @T.prim_func(s_tir=True)
    def twice(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")) -> None:
        for i in range(8):
            with T.sblock("b"):
                v = T.axis.spatial(8, i)
                b[v] = a[v] * T.float32(2)

    @T.prim_func(s_tir=True)
    def on_gpu(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")) -> None:
        for i in T.thread_binding(8, thread="threadIdx.x"):
            with T.sblock("b"):
                v = T.axis.spatial(8, i)
                b[v] = a[v] + T.float32(1)

    @R.function
    def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        cls = OfAnotherDevice
        with R.dataflow():
            a = R.call_tir(cls.twice, (R.const(np.arange(8, dtype="float32")),),
                           out_ty=R.Tensor((8,), "float32"))  # fmt: skip
            b = R.call_tir(cls.on_gpu, (a,), out_ty=R.Tensor((8,), "float32"))
            y = R.add(x, b)
            R.output(y)
        return y


def test_a_function_of_another_device_costs_only_itself() -> None:
    first, *_ = fold_constants(OfAnotherDevice)["main"].body.blocks[0].bindings
    (folded,) = first.value.args[1].fields
    assert first.value.args[0].name_hint == "on_gpu"
    np.testing.assert_array_equal(array_of(folded).numpy(), 2 * np.arange(8))


def test_operators_are_not_lowered_where_nothing_is_left_to_fold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """FoldConstant lowers each operator; splits of constants and shapes still need it."""
    expected = [fold_constants(module(operand)) for operand in CASES]
    ran: list[int] = []
    run = relax.transform.FoldConstant

    def counted() -> Any:
        ran.append(0)
        return run()

    monkeypatch.setattr(relax.transform, "FoldConstant", counted)
    for operand, before in zip(CASES, expected, strict=True):
        tvm.ir.assert_structural_equal(fold_constants(module(operand)), before)
        assert len(ran) == (operand is parts)
        ran.clear()

    def sized(emit: Emit) -> Any:
        shape = emit(ops.shape_to_tensor(relax.ShapeExpr([8, 8])))
        return emit(ops.broadcast_to(weights(8), emit(ops.tensor_to_shape(shape))))

    fold_constants(module(sized))
    assert ran == [0]


def test_a_constant_index_that_is_outside_counts_where_it_is_read() -> None:
    """Folding constants computed the check of a branch that no call takes."""

    @I.ir_module
    class Branch:
        @R.function
        def main(c: R.Tensor((), "bool"), t: R.Tensor((9, 2), "float32")) -> R.Tensor(
            (2, 2), "float32"
        ):
            if c:
                i = R.add(R.const([1, 20], "int64"), R.const([1, 20], "int64"))
                y = R.take(t, i, axis=0)
            else:
                y = R.strided_slice(t, axes=[0], begin=[0], end=[2])
            return y

    compiled, table = opinfo.compile(Branch, []), np.arange(18, dtype="float32").reshape(9, 2)
    np.testing.assert_array_equal(compiled.run(np.array(False), table), table[:2])
    with pytest.raises(ValueError, match="take at an element that is outside of its axis"):
        compiled.run(np.array(True), table)


def test_a_slice_whose_size_is_data_stays_beside_a_size_that_becomes_a_tensor() -> None:
    """TVM's pass wrote a call of a PrimFunc that it did not add."""
    bb = relax.BlockBuilder()
    n, m = (tvm.tirx.Var(name, "int64") for name in "nm")
    x, end = (relax.Var(name, relax.TensorType([size], "int64"))
              for name, size in (("x", n), ("end", 1)))  # fmt: skip
    with bb.function("main", [x, end]):
        with bb.dataflow():
            first, step = (bb.emit(relax.const([k], "int64")) for k in (0, 1))
            part = bb.match_cast(bb.emit(ops.dynamic_strided_slice(x, first, end, step)),
                                 relax.TensorType([m], "int64"))  # fmt: skip
            size = bb.emit(ops.shape_to_tensor(relax.ShapeExpr([n])))
            out = bb.emit_output(ops.add(part, size))
        bb.emit_func_output(out)
    compiled = opinfo.compile(bb.get(), [])
    np.testing.assert_array_equal(compiled.run(np.arange(5), np.array([3])), [5, 6, 7])
