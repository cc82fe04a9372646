"""Fused PrimFuncs are read as the operators that were fused."""

from __future__ import annotations

import pytest
import tvm
from tvm import relax, tirx
from tvm.script import relax as R
from tvm.script import tirx as T

from benchmarks.analysis.fused import measure
from opinfo.analysis import (
    Chain,
    OpaqueStep,
    PartlyRead,
    Refusal,
    Step,
    StepResult,
    op_info,
    op_infos,
)
from opinfo.testing.strip import strip
from tests.common.compose import differs
from tests.common.prim_funcs import fused, prim_funcs


def fuse(mod: tvm.IRModule) -> tirx.PrimFunc:
    """The one PrimFunc of a module after fusion, without its names."""
    (func,) = prim_funcs(fused(mod))
    return strip(func)


@tvm.script.ir_module
class Conv:
    @R.function
    def main(
        x: R.Tensor((1, 4, 8, 8), "float32"),
        w: R.Tensor((6, 2, 3, 3), "float32"),
        b: R.Tensor((1, 6, 1, 1), "float32"),
    ) -> R.Tensor((1, 6, 4, 4), "float32"):
        with R.dataflow():
            c = R.nn.conv2d(x, w, strides=[2, 2], padding=[1, 1, 1, 1], groups=2)
            d = R.add(c, b)
            e = R.nn.relu(d)
            R.output(e)
        return e


def test_conv_add_relu() -> None:
    func = fuse(Conv)
    chain = op_infos(func)
    assert isinstance(chain, Chain), chain
    assert chain.names == ("relax.nn.conv2d", "relax.add", "relax.nn.relu")
    conv, add, relu = chain.steps
    assert (conv.operands, add.operands, relu.operands) == (
        (0, 1),
        (StepResult(0), 2),
        (StepResult(1),),
    )
    assert (conv.attrs["strides"], conv.attrs["groups"]) == ((2, 2), 2)
    assert {s.info.certificate.kind for s in chain.steps} == {"rebuilt"}
    assert chain.outputs == (StepResult(2),) and chain.kind == "kOutEWiseFusable"
    assert differs(func, chain) == 0


@tvm.script.ir_module
class Attention:
    @R.function
    def main(x: R.Tensor(("n", 4, 8), "float32"), m: R.Tensor((4, 8), "float32")) -> R.Object:
        with R.dataflow():
            s = R.nn.softmax(x, axis=-1)
            u = R.nn.silu(R.multiply(s, m))
            R.output(u)
        return u


def test_operators_of_several_blocks_and_symbolic_sizes() -> None:
    func = fuse(Attention)
    chain = op_infos(func)
    assert isinstance(chain, Chain), chain
    names = ["nn.softmax", "multiply", "nn.silu"]
    assert chain.names == tuple(f"relax.{n}" for n in names)
    assert differs(func, chain, size=3) == 0


@T.prim_func(s_tir=True)
def shared(
    x: T.Buffer((4, 6), "float32"), s: T.Buffer((4, 6), "float32"), d: T.Buffer((4, 6), "float32")
) -> None:
    e = T.sblock_alloc_buffer((4, 6), "float32")
    for i, j in T.grid(4, 6):
        with T.sblock("exp"):
            u, v = T.axis.remap("SS", [i, j])
            e[u, v] = T.exp(x[u, v])
    for i, j in T.grid(4, 6):
        with T.sblock("sum"):
            u, v = T.axis.remap("SS", [i, j])
            s[u, v] = e[u, v] + x[u, v]
    for i, j in T.grid(4, 6):
        with T.sblock("difference"):
            u, v = T.axis.remap("SS", [i, j])
            d[u, v] = s[u, v] - e[u, v]


def test_results_are_shared_and_all_outputs_listed() -> None:
    chain = op_infos(strip(shared))
    assert isinstance(chain, Chain), chain
    assert chain.names == ("relax.exp", "relax.add", "relax.subtract")
    assert chain.steps[2].operands == (StepResult(1), StepResult(0))
    assert chain.outputs == (StepResult(1), StepResult(2))
    assert differs(shared, chain) == 0


def test_one_operator_is_a_chain_of_one() -> None:
    mod = relax.transform.LegalizeOps()(Conv)
    func = strip(mod["conv2d"])
    chain = op_infos(func)
    assert isinstance(chain, Chain) and len(chain) == 1
    assert chain.steps[0].info == op_info(func)


