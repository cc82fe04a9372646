"""No build reads memory that nothing has written; numpy is the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION, array_of
from opinfo.byoc.codegen.executable import executable
from opinfo.byoc.prepare.constants.fold_constants import fold_constants
from opinfo.byoc.prepare.unwritten.defined_loops import single_elements
from tests.common.stale_memory import stale_memory

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
LEVEL_0 = tvm.target.Target({"kind": "llvm", "opt-level": 0})
ops = relax.op


@T.prim_func(s_tir=True, private=True)
def behind(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")) -> None:
    """`y = 2 x`, which reads its factor behind a buffer of one element, as TVM's attention does."""
    with T.sblock("scaled"):
        factor = T.sblock_alloc_buffer((1,), "float32")
        factor[0] = T.float32(2)
        for k in T.serial(64):
            y[k] = x[k] * factor[k]


@T.prim_func(s_tir=True, private=True)
def inside(x: T.Buffer((1,), "float32"), y: T.Buffer((64,), "float32")) -> None:
    """Reads one element of a parameter at any index, one at index 0, and one of several."""
    with T.sblock("scaled"):
        factor = T.sblock_alloc_buffer((1,), "float32")
        factors = T.sblock_alloc_buffer((64,), "float32")
        factor[0] = T.float32(2)
        for k in T.serial(64):
            factors[k] = T.float32(3)
            for one in T.serial(1):
                y[k] = x[k] * factor[one] * factor[0] * factors[k]


@T.prim_func(s_tir=True, private=True)
def viewed(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")) -> None:
    """Reads a parameter through a view of one element, behind which are others."""
    with T.sblock("scaled"):
        first = T.decl_buffer((1,), "float32", data=x.data)
        for k in T.serial(64):
            y[k] = first[k] * T.float32(2)


def called(func: Any, size: int) -> tvm.IRModule:
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((size,), "float32"))
    with bb.function("main", [x]):
        gvar = bb.add_func(func, "scaled")
        out = bb.emit(relax.call_tir(gvar, [x], out_ty=relax.TensorType((64,), "float32")))
        bb.emit_func_output(out)
    return bb.get()


def test_a_buffer_of_one_element_is_read_at_it() -> None:
    machine = relax.VirtualMachine(executable(called(behind, 64), LEVEL_0), tvm.cpu())
    x = np.arange(64, dtype="float32")
    np.testing.assert_array_equal(machine["main"](tvm.runtime.tensor(x)).numpy(), 2 * x)


@pytest.mark.parametrize(("func", "size"), [(inside, 1), (viewed, 64)])
def test_other_reads_stay(func: Any, size: int) -> None:
    mod = called(func, size)
    assert single_elements(mod) is mod


def empty_sum(emit: Any) -> Any:
    """A convolution of no channels, of constants."""
    a, b = (relax.const(np.zeros(s, "float32")) for s in ((1, 0, 40), (30, 0, 1)))
    return emit(ops.squeeze(emit(ops.nn.conv1d(a, b)), 0))


def maximum(emit: Any) -> Any:
    """The maximum of NaN and 1, which is NaN, as in code that runs."""
    a, b = (relax.const(np.full((30, 40), v, "float32")) for v in (np.nan, 1))
    return emit(ops.maximum(a, b))


@pytest.mark.parametrize(("operand", "value"), [(empty_sum, 0.0), (maximum, np.nan)])
def test_constants_are_folded_as_code_computes_them(operand: Any, value: float) -> None:
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((30, 40), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(ops.add(x, operand(bb.emit)))
        bb.emit_func_output(out)
    with stale_memory():
        folded = fold_constants(bb.get())
    (binding,) = folded["main"].body.blocks[0].bindings
    np.testing.assert_array_equal(array_of(binding.value.args[1]).numpy(), np.full((30, 40), value))


def test_a_function_that_does_not_build_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = tvm.compile

    def compile(mod: Any, **options: Any) -> Any:
        if len(mod.functions_items()) > 1:
            raise RuntimeError("one of them is for a GPU")
        return compiled(mod, **options)

    monkeypatch.setattr(tvm, "compile", compile)
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((30, 40), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            both = bb.emit(ops.multiply(empty_sum(bb.emit), maximum(bb.emit)))
            out = bb.emit_output(ops.add(x, both))
        bb.emit_func_output(out)
    with stale_memory():
        (binding,) = fold_constants(bb.get())["main"].body.blocks[0].bindings
    assert np.isnan(array_of(binding.value.args[1]).numpy()).all()


def test_a_model_is_verified_against_sums_of_nothing() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(
            x: R.Tensor((1, 2, 40), "float32"), w: R.Tensor((30, 0, 1), "float32")
        ) -> R.Tensor((1, 30, 40), "float32"):
            with R.dataflow():
                none = R.strided_slice(x, axes=[1], begin=[0], end=[0])
                y = R.nn.conv1d(none, w)
                R.output(y)
            return y

    compiled = opinfo.compile(Module, [])
    with stale_memory():
        out = compiled.run(np.ones((1, 2, 40), "float32"), np.ones((30, 0, 1), "float32"))
        np.testing.assert_array_equal(out, np.zeros((1, 30, 40)))
        assert compiled.verify(Module).difference == 0
