"""A shape is made once in a call, wherever it is there already; results stay what they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import from_source

from opinfo.byoc.codegen.executable import MAKE_SHAPE, executable
from opinfo.byoc.codegen.host_target import native_target
from opinfo.byoc.codegen.memory_plan import UPPER, unbounded
from opinfo.jit import Session, compile_shapes
from opinfo.jit.compile.compile_shapes import lowered
from tests.jit.modules import dense, expected, rows

#: Shapes are made before the branches, in one, in the other, and behind them.
BRANCHES = """
@I.ir_module
class Module:
    @R.function
    def main(
        c: R.Tensor((), "bool"),
        x: R.Tensor(("n", 4), "float32"),
        u: R.Tensor(("n", "n"), "float32"),
    ) -> R.Tensor(("n", 4), "float32"):
        s = R.cumsum(x, axis=0)
        if c:
            a = R.cumsum(u, axis=1)
            b = R.cumsum(a, axis=0)
            y = R.matmul(b, s)
        else:
            d = R.permute_dims(s)
            y = R.permute_dims(d)
        v = R.cumsum(u, axis=1)
        return R.matmul(v, y)
"""


def made(compiled: Any) -> list[str]:
    """What each instruction that makes a shape makes it of."""
    lines = (line.split("dst:")[0].split() for line in compiled.as_text().splitlines())
    return [" ".join(line[2:]) for line in lines if line[:2] == ["call", MAKE_SHAPE]]


def called(compiled: Any, *args: Any) -> Any:
    main = relax.VirtualMachine(compiled, tvm.cpu())["main"]
    return main(*map(tvm.runtime.tensor, args)).numpy()


def test_tensors_of_one_shape_have_one() -> None:
    mod = lowered(dense(5))
    was, found = tvm.compile(mod, native_target()), executable(mod, native_target())
    assert len(made(was)) > 5
    assert sorted(made(found)) == sorted(set(made(was)))
    for n in (1, 3, 17):
        np.testing.assert_allclose(called(found, rows(n)), expected(rows(n), 5), 1e-4, 1e-3)


def branched(n: int, taken: bool) -> tuple[list[Any], Any]:
    """Arguments of ``BRANCHES``, and its result."""
    x, u = (np.random.default_rng(k).standard_normal((n, w)).astype("float32")
            for k, w in enumerate([4, n]))  # fmt: skip
    s = np.cumsum(x, 0)
    y = np.cumsum(np.cumsum(u, 1), 0) @ s if taken else s
    return [np.array(taken), x, u], np.cumsum(u, 1) @ y


@pytest.mark.parametrize("taken", [True, False])
def test_what_a_branch_makes_is_not_there_behind_it(taken: bool) -> None:
    mod = from_source(BRANCHES)
    found = executable(mod, native_target())
    given, expected = branched(3, taken)
    np.testing.assert_allclose(called(found, *given), expected, 1e-4, 1e-4)
    assert len(set(made(found))) < len(made(found)) < len(made(tvm.compile(mod, native_target())))


def test_a_model_with_branches_is_served() -> None:
    with Session(compile_shapes(from_source(BRANCHES))) as session:
        for n, taken in [(2, True), (3, False), (3, True)] * 3:
            given, expected = branched(n, taken)
            np.testing.assert_allclose(session(*given).numpy(), expected, 1e-4, 1e-4)
            session.settle()
        assert session.stats().hit_rate > 0


INPLACE = """
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def double(a: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, T.int64(4)), "float32")
        for i, j in T.grid(n, T.int64(4)):
            with T.sblock("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = A[vi, vj] * T.float32(2)

    @R.function
    def main(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        n = T.int64()
        cls = Module
        a = R.nn.relu(x)
        b = R.call_tir_inplace(cls.double, (a,), [0], out_ty=R.Tensor((n, 4), dtype="float32"))
        c = R.nn.relu(x)
        return R.add(b, c)
"""


def test_what_is_written_in_place_is_made_twice() -> None:
    x = rows(3)[:, :4].copy()
    with Session(compile_shapes(from_source(INPLACE), "generic")) as session:
        np.testing.assert_allclose(session(x).numpy(), 3 * np.maximum(x, 0), 1e-6)


@pytest.mark.parametrize("most", [1 << 40, 64])
def test_bounds_that_no_machine_has_memory_for_are_left_out(most: int) -> None:
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((tvm.tirx.Var("n", "int64"), 16), "float32"))
    with bb.function("main", [x], attrs={UPPER: {"n": most}}):
        with bb.dataflow():
            scores = bb.emit(relax.op.matmul(x, bb.emit(relax.op.permute_dims(x))))
            out = bb.emit_output(relax.op.matmul(bb.emit(relax.op.nn.softmax(scores)), x))
        bb.emit_func_output(out)
    mod = bb.get()
    kept = tvm.IRModule(dict(mod.functions.items()))
    with Session(compile_shapes(mod, "generic")) as session:
        for n in (1, 5):
            v = rows(n)
            e = np.exp(v @ v.T - (v @ v.T).max(-1, keepdims=True))
            want = e / e.sum(-1, keepdims=True) @ v
            np.testing.assert_allclose(session(v).numpy(), want, 1e-4, 1e-4)
    tvm.ir.assert_structural_equal(mod, kept)
    assert (UPPER in unbounded(mod)["main"].attrs) == (most == 64)


DEVICES = """
@I.ir_module
class Module:
    I.module_global_infos({"vdevice": [I.vdevice("llvm")]})

    @R.function
    def main(
        x: R.Tensor(("n", 4), "float32", "llvm:0")
    ) -> R.Tensor(("n", 4), "float32", "llvm:0"):
        R.func_attr({"tir_var_upper_bound": {"n": 1099511627776}})
        with R.dataflow():
            y = R.nn.relu(x)
            z = R.add(y, y)
            R.output(z)
        return z
"""


def test_devices_that_a_module_names_stay() -> None:
    mod, kept = from_source(DEVICES), from_source(DEVICES)
    x = rows(3)[:, :4].copy()
    np.testing.assert_array_equal(called(executable(mod, "llvm"), x), 2 * np.maximum(x, 0))
    with Session(compile_shapes(mod)) as session:
        np.testing.assert_array_equal(session(x).numpy(), 2 * np.maximum(x, 0))
    tvm.ir.assert_structural_equal(mod, kept)


#: Constants as results: of a branch, in tuples of a dataflow block, and by another name.
CONSTANTS = """
@I.ir_module
class Module:
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):
        if c:
            b = R.const([1.0, 2.0], "float32")
        else:
            b = R.add(x, x)
        with R.dataflow():
            y = R.multiply(x, x)
            k = R.const([3, 4], "int64")
            inner = (y, k)
            out = (y, inner, R.const(5.0, "float32"))
            R.output(out)
        return (b, out)

    @R.function
    def bare(x: R.Tensor((2,), "float32")):
        return R.const([6.0], "float32")
"""


def test_results_that_are_constants_are_copied_in_each_call() -> None:
    def leaves(value: Any) -> list[Any]:
        if isinstance(value, tvm.runtime.Tensor):
            return [value]
        return [leaf for part in value for leaf in leaves(part)]

    mod = from_source(CONSTANTS)
    before = mod.script()
    machine = relax.VirtualMachine(executable(mod, native_target()), tvm.cpu())
    assert mod.script() == before
    x = tvm.runtime.tensor(np.array([2.0, 3.0], "float32"))
    for choice, first in ((True, [1.0, 2.0]), (False, [4.0, 6.0])):
        for _ in range(2):  # the second call gets what the first one's caller did not write to
            results = leaves(machine["main"](tvm.runtime.tensor(np.array(choice)), x))
            results += leaves(machine["bare"](x))
            want = [first, [4.0, 9.0], [4.0, 9.0], [3, 4], 5.0, [6.0]]
            assert [result.numpy().tolist() for result in results] == want
            for result in results:
                result.copyfrom(np.full(result.shape, 9, str(result.dtype)))