@T.prim_func(s_tir=True)
def opaque(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")) -> None:
    a = T.sblock_alloc_buffer((4,), "float32")
    b = T.sblock_alloc_buffer((4,), "float32")
    for i in range(4):
        with T.sblock("relu"):
            v = T.axis.spatial(4, i)
            a[v] = T.max(x[v], T.float32(0))
    for i in range(4):
        with T.sblock("mystery"):
            v = T.axis.spatial(4, i)
            b[v] = T.call_extern("float32", "mystery", a[v])
    for i in range(4):
        with T.sblock("exp"):
            v = T.axis.spatial(4, i)
            y[v] = T.exp(b[v])


def test_an_opaque_step_is_reported_and_the_rest_listed() -> None:
    found = op_infos(opaque)
    assert isinstance(found, PartlyRead) and not found
    assert "b" in found.where and "mystery" in found.reason
    assert [s.name for s in found.steps] == ["relax.nn.relu", "relax.exp"]
    first, unknown, last = found.parts
    assert isinstance(unknown, OpaqueStep) and unknown.reads == (StepResult(0),)
    assert isinstance(last, Step) and last.operands == (StepResult(1),)
    assert isinstance(first, Step) and found.outputs == (StepResult(2),)
    assert found.to_json()["steps"][1]["reads"] == ["$0"] and "$1 = opaque($0)" in repr(found)


def test_what_one_statement_stores_is_one_opaque_step() -> None:
    func = tvm.script.from_source("""
@T.prim_func(s_tir=True)
def f(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32"), z: T.Buffer((64,), "float32"),
      out: T.Buffer((64,), "float32")):
    for i in T.thread_binding(64, thread="threadIdx.x"):
        with T.attr(0, "hand_threaded", 0):
            y[i] = T.call_extern("float32", "mystery", x[i])
            T.tvm_storage_sync("shared")
            z[i] = T.call_extern("float32", "mystery", y[i])
    for i in range(64):
        out[i] = T.exp(z[i])
""")
    found = op_infos(func)
    assert isinstance(found, PartlyRead)
    unknown, last = found.parts
    assert isinstance(unknown, OpaqueStep) and len(unknown.shapes) == 2
    assert isinstance(last, Step) and last.operands == (StepResult(0, 1),)
    assert found.outputs == (StepResult(0), StepResult(0, 1), StepResult(1))


def test_a_reduction_over_threads_stores() -> None:
    """Its result is not what was there before."""
    func = tvm.script.from_source("""
@T.prim_func(s_tir=True)
def f(x: T.Buffer((64,), "float32"), out: T.Buffer((64,), "float32")):
    total = T.alloc_buffer((1,), "float32", scope="local")
    total[0] = T.float32(0)
    for i in T.thread_binding(64, thread="threadIdx.x"):
        with T.attr(T.comm_reducer(lambda a, b: a + b, [T.float32(0)]), "reduce_scope", 0):
            T.tvm_thread_allreduce(T.uint32(1), x[i], T.bool(True), total[0], i)
    for i in range(64):
        out[i] = total[0]
""")
    found = op_infos(func)
    assert isinstance(found, PartlyRead)
    _, unknown, last = found.parts
    assert isinstance(unknown, OpaqueStep) and unknown.reads == (0, StepResult(0))
    assert isinstance(last, Step) and last.operands == (StepResult(1),)


@T.prim_func(s_tir=True)
def half(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")) -> None:
    a = T.sblock_alloc_buffer((4,), "float32")
    for i in range(2):
        with T.sblock("relu"):
            v = T.axis.spatial(4, i)
            a[v] = T.max(x[v], T.float32(0))
    for i in range(4):
        with T.sblock("exp"):
            v = T.axis.spatial(4, i)
            y[v] = T.exp(a[v])


@T.prim_func(s_tir=True)
def halves(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")) -> None:
    a = T.sblock_alloc_buffer((4,), "float32")
    for i in range(2):
        a[i] = T.max(x[i], T.float32(0))
    for i in range(2):
        a[i + 2] = T.max(x[i + 2], T.float32(0))
    for i in range(4):
        y[i] = T.exp(a[i])


@T.prim_func(s_tir=True)
def never(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")) -> None:
    a = T.sblock_alloc_buffer((4,), "float32")
    for i in range(4):
        with T.sblock("add"):
            v = T.axis.spatial(4, i)
            y[v] = a[v] + x[v]


@pytest.mark.parametrize("func", [half, never])
def test_a_buffer_that_is_not_written_everywhere_is_refused(func: tirx.PrimFunc) -> None:
    found = op_infos(func)
    assert isinstance(found, Refusal) and "before it is written" in found.reason


def test_a_buffer_may_be_written_in_pieces() -> None:
    chain = op_infos(halves)
    assert isinstance(chain, Chain) and chain.names == ("relax.nn.relu", "relax.exp")


@T.prim_func(s_tir=True)
def reused(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")) -> None:
    a = T.sblock_alloc_buffer((4,), "float32")
    b = T.sblock_alloc_buffer((4,), "float32")
    for i in range(4):
        a[i] = T.exp(x[i])
    for i in range(4):
        b[i] = T.max(a[i], T.float32(0))
    for i in range(4):
        a[i] = T.sqrt(b[i])
    for i in range(4):
        y[i] = a[i] + b[i]


def test_a_buffer_that_is_used_again_is_another_value() -> None:
    chain = op_infos(reused)
    assert isinstance(chain, Chain)
    assert chain.names == ("relax.exp", "relax.nn.relu", "relax.sqrt", "relax.add")
    assert set(chain.steps[3].operands) == {StepResult(1), StepResult(2)}


def test_only_prim_funcs() -> None:
    with pytest.raises(TypeError, match="PrimFunc"):
        op_infos(Conv["main"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet50", "vit_n"])
def test_real_models(name: str) -> None:
    found = measure(name, run=2)
    assert found.functions == found.same > 10 and not found.wrong and found.run == 2
